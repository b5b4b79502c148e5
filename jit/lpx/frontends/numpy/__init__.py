"""Tracing of NumPy-style code into graphs, and the `jit` decorator over it."""
