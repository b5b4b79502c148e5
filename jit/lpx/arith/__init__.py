"""Proofs and simplification of index arithmetic, and value-preserving rewriting of all expressions."""
