"""What each NumPy function is in graph operators. Importing this package registers every row."""

from lpx.frontends.numpy.functions import (
    choosing,
    creation,
    diagonals,
    flipping,
    indexing,
    joining,
    linear_algebra,
    reductions,
    refused,
    shaping,
    statistics,
)

__all__ = [
    "choosing",
    "creation",
    "diagonals",
    "flipping",
    "indexing",
    "joining",
    "linear_algebra",
    "reductions",
    "refused",
    "shaping",
    "statistics",
]
