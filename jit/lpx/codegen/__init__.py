"""Flat loop-nest IR to LLVM IR text."""
