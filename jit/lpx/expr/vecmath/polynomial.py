"""Evaluation of polynomials by fused multiply-add.

Horner's rule takes the fewest operations. Loops over arrays are unrolled and run many elements at once, so it is the
number of operations that counts and not how long one chain of them takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from lpx.expr.nodes import Expr
from lpx.expr.vecmath.operations import Operand, fma


def horner(x: Expr, coefficients: Sequence[Operand]) -> Expr:
    """coefficients[0] + coefficients[1] * x + ...; at least two coefficients."""
    *rest, second, highest = coefficients
    result = fma(x, highest, second)
    for coefficient in reversed(rest):
        result = fma(result, x, coefficient)
    return result
