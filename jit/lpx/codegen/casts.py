"""Value conversions between element types, each rounded once and defined for every input."""

from __future__ import annotations

from lpx.codegen import types
from lpx.codegen.builder import Builder
from lpx.codegen.fused import round_to_odd
from lpx.codegen.narrow_floats import FORMATS, decode, encode
from lpx.codegen.types import Type, Value, floating, integer, value_type
from lpx.dtypes import DType
from lpx.errors import InternalError

_PRECISION = {"float": 24, "double": 53}


def convert(b: Builder, value: Value, source: DType, target: DType) -> Value:
    """`value` of `source` as a `target`: floats round to nearest even, floats to integers saturate with NaN as 0,
    integers wrap, anything to bool is `!= 0`.
    """
    if source == target:
        return value
    if "handle" in (source.kind, target.kind):
        raise InternalError(f"cast from {source} to {target}")
    if source.is_float:
        return _from_float(b, value, source, target)
    if target.is_float:
        return _integer_to_float(b, value, source, target)
    return _integer_to_integer(b, value, source, target)


def wrap_nibble(b: Builder, value: Value, *, signed: bool) -> Value:
    """The low 4 bits of an `i8`, extended again: how a 4-bit integer is held."""
    if not signed:
        return b.with_int("and", value, 15)
    return b.with_int("ashr", b.with_int("shl", value, 4), 4)


def _integer_to_integer(b: Builder, value: Value, source: DType, target: DType) -> Value:
    if target.is_bool:
        return b.compare("icmp ne", value, types.zero(value.type))
    resized = b.resize(value, types.element_of(target), signed=source.is_signed)
    return wrap_nibble(b, resized, signed=target.is_signed) if target.bits == 4 else resized


def _from_float(b: Builder, value: Value, source: DType, target: DType) -> Value:
    wide = decode(b, source.name, value) if source.name in FORMATS else value
    if target.is_bool:
        return b.compare("fcmp une", wide, types.zero(wide.type))
    if target.is_integer:
        return _float_to_integer(b, wide, target)
    if target.name in FORMATS:
        return encode(b, target.name, _to_float32_for_rounding(b, wide))
    return b.convert("fpext" if target.bits > wide.type.bits else "fptrunc", wide, types.element_of(target))


def _to_float32_for_rounding(b: Builder, value: Value) -> Value:
    """A float32 that rounds to any narrow float as `value` does: float64 is rounded to odd, not to nearest."""
    if value.type.element == "float":
        return value
    rounded = b.convert("fptrunc", value, "float")
    back = b.convert("fpext", rounded, "double")
    size = b.intrinsic("fabs", value.type, (value,))
    outward = b.compare("fcmp ogt", size, b.intrinsic("fabs", value.type, (back,)))
    return round_to_odd(b, rounded, b.compare("fcmp one", value, back), outward)


# --- float to integer -------------------------------------------------------------------------------------------------


def _float_to_integer(b: Builder, value: Value, target: DType) -> Value:
    """LLVM's conversions are undefined out of range, so the operand is brought into range first.

    Where the float type holds both bounds exactly (a small integer type) clamping does; otherwise the result is
    replaced, since clamping to a rounded bound would convert to the value beyond.
    """
    kind = value.type
    wide = value_type(target, kind.lanes) if target.bits >= 32 else kind.of("i32")
    op = "fptosi" if target.is_signed or target.bits < 32 else "fptoui"
    number = b.select(b.compare("fcmp uno", value, value), types.zero(kind), value)
    if target.bits < _PRECISION[kind.element]:
        low, high = floating(kind, float(target.min_value)), floating(kind, float(target.max_value))
        number = b.select(b.compare("fcmp olt", number, low), low, number)
        number = b.select(b.compare("fcmp ogt", number, high), high, number)
        return b.resize(b.convert(op, number, wide.element), types.element_of(target), signed=True)
    limit = floating(kind, float(target.max_value + 1))
    lowest = floating(kind, float(target.min_value))
    too_large = b.compare("fcmp oge", number, limit)
    too_small = b.compare("fcmp olt", number, lowest)
    inside = b.select(b.binary("or", too_large, too_small), types.zero(kind), number)
    result = b.convert(op, inside, wide.element)
    result = b.select(too_small, integer(wide, target.min_value), result)
    return b.select(too_large, integer(wide, target.max_value), result)


# --- integer to float -------------------------------------------------------------------------------------------------


def _integer_to_float(b: Builder, value: Value, source: DType, target: DType) -> Value:
    op = "sitofp" if source.is_signed else "uitofp"
    if target.name not in FORMATS:
        return b.convert(op, value, types.element_of(target))
    if source.bits < _PRECISION["float"]:
        return encode(b, target.name, b.convert(op, value, "float"))
    if source.bits > _PRECISION["double"]:
        value = _sticky(b, value, signed=source.is_signed)
    return encode(b, target.name, _to_float32_for_rounding(b, b.convert(op, value, "double")))


def _sticky(b: Builder, value: Value, *, signed: bool) -> Value:
    """A 64-bit integer that float64 holds exactly and that rounds to a narrow float as `value` does.

    A large one keeps its upper bits and, below them, one bit that says whether the rest was zero.
    """
    kind: Type = value.type
    size = b.call(kind, f"llvm.abs.{kind.mangled}", (value, types.zero(types.I1))) if signed else value
    is_large = b.compare("icmp uge", size, integer(kind, 1 << 53))
    rest = b.compare("icmp ne", b.with_int("and", value, 0xFFF), types.zero(kind))
    mark = b.select(rest, integer(kind, 0x800), types.zero(kind))
    marked = b.binary("or", b.with_int("and", value, -0x1000), mark)
    return b.select(is_large, marked, value)
