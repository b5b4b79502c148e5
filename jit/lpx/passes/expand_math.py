"""Mathematical functions to arithmetic."""

from __future__ import annotations

from lpx.expr import traverse as expr_traverse
from lpx.expr import vecmath
from lpx.expr.nodes import Call, Expr
from lpx.ir import traverse
from lpx.ir.nodes import Function
from lpx.records import record, replace


@record
class ExpandMath:
    """Replace `exp`, `tanh`, ... by the arithmetic of `lpx.expr.vecmath`, over whatever lanes they have.

    Comes after `LegalizeStorageTypes`: only float32 and float64 have expansions.
    """

    def __call__(self, function: Function) -> Function:
        memo: dict[Expr, Expr] = {}
        body = traverse.transform(function.body, on_expr=lambda e: expr_traverse.transform(e, _expand, memo))
        return function if body is function.body else replace(function, body=body)


def _expand(expr: Expr) -> Expr | None:
    return vecmath.expand(expr) if isinstance(expr, Call) and expr.op.kind == "math" else None
