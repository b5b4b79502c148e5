"""References for the mathematical functions, and errors of results in units of the last place."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx.expr import build, ops
from lpx.expr.nodes import Call
from lpx.expr.vecmath import expand
from tests.vecmath.evaluate import evaluate
from tests.vecmath.multiprecision import Real, mp

Array = NDArray[Any]

UNARY = [name for name, op in ops.MATH.items() if op.arity == 1]
BINARY = [name for name, op in ops.MATH.items() if op.arity == 2]
SPECIAL = [0.0, 1.0, 0.5, 2.0, 3.0, 1.5, 100.0, 1e10, 1e30, 1e-5, 1e-20, 2.0**-126, 2.0**-140, 2.0**-149,
           3.4028234663852886e38, math.inf]  # fmt: skip
"""Values at which functions change their ways, all of them float32 numbers but for rounding."""


def special_values(dtype: Any) -> Array:
    """Zeros, infinities, NaN, subnormal and extreme numbers of both signs."""
    extra = [] if dtype is np.float32 else [1e300, 2.0**-1022, 2.0**-1060, 2.0**-1074, 1.7976931348623157e308]
    values = np.array(SPECIAL + extra, dtype)
    return np.concatenate([values, -values, np.array([np.nan], dtype)])


def compute(name: str, *args: Array) -> Array:
    """The function by its expansion, evaluated exactly as compiled code would."""
    variables = [build.var("x", a.dtype) for a in args]
    call = build.call(name, *variables)
    assert isinstance(call, Call)
    return evaluate(expand(call), dict(zip(variables, args, strict=True)))


def reference(name: str, *args: Array) -> Array:
    """The function of float32 operands in float64, to far better than half a unit of a float32 result."""
    with np.errstate(all="ignore"):
        if name == "nextafter":
            return np.nextafter(*args).astype(np.float64)
        return _REFERENCES[name](*[a.astype(np.float64) for a in args])


def exact(name: str, *args: float) -> Real:
    """The function of finite float64 operands in its domain as an mpmath number."""
    return _EXACT[name](*map(mp.mpf, args))


def ulps(got: Array, true: Array) -> Array:
    """Errors of float32 results; infinite where one is NaN, infinite or a zero of another sign and the other is not."""
    with np.errstate(all="ignore"):
        rounded = true.astype(np.float32)
        unit = np.ldexp(1.0, np.clip(np.frexp(true)[1] - 24, -149, 104))
        error = np.abs(_finite(got) - np.where(np.isinf(rounded), np.clip(true, -(2.0**128), 2.0**128), true)) / unit
        same = (np.isnan(got) & np.isnan(true)) | (got == rounded) & (np.signbit(got) == np.signbit(true))
    wrong = np.isnan(got) | np.isnan(true) | (got == 0) & (np.signbit(got) != np.signbit(true)) | np.isnan(error)
    return np.where(same & ~(np.isfinite(got) & (got != 0)), 0.0, np.where(wrong, np.inf, error))


def worst_ulps(got: Array, true: Array) -> tuple[float, int]:
    """The largest error of float32 results and where it is; half a unit if all are correctly rounded."""
    with np.errstate(all="ignore"):
        rounded = true.astype(np.float32)
    places = np.flatnonzero((got.view(np.int32) != rounded.view(np.int32)) & ~(np.isnan(got) & np.isnan(rounded)))
    if not places.size:
        return 0.5, 0
    errors = ulps(got[places], true[places])
    index = int(np.argmax(errors))
    return float(errors[index]), int(places[index])


def ulps_exact(got: float, true: Real) -> float:
    """The error of one float64 result against an mpmath number."""
    if math.isnan(got) or mp.isnan(true):
        return 0.0 if math.isnan(got) and mp.isnan(true) else math.inf
    if mp.isinf(true) or abs(true) >= mp.mpf(2) ** 1024 * (1 - mp.mpf(2) ** -54):
        return 0.0 if got == math.copysign(math.inf, true) else math.inf
    if not true:
        return 0.0 if got == 0 else math.inf
    exponent = max(int(mp.floor(mp.log(abs(true), 2))) - 52, -1074)
    value = math.copysign(2.0**1023, got) * mp.mpf(2) if math.isinf(got) else mp.mpf(got)
    return float(abs(value - true) / mp.mpf(2) ** exponent)


def _finite(x: Array) -> Array:
    """float32 numbers as float64, infinities as the number that would come after the largest."""
    return np.clip(x.astype(np.float64), -(2.0**128), 2.0**128)


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def _rsqrt(x: Array) -> Array:
    result: Array = 1 / np.sqrt(x)
    return result


_SPECIAL: Any = importlib.import_module("scipy.special")  # it has no types
_REFERENCES: dict[str, Callable[..., Array]] = {
    **{name: getattr(np, name) for name in "exp exp2 expm1 log log2 log10 log1p tanh cbrt sin cos tan".split()},
    **{f"a{name}": getattr(np, f"arc{name}") for name in "sin cos tan sinh cosh tanh tan2".split()},
    **{name: getattr(np, name) for name in "sinh cosh hypot fmod".split()},
    "sigmoid": _sigmoid,
    "erf": _SPECIAL.erf,
    "erfc": _SPECIAL.erfc,
    "rsqrt": _rsqrt,
    "pow": np.power,
}

_EXACT: dict[str, Callable[..., Real]] = {
    name: getattr(mp, name)
    for name in "exp expm1 log log10 log1p tanh sinh cosh asinh acosh atanh sin cos tan asin acos atan atan2 erf erfc "
    "hypot".split()
}
_EXACT_OF_ONE: dict[str, Callable[[Real], Real]] = {
    "exp2": lambda x: mp.mpf(2) ** x,
    "log2": lambda x: mp.log(x, 2),
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
}
_EXACT_OF_TWO: dict[str, Callable[[Real, Real], Real]] = {
    "pow": mp.power,
    "fmod": lambda x, y: mp.sign(x) * mp.fmod(abs(x), abs(y)),
}
_EXACT.update(_EXACT_OF_ONE)
_EXACT.update(_EXACT_OF_TWO)

PRECISION = 240
"""Bits that `exact` needs where results nearly cancel; sines of large angles need the exponent's bits on top."""


def working_precision(name: str, *args: float) -> int:
    """Bits to compute `exact` with: enough for the integer part of a large angle, or of a long division."""
    if name not in ("sin", "cos", "tan", "fmod"):
        return PRECISION
    exponents = [0, *(math.frexp(a)[1] for a in args)]
    return PRECISION + max(exponents) - min(exponents)
