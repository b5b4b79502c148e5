"""The one table of operators. Importing this package registers every row."""

from lpx.graph.operators import contraction, elementwise, movement, nn, reduction

__all__ = ["contraction", "elementwise", "movement", "nn", "reduction"]
