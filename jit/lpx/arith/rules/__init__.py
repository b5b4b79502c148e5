"""Rewriting rules as tables, one file per family of operations."""
