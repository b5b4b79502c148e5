"""Mathematical functions as arithmetic: what compiled code and the reference interpreter both compute.

`expand` rewrites a call of a `math` operation into additions, multiplications, fused multiply-adds, comparisons,
selections and bit operations, for any number of lanes, without branches or tables. Every result is thereby the same to
the bit on all targets. Special values follow C99 (Annex F).
"""

from __future__ import annotations

from collections.abc import Callable

from lpx.errors import InternalError
from lpx.expr.nodes import Call, Expr
from lpx.expr.vecmath import (
    error_function,
    exponential,
    hyperbolic,
    inverse_trigonometric,
    logarithm,
    power,
    remainder,
    trigonometric,
)
from lpx.expr.vecmath.formats import format_of

_EXPANSIONS: dict[str, Callable[..., Expr]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "sigmoid": exponential.sigmoid,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "tanh": hyperbolic.tanh,
    "sinh": hyperbolic.sinh,
    "cosh": hyperbolic.cosh,
    "asinh": hyperbolic.asinh,
    "acosh": hyperbolic.acosh,
    "atanh": hyperbolic.atanh,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "asin": inverse_trigonometric.asin,
    "acos": inverse_trigonometric.acos,
    "atan": inverse_trigonometric.atan,
    "atan2": inverse_trigonometric.atan2,
    "erf": error_function.erf,
    "erfc": error_function.erfc,
    "rsqrt": power.rsqrt,
    "cbrt": power.cbrt,
    "hypot": power.hypot,
    "pow": power.power,
    "fmod": remainder.fmod,
    "nextafter": remainder.nextafter,
}


def expand(call: Call) -> Expr:
    """The arithmetic that computes a `math` operation of float32 or float64 operands.

    Raises: InternalError when the operation is no mathematical function or the dtype is narrower than float32.
    """
    expansion = _EXPANSIONS.get(call.op.name)
    if expansion is None:
        raise InternalError(f"{call.op.name} is no mathematical function")
    format_of(call)
    return expansion(*call.args)
