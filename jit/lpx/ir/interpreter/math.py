"""Mathematical functions, through the same expansion into arithmetic that compiled code goes through."""

from __future__ import annotations

from lpx import dtypes
from lpx.expr import build
from lpx.expr.nodes import Call, Expr
from lpx.expr.vecmath import expand


def expand_math(expr: Expr) -> Expr | None:
    """A mathematical call as arithmetic; None for any other node. Narrow floats are computed in float32."""
    if not isinstance(expr, Call) or expr.op.kind != "math":
        return None
    if expr.dtype.bits >= 32:
        return expand(expr)
    wide = build.call(expr.op, *[build.cast(a, dtypes.float32) for a in expr.args])
    expanded = expand_math(wide)
    return build.cast(wide if expanded is None else expanded, expr.dtype)
