"""The one table of operators. Importing this package registers every row."""

from lpx.graph.operator import lookup, names
from lpx.graph.operators import contraction, elementwise, movement, nn, reduction

__all__ = ["contraction", "elementwise", "lookup", "movement", "names", "nn", "reduction"]
