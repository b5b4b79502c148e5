"""Integer division, shifts and counts that never trap and never give poison.

The processor's division instructions trap on a zero divisor and on INT_MIN / -1. Here the divisor is replaced by 1 in
both cases: the second then wraps as it should, and whether a zero divisor is an error is for the caller to check.
"""

from __future__ import annotations

from typing import Literal

from lpx.codegen import types
from lpx.codegen.builder import Builder
from lpx.codegen.types import I1, Value, integer, type_of

Division = Literal["floordiv", "floormod", "truncdiv", "truncmod"]
Shift = Literal["shl", "shr"]

_VECTOR_DIVISION_BITS = 32  # up to here a float64 quotient, truncated, is exact


def constant_of(value: Value) -> int | None:
    """The integer a constant operand stands for (in every lane), or None."""
    text = value.ref
    if value.type.lanes > 1:
        if not text.startswith("splat ("):
            return None
        text = text[len("splat (") : -1].rpartition(" ")[2]
    return int(text) if text.lstrip("-").isdigit() else None


def divide(b: Builder, op: Division, x: Value, y: Value, *, signed: bool) -> Value:
    """`x op y`; the result where a divisor is zero is some value."""
    constant = constant_of(y)
    if constant is not None and constant != 0:
        return _divide_by_constant(b, op, x, constant, signed=signed)
    y = _safe_divisor(b, x, y, signed=signed)
    quotient = _quotient(b, x, y, signed=signed)
    if op == "truncdiv" or (op == "floordiv" and not signed):
        return quotient
    remainder = b.binary("sub", x, b.binary("mul", quotient, y))
    if op == "truncmod" or not signed:
        return remainder
    # Truncation and floor differ by one where the remainder is not zero and its sign is not the divisor's.
    differs = b.compare("icmp slt", b.binary("xor", remainder, y), types.zero(x.type))
    inexact = b.compare("icmp ne", remainder, types.zero(x.type))
    lower = b.binary("and", differs, inexact)
    if op == "floordiv":
        return b.binary("add", quotient, b.convert("sext", lower, x.type.element))
    return b.binary("add", remainder, b.select(lower, y, types.zero(x.type)))


def _divide_by_constant(b: Builder, op: Division, x: Value, y: int, *, signed: bool) -> Value:
    power = y.bit_length() - 1
    if y == 1 << power and op.startswith("floor" if signed else ""):
        if op.endswith("mod"):
            return b.with_int("and", x, y - 1)
        return b.with_int("ashr" if signed else "lshr", x, power) if power else x
    if op.endswith("mod"):
        whole = _divide_by_constant(b, "floordiv" if op == "floormod" else "truncdiv", x, y, signed=signed)
        return b.binary("sub", x, b.with_int("mul", whole, y))
    if y == -1:  # the one constant that can overflow: sdiv would be undefined
        return b.binary("sub", types.zero(x.type), x)
    if not signed or op == "truncdiv":
        return b.with_int("sdiv" if signed else "udiv", x, y)
    if y < 0:
        return _floor_by_negative(b, x, y)
    # floor(x / y) of a negative x is -1 - (-1 - x) // y, and ~x is -1 - x: one unsigned division serves both signs.
    sign = b.with_int("ashr", x, x.type.bits - 1)
    return b.binary("xor", b.with_int("udiv", b.binary("xor", x, sign), y), sign)


def _floor_by_negative(b: Builder, x: Value, y: int) -> Value:
    quotient = b.with_int("sdiv", x, y)
    remainder = b.binary("sub", x, b.with_int("mul", quotient, y))
    lower = b.compare("icmp sgt", remainder, types.zero(x.type))
    return b.binary("add", quotient, b.convert("sext", lower, x.type.element))


def _safe_divisor(b: Builder, x: Value, y: Value, *, signed: bool) -> Value:
    one = integer(y.type, 1)
    bad = b.compare("icmp eq", y, types.zero(y.type))
    if signed:
        lowest = b.compare("icmp eq", x, integer(x.type, -(1 << (x.type.bits - 1))))
        bad = b.binary("or", bad, b.binary("and", lowest, b.compare("icmp eq", y, integer(y.type, -1))))
    return b.select(bad, one, y)


def _quotient(b: Builder, x: Value, y: Value, *, signed: bool) -> Value:
    if x.type.lanes == 1 or x.type.bits > _VECTOR_DIVISION_BITS:
        return b.binary("sdiv" if signed else "udiv", x, y)
    # No processor divides integer vectors. With |x|, |y| < 2**32 the exact quotient is either an integer or at least
    # 2**-32 of itself away from one, so rounding to 53 bits cannot carry it across.
    to, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    ratio = b.emit(
        x.type.of("double"),
        f"fdiv {x.type.of('double').text} {b.convert(to, x, 'double').ref}, {b.convert(to, y, 'double').ref}",
    )
    return b.convert(back, ratio, x.type.element)


def shift(b: Builder, op: Shift, x: Value, y: Value, *, signed: bool) -> Value:
    """`x op y`, where a count of the width or more (or a negative one) shifts everything out."""
    bits = x.type.bits
    instruction = "shl" if op == "shl" else ("ashr" if signed else "lshr")
    most = integer(x.type, bits - 1)
    constant = constant_of(y)
    if constant is not None and 0 <= constant < bits:
        return b.binary(instruction, x, y)
    if instruction == "ashr":
        return b.binary("ashr", x, b.intrinsic("umin", x.type, (y, most)))
    inside = b.compare("icmp ule", y, most)
    return b.select(inside, b.binary(instruction, x, b.binary("and", y, most)), types.zero(x.type))


def absolute(b: Builder, x: Value, *, signed: bool) -> Value:
    """|x|; the most negative value stays."""
    return b.call(x.type, f"llvm.abs.{x.type.mangled}", (x, types.zero(I1))) if signed else x


def count_zeros(b: Builder, name: Literal["ctlz", "cttz"], x: Value) -> Value:
    """Leading or trailing zero bits; the width for 0."""
    return b.call(x.type, f"llvm.{name}.{x.type.mangled}", (x, types.zero(I1)))


def multiply_high(b: Builder, x: Value, y: Value, *, signed: bool) -> Value:
    """The upper half of the double-width product."""
    wide = type_of(f"i{2 * x.type.bits}", x.type.lanes)
    extend = "sext" if signed else "zext"
    product = b.binary("mul", b.convert(extend, x, wide.element), b.convert(extend, y, wide.element))
    return b.convert("trunc", b.with_int("lshr", product, x.type.bits), x.type.element)
