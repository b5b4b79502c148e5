"""Mathematical functions as arithmetic: what compiled code and the reference interpreter both compute.

`expand` rewrites a call of a `math` operation into additions, multiplications, fused multiply-adds, comparisons,
selections, bit operations and lookups in small tables, for any number of lanes. What operands out of the ordinary need
is the first side of a `select(unlikely(...), ...)`, which code generation puts behind a branch. Every result is thereby
the same to the bit on all targets. Special values follow C99 (Annex F).
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
from lpx.records import record


@record
class Expansion:
    """How a function is computed, and bounds of its error in units of the last place, for float32 and float64.

    A unit is the distance between neighbouring numbers at the true result. The float32 bounds hold for all operands of
    functions of one operand (tests of all 2**32 of them exist) and for millions of samples of the others; the float64
    bounds hold for millions of samples that cover all exponents.
    """

    function: Callable[..., Expr]
    ulp_single: float
    ulp_double: float


EXPANSIONS: dict[str, Expansion] = {
    "exp": Expansion(exponential.exp, 1.0, 1.0),
    "exp2": Expansion(exponential.exp2, 1.0, 1.0),
    "expm1": Expansion(exponential.expm1, 2.0, 2.0),
    "sigmoid": Expansion(exponential.sigmoid, 2.0, 2.0),
    "log": Expansion(logarithm.log, 1.0, 1.5),
    "log2": Expansion(logarithm.log2, 1.75, 2.0),
    "log10": Expansion(logarithm.log10, 1.5, 1.5),
    "log1p": Expansion(logarithm.log1p, 2.0, 2.0),
    "tanh": Expansion(hyperbolic.tanh, 2.0, 2.0),
    "sinh": Expansion(hyperbolic.sinh, 2.0, 2.5),
    "cosh": Expansion(hyperbolic.cosh, 2.5, 2.5),
    "asinh": Expansion(hyperbolic.asinh, 2.5, 2.5),
    "acosh": Expansion(hyperbolic.acosh, 2.5, 2.5),
    "atanh": Expansion(hyperbolic.atanh, 2.5, 3.0),
    "sin": Expansion(trigonometric.sin, 2.0, 1.5),
    "cos": Expansion(trigonometric.cos, 2.0, 1.5),
    "tan": Expansion(trigonometric.tan, 3.5, 3.0),
    "asin": Expansion(inverse_trigonometric.asin, 2.5, 2.5),
    "acos": Expansion(inverse_trigonometric.acos, 1.5, 1.5),
    "atan": Expansion(inverse_trigonometric.atan, 1.5, 2.0),
    "atan2": Expansion(inverse_trigonometric.atan2, 2.0, 2.0),
    "erf": Expansion(error_function.erf, 2.0, 1.5),
    "erfc": Expansion(error_function.erfc, 3.0, 4.0),
    "rsqrt": Expansion(power.rsqrt, 1.5, 1.5),
    "cbrt": Expansion(power.cbrt, 1.0, 1.0),
    "hypot": Expansion(power.hypot, 1.5, 1.5),
    "pow": Expansion(power.power, 1.5, 1.75),
    "fmod": Expansion(remainder.fmod, 0.0, 0.0),
    "nextafter": Expansion(remainder.nextafter, 0.0, 0.0),
}
"""Every `math` operation of `lpx.expr.ops`."""

ULP_BOUNDS: dict[str, tuple[float, float]] = {
    name: (row.ulp_single, row.ulp_double) for name, row in EXPANSIONS.items()
}


def expand(call: Call) -> Expr:
    """The arithmetic that computes a `math` operation of float32 or float64 operands.

    Raises: InternalError when the operation is no mathematical function or the dtype is narrower than float32.
    """
    expansion = EXPANSIONS.get(call.op.name)
    if expansion is None:
        raise InternalError(f"{call.op.name} is no mathematical function")
    format_of(call)
    return expansion.function(*call.args)
