"""What each NumPy function is in graph operators. Importing this package registers every row."""

from lpx.frontends.numpy.functions import creation, indexing, reductions, shaping

__all__ = ["creation", "indexing", "reductions", "shaping"]
