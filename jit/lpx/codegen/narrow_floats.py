"""Conversions between float32 and the narrow floats, by their bits.

Narrow values are held as integers. Encoding rounds to nearest even, decoding is exact; both keep subnormals. Hardware
conversions serve float16 where the processor has them. `vcvtneps2bf16` does not serve bfloat16: it flushes subnormals.
"""

from __future__ import annotations

import math

from lpx.codegen import types
from lpx.codegen.builder import Builder
from lpx.codegen.types import Value, floating, integer
from lpx.records import record

_MANTISSA = 23  # bits of a float32's fraction
_BIAS = 127
_INFINITY = 0x7F800000
_SIGN = 0x80000000


@record
class Format:
    """A binary float format of `bits` bits with `mantissa` fraction bits and exponent `bias`.

    Codes above `largest` (the largest finite magnitude) are infinities or NaNs: `overflow` is what too large a value
    becomes, `nan` a quiet NaN.
    """

    bits: int
    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int

    @property
    def has_infinity(self) -> bool:
        return self.overflow != self.nan

    def code(self, value: float) -> int:
        """The code of a value that the format holds."""
        sign = (1 << (self.bits - 1)) if math.copysign(1.0, value) < 0 else 0
        if math.isnan(value):
            return sign | self.nan
        if math.isinf(value):
            return sign | self.overflow
        if value == 0.0:
            return sign
        exponent = max(math.frexp(value)[1] - 1, 1 - self.bias)  # subnormals share the lowest exponent
        fraction = int(math.ldexp(abs(value), self.mantissa - exponent))
        return sign | (((exponent + self.bias - 1) << self.mantissa) + fraction)


FORMATS: dict[str, Format] = {
    "float16": Format(16, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
    "bfloat16": Format(16, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    "float8_e5m2": Format(8, 2, 15, 0x7B, 0x7C, 0x7E),
    "float8_e4m3fn": Format(8, 3, 7, 0x7E, 0x7F, 0x7F),
}


def decode(b: Builder, name: str, code: Value) -> Value:
    """Codes of the format `name` as float32s."""
    if name == "float16" and b.capabilities.half_casts:
        half = b.reinterpret(code, code.type.of("half"))
        return b.convert("fpext", half, "float")
    form = FORMATS[name]
    wide = b.convert("zext", code, "i32")
    if form.bias == _BIAS:  # a float32 cut short
        return _as_float(b, b.with_int("shl", wide, 32 - form.bits))
    magnitude = b.with_int("and", wide, (1 << (form.bits - 1)) - 1)
    placed = b.with_int("shl", magnitude, _MANTISSA - form.mantissa)
    # With the fields in place only the bias is off, and a multiplication by a power of two mends that, subnormals too.
    scale = floating(placed.type.of("float"), 2.0 ** (_BIAS - form.bias))
    value = _as_bits(b, b.binary("fmul", _as_float(b, placed), scale))
    special = b.compare("icmp ugt", magnitude, integer(magnitude.type, form.largest))
    nan_or_infinity = b.with_int("or", placed, _INFINITY) if form.has_infinity else integer(placed.type, 0x7FC00000)
    finite_or_not = b.select(special, nan_or_infinity, value)
    sign = b.with_int("shl", b.with_int("lshr", wide, form.bits - 1), 31)
    return _as_float(b, b.binary("or", finite_or_not, sign))


def encode(b: Builder, name: str, value: Value) -> Value:
    """float32s rounded to nearest even into codes of the format `name`."""
    if name == "float16" and b.capabilities.half_casts:
        half = b.convert("fptrunc", value, "half")
        return b.reinterpret(half, value.type.of("i16"))
    form = FORMATS[name]
    bits = _as_bits(b, value)
    magnitude = b.with_int("and", bits, _SIGN - 1)
    rounded = _round_normal(b, form, magnitude)
    if form.bias != _BIAS:
        smallest_normal = (_BIAS - form.bias + 1) << _MANTISSA
        is_small = b.compare("icmp ult", magnitude, integer(magnitude.type, smallest_normal))
        rounded = b.select(is_small, _round_subnormal(b, form, magnitude), rounded)
        rounded = b.intrinsic("umin", rounded.type, (rounded, integer(rounded.type, form.overflow)))
    is_nan = b.compare("icmp ugt", magnitude, integer(magnitude.type, _INFINITY))
    code = b.select(is_nan, integer(rounded.type, form.nan), rounded)
    sign = b.with_int("shl", b.with_int("lshr", bits, 31), form.bits - 1)
    return b.convert("trunc", b.binary("or", code, sign), f"i{form.bits}")


def _round_normal(b: Builder, form: Format, magnitude: Value) -> Value:
    """Drop the low fraction bits, to nearest even (a carry runs into the exponent, as it should), and move the bias."""
    dropped = _MANTISSA - form.mantissa
    last_kept = b.with_int("and", b.with_int("lshr", magnitude, dropped), 1)
    half_less_one = (1 << (dropped - 1)) - 1
    up = b.with_int("add", b.binary("add", magnitude, last_kept), half_less_one)
    kept = b.with_int("lshr", up, dropped)
    shift = (_BIAS - form.bias) << form.mantissa
    return b.with_int("sub", kept, shift) if shift else kept


def _round_subnormal(b: Builder, form: Format, magnitude: Value) -> Value:
    """Adding a power of two whose last place is the format's smallest subnormal leaves the code in the fraction."""
    power = 1 - form.bias - form.mantissa + _MANTISSA
    magic = floating(magnitude.type.of("float"), 2.0**power)
    total = _as_bits(b, b.binary("fadd", _as_float(b, magnitude), magic))
    return b.with_int("sub", total, (power + _BIAS) << _MANTISSA)


def _as_float(b: Builder, bits: Value) -> Value:
    return b.reinterpret(bits, bits.type.of("float"))


def _as_bits(b: Builder, value: Value) -> Value:
    return b.reinterpret(value, types.type_of("i32", value.type.lanes))
