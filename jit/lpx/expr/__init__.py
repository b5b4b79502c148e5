"""Scalar and vector expressions: nodes, builders, traversal."""
