"""Mathematical functions, through the same expansion into arithmetic that compiled code goes through."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import InternalError
from lpx.expr import build
from lpx.expr.nodes import Call, Expr
from lpx.expr.vecmath import expand
from lpx.ir import scalars


def expand_math(expr: Expr) -> Expr | None:
    """A mathematical call as arithmetic; None for any other node. Narrow floats are computed in float32."""
    if not isinstance(expr, Call) or expr.op.kind != "math":
        return None
    if expr.dtype.bits < 32:
        wide = build.call(expr.op, *[build.cast(a, dtypes.float32) for a in expr.args])
        return build.cast(wide, expr.dtype) if (found := expand_math(wide)) is None else build.cast(found, expr.dtype)
    try:
        return expand(expr)
    except InternalError:  # not written as arithmetic yet
        return None


def approximate(name: str, dtype: DType) -> Callable[..., scalars.Value]:
    """A mathematical function that has no expansion, computed by NumPy in float64 and rounded."""
    function, rounded = _NUMPY[name], scalars.round_float(dtype)
    kind = np.float32 if name == "nextafter" and dtype == dtypes.float32 else np.float64

    def apply(*args: float) -> float:
        with np.errstate(all="ignore"):
            result: float = rounded(float(function(*[kind(a) for a in args])))
            return result

    return apply


def _sigmoid(x: np.float64) -> float:
    return float(1 / (1 + np.exp(-x)))


def _rsqrt(x: np.float64) -> float:
    return float(1 / np.sqrt(x))


_NUMPY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in "exp exp2 expm1 log log2 log10 log1p tanh cbrt sin cos tan".split()},
    **{f"a{name}": getattr(np, f"arc{name}") for name in "sin cos tan sinh cosh tanh".split()},
    **{name: getattr(np, name) for name in "sinh cosh hypot fmod nextafter".split()},
    "sigmoid": _sigmoid,
    "erf": math.erf,
    "erfc": math.erfc,
    "rsqrt": _rsqrt,
    "pow": np.power,
    "atan2": np.arctan2,
}
