"""What each NumPy ufunc is in graph operators. Operands arrive in the ufunc's loop dtypes."""

from __future__ import annotations

import math
from typing import Any

from lpx import dtypes
from lpx.frontends.numpy.registry import UfuncRow, ufunc
from lpx.graph.builder import GraphBuilder
from lpx.graph.nodes import Value

# NumPy's name -> the operator of the same meaning
_SAME = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "maximum": "max", "minimum": "min",
    "negative": "neg", "absolute": "abs", "fabs": "abs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "rint": "rint", "copysign": "copysign", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite", "signbit": "signbit",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "cbrt": "cbrt",
    "arctan2": "atan2", "hypot": "hypot", "nextafter": "nextafter", "sign": "sign", "invert": "not",
    "bitwise_and": "bitand", "bitwise_or": "bitor", "bitwise_xor": "bitxor", "left_shift": "shl", "right_shift": "shr",
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "matmul": "matmul", "positive": "identity",
    "conjugate": "identity",
}  # fmt: skip
_SWAPPED = {"greater": "lt", "greater_equal": "le"}


def _plain(operator: str) -> UfuncRow:
    return lambda builder, *operands: builder.add(operator, operands)


def _swapped(operator: str) -> UfuncRow:
    return lambda builder, a, b: builder.add(operator, (b, a))


for _numpy, _operator in _SAME.items():
    ufunc(_numpy)(_plain(_operator))
for _numpy, _operator in _SWAPPED.items():
    ufunc(_numpy)(_swapped(_operator))


def number(builder: GraphBuilder, value: float, like: Value) -> Value:
    """A constant of the dtype of `like`."""
    return builder.add("full", (), shape=(), value=value, dtype=like.dtype.name)


def as_bool(builder: GraphBuilder, x: Value) -> Value:
    """Whether each element is not zero."""
    return x if x.dtype == dtypes.bool_ else builder.add("cast", (x,), dtype="bool")


@ufunc("logical_not")
def _logical_not(builder: GraphBuilder, x: Value) -> Value:
    return builder.add("not", (as_bool(builder, x),))


def _logical(operator: str) -> UfuncRow:
    def row(builder: GraphBuilder, a: Value, b: Value) -> Value:
        return builder.add(operator, (as_bool(builder, a), as_bool(builder, b)))

    return row


ufunc("logical_and")(_logical("bitand"))
ufunc("logical_or")(_logical("bitor"))
ufunc("logical_xor")(_logical("bitxor"))


@ufunc("square")
def _square(builder: GraphBuilder, x: Value) -> Value:
    return builder.add("mul", (x, x))


@ufunc("reciprocal")
def _reciprocal(builder: GraphBuilder, x: Value) -> Value:
    operator = "div" if x.dtype.is_float else "truncdiv"
    return builder.add(operator, (number(builder, 1, x), x))


def _scaled(factor: float) -> UfuncRow:
    def row(builder: GraphBuilder, x: Value) -> Value:
        return builder.add("mul", (x, number(builder, factor, x)))

    return row


ufunc("degrees", "rad2deg")(_scaled(180 / math.pi))
ufunc("radians", "deg2rad")(_scaled(math.pi / 180))


@ufunc("fmax")
def _fmax(builder: GraphBuilder, a: Value, b: Value) -> Value:
    return _ignoring_nan(builder, "max", a, b)


@ufunc("fmin")
def _fmin(builder: GraphBuilder, a: Value, b: Value) -> Value:
    return _ignoring_nan(builder, "min", a, b)


def _ignoring_nan(builder: GraphBuilder, operator: str, a: Value, b: Value) -> Value:
    both = builder.add(operator, (a, b))
    if not a.dtype.is_float:
        return both
    a_or_b = builder.add("where", (builder.add("isnan", (b,)), a, both))
    return builder.add("where", (builder.add("isnan", (a,)), b, a_or_b))


@ufunc("fmod")
def _fmod(builder: GraphBuilder, a: Value, b: Value) -> Value:
    return builder.add("fmod" if a.dtype.is_float else "truncmod", (a, b))


@ufunc("floor_divide")
def _floor_divide(builder: GraphBuilder, a: Value, b: Value) -> Value:
    return _float_divmod(builder, a, b)[0] if a.dtype.is_float else builder.add("floordiv", (a, b))


@ufunc("remainder")
def _remainder(builder: GraphBuilder, a: Value, b: Value) -> Value:
    return _float_divmod(builder, a, b)[1] if a.dtype.is_float else builder.add("floormod", (a, b))


@ufunc("divmod")
def _divmod(builder: GraphBuilder, a: Value, b: Value) -> tuple[Value, Value]:
    if a.dtype.is_float:
        return _float_divmod(builder, a, b)
    return builder.add("floordiv", (a, b)), builder.add("floormod", (a, b))


def _float_divmod(builder: GraphBuilder, a: Value, b: Value) -> tuple[Value, Value]:
    """Python's float division and modulo, as NumPy computes them: from fmod, with the sign of the divisor."""
    add = builder.add
    zero, one = number(builder, 0.0, a), number(builder, 1.0, a)
    truncated = add("fmod", (a, b))
    inexact = add("ne", (truncated, zero))
    opposed = add("bitxor", (add("lt", (b, zero)), add("lt", (truncated, zero))))
    moved = add("bitand", (inexact, opposed))
    modulo = add("where", (moved, add("add", (truncated, b)), add("copysign", (truncated, b))))
    modulo = add("where", (inexact, add("where", (moved, modulo, truncated)), modulo))
    quotient = add("div", (add("sub", (a, truncated)), b))
    quotient = add("where", (moved, add("sub", (quotient, one)), quotient))
    floored = add("floor", (quotient,))
    nudged = add("where", (add("lt", (number(builder, 0.5, a), add("sub", (quotient, floored)))), add("add", (floored, one)), floored))
    signed_zero = add("copysign", (zero, add("div", (a, b))))
    exact = add("where", (add("ne", (quotient, zero)), nudged, signed_zero))
    by_zero = add("eq", (b, zero))
    return add("where", (by_zero, add("div", (a, b)), exact)), modulo


@ufunc("power", "float_power")
def _power(builder: GraphBuilder, a: Value, b: Value) -> Value:
    return builder.add("pow" if a.dtype.is_float else "integer_power", (a, b))


@ufunc("heaviside")
def _heaviside(builder: GraphBuilder, x: Value, at_zero: Value) -> Value:
    add, zero, one = builder.add, number(builder, 0.0, x), number(builder, 1.0, x)
    step = add("where", (add("lt", (x, zero)), zero, add("where", (add("lt", (zero, x)), one, x))))
    return add("where", (add("eq", (x, zero)), at_zero, step))


def _log_add(exp: str, log: str) -> UfuncRow:
    """log(exp(a) + exp(b)) without overflow: the larger, plus the log of 1 + exp of minus their distance."""

    def row(builder: GraphBuilder, a: Value, b: Value) -> Value:
        add = builder.add
        larger = add("max", (a, b))
        distance = add("abs", (add("sub", (a, b)),))
        shrunk = add(exp, (add("neg", (distance,)),))
        if log == "log1p":
            correction = add("log1p", (shrunk,))
        else:
            correction = add("mul", (add("log1p", (shrunk,)), number(builder, 1 / math.log(2), a)))
        equal = add("eq", (a, b))  # two infinities of one sign have distance NaN
        step = number(builder, math.log(2) if log == "log1p" else 1.0, a)
        return add("where", (equal, add("add", (a, step)), add("add", (larger, correction))))

    return row


ufunc("logaddexp")(_log_add("exp", "log1p"))
ufunc("logaddexp2")(_log_add("exp2", "log2"))


@ufunc("bitwise_count")
def _bitwise_count(builder: GraphBuilder, x: Value) -> Value:
    magnitude: Any = builder.add("abs", (x,)) if x.dtype.is_signed else x
    return builder.add("cast", (builder.add("popcount", (magnitude,)),), dtype="uint8")
