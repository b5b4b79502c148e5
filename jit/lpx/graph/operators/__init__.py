"""The one table of operators. Importing this package registers every row."""

from lpx.graph.operator import lookup, names
from lpx.graph.operators import (
    activation,
    contraction,
    elementwise,
    gathering,
    integers,
    movement,
    normalization,
    pooling,
    reduction,
    reshaping,
    scan,
)

__all__ = [
    "activation",
    "contraction",
    "elementwise",
    "gathering",
    "integers",
    "lookup",
    "movement",
    "names",
    "normalization",
    "pooling",
    "reduction",
    "reshaping",
    "scan",
]
