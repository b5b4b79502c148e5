"""Floats by their bits: ldexp, frexp, nextafter."""

from __future__ import annotations

from lpx import dtypes
from lpx.dtypes import DType
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph.operators.contraction import accumulator
from lpx.graph.operators.elementwise import elementwise
from lpx.records import record


@record
class _Layout:
    """The exponents of normal numbers lie in [low, high]; `fraction` bits follow the exponent."""

    integer: DType
    fraction: int
    low: int
    high: int


_LAYOUTS = {
    dtypes.float32: _Layout(dtypes.int32, 23, -126, 127),
    dtypes.float64: _Layout(dtypes.int64, 52, -1022, 1023),
}


def _power_of_two(exponent: Expr, dtype: DType) -> Expr:
    layout = _LAYOUTS[dtype]
    return build.bitcast((build.cast(exponent, layout.integer) + layout.high) << layout.fraction, dtype)


def _ldexp(x: Expr, exponent: Expr) -> Expr:
    """x * 2**exponent, rounded once: out of the range of normal powers it multiplies in steps that are exact."""
    dtype = accumulator(x.dtype)
    layout = _LAYOUTS[dtype]
    value, left = build.cast(x, dtype), build.cast(exponent, "int64")
    step_down = layout.low + layout.fraction + 1  # leaves the value normal, so that only the last step rounds
    for _ in range(2):
        above, below = left > layout.high, left < layout.low
        step = build.select(above, layout.high, build.select(below, build.const(step_down), 0))
        value = value * _power_of_two(step, dtype)
        left = left - step
    left = build.maximum(build.minimum(left, layout.high), layout.low)
    return build.cast(value * _power_of_two(left, dtype), x.dtype)


def _parts(x: Expr) -> tuple[Expr, Expr, Expr, DType]:
    """Whether frexp splits x (not for 0, infinities and NaN), x made normal, its exponent field, and their dtype."""
    dtype = accumulator(x.dtype)
    layout = _LAYOUTS[dtype]
    value = build.cast(x, dtype)
    splits = build.call("isfinite", value) & (value != 0.0)
    tiny = build.call("abs", value) < 2.0**layout.low
    scale = layout.fraction + 1
    normal = build.select(tiny, value * 2.0**scale, value)
    bits = build.bitcast(normal, layout.integer)
    field = (bits >> layout.fraction) & (2 * layout.high + 1)
    return splits, normal, build.select(tiny, field - scale, field), dtype


def _frexp_mantissa(x: Expr) -> Expr:
    splits, normal, _, dtype = _parts(x)
    layout = _LAYOUTS[dtype]
    exponent_mask = (2 * layout.high + 1) << layout.fraction
    bits = build.bitcast(normal, layout.integer) & ~exponent_mask
    mantissa = build.bitcast(bits | ((layout.high - 1) << layout.fraction), dtype)
    return build.cast(build.select(splits, mantissa, build.cast(x, dtype)), x.dtype)


def _frexp_exponent(x: Expr) -> Expr:
    splits, _, field, dtype = _parts(x)
    exponent = build.cast(field, "int32") - (_LAYOUTS[dtype].high - 1)
    return build.select(splits, exponent, 0)


def _nextafter(x: Expr, to: Expr) -> Expr:
    """The float next to x in the direction of `to`: of one sign, integers count floats in order."""
    integer = dtypes.parse(f"int{x.dtype.bits}")
    bits = build.bitcast(x, integer)
    outwards = (x < to) == (x > 0.0)
    neighbour = build.bitcast(build.select(outwards, bits + 1, bits - 1), x.dtype)
    smallest = build.call("copysign", build.bitcast(build.const(1, integer), x.dtype), to)
    moved = build.select(x == 0.0, smallest, neighbour)
    unordered = build.call("isnan", x) | build.call("isnan", to)
    return build.select(unordered, x + to, build.select(x == to, to, moved))


elementwise("nextafter", _nextafter)
elementwise("ldexp", _ldexp)
elementwise("frexp_mantissa", _frexp_mantissa)
elementwise("frexp_exponent", _frexp_exponent)
