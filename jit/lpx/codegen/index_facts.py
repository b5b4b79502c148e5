"""What is known of index arithmetic without looking at run-time values."""

from __future__ import annotations

from math import gcd

from lpx.expr.nodes import Binary, Broadcast, Const, Expr, Ramp, Var
from lpx.expr.traverse import children

_EXACT_OPS = ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max")


class IndexFacts:
    """Divisors of index expressions, and which expressions are index arithmetic.

    Arithmetic over loop variables and extents is exact: its result fits its dtype. Arithmetic on data may wrap.
    """

    def __init__(self) -> None:
        self._multiples: dict[Var, int] = {}
        self._exact: dict[Expr, bool] = {}

    def add_variable(self, var: Var, multiple: int = 1) -> None:
        """`var` is a loop variable or an extent, and always a multiple of `multiple`."""
        self._multiples[var] = multiple
        self._exact[var] = True

    def multiple(self, expr: Expr) -> int:
        """A number that divides a scalar `expr`; 0 when it is zero."""
        match expr:
            case Const(value=value):
                return abs(int(value))
            case Var():
                return self._multiples.get(expr, 1)
            case Binary(op="add" | "sub", a=a, b=b):
                return gcd(self.multiple(a), self.multiple(b))
            case Binary(op="mul", a=a, b=b):
                return self.multiple(a) * self.multiple(b)
            case _:
                return 1

    def exact(self, expr: Expr) -> bool:
        """Whether `expr` is arithmetic over loop variables, extents and constants alone."""
        found = self._exact.get(expr)
        if found is None:
            found = self._exact[expr] = _may_be_exact(expr) and all(self.exact(c) for c in children(expr))
        return found


def _may_be_exact(expr: Expr) -> bool:
    if isinstance(expr, Binary):
        return expr.op in _EXACT_OPS
    return isinstance(expr, Const | Ramp | Broadcast)
