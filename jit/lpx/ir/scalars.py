"""What every operation means, on one Python value: the numeric rules of lpx, spelled out.

A value of an integer dtype is an int in its range, of bool a bool, of a float dtype a float that the dtype represents
exactly. Each function here takes the dtype and gives the operation on such values.
"""

from __future__ import annotations

import ctypes
import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import InternalError, RuntimeCheckError
from lpx.expr import build
from lpx.expr.nodes import BinaryOp, CompareOp, UnaryOp

Value = Any
"""bool, int or float."""
Function1 = Callable[[Value], Value]
Function2 = Callable[[Value, Value], Value]
Function3 = Callable[[Value, Value, Value], Value]


def round_float(dtype: DType) -> Function1:
    """Rounding of a float to nearest even in a float dtype, once."""
    if dtype == dtypes.float64:
        return _same
    if dtype == dtypes.float32:
        return _round_float32
    return lambda x: build.round_to(x, dtype)


def round_result(dtype: DType) -> Function1:
    """Rounding of an exact result of arithmetic: narrow floats are computed in float32, then rounded again."""
    if dtype.bits >= 32:
        return round_float(dtype)
    narrow = round_float(dtype)
    return lambda x: narrow(_round_float32(x))


def wrap_result(dtype: DType) -> Function1:
    """An exact integer result modulo 2**bits."""
    low, high, wrap = dtype.min_value, dtype.max_value, dtype.wrap
    return lambda x: x if low <= x <= high else wrap(x)


def binary(op: BinaryOp, dtype: DType) -> Function2:
    """`x op y` of two values of `dtype`.

    `min` and `max` give NaN when either operand is NaN, and of equal operands (zeros of two signs) the first.
    The divisions of integers raise RuntimeCheckError when `y` is 0. A shift by a negative amount is one by the width
    or more.
    """
    if op in ("min", "max"):
        return _minimum if op == "min" else _maximum
    if dtype.is_float:
        return _then2(_FLOAT_BINARY[op], round_result(dtype))
    if op in ("shl", "shr"):
        return _shift(op, dtype)
    if dtype.is_bool:
        return _BITS[op]
    return _then2(_INTEGER_BINARY[op], wrap_result(dtype))


def unary(op: UnaryOp, dtype: DType) -> Function1:
    """`-x` (wrapping in integers), `~x` (logical for bools)."""
    if op == "neg":
        return operator.neg if dtype.is_float else _then1(operator.neg, wrap_result(dtype))
    return operator.not_ if dtype.is_bool else _then1(operator.invert, wrap_result(dtype))


def compare(op: CompareOp) -> Function2:
    """`x op y` as a bool; false for NaN, but `ne` true."""
    return _COMPARES[op]


def cast(source: DType, target: DType) -> Function1:
    """Value conversion, rounded once and to nearest even where the target is a float."""
    if target.is_bool:
        return lambda x: x != 0
    if target.is_float:
        convert = round_float(target)
        if source.is_float:
            return convert
        return float if target == dtypes.float64 else lambda x: convert(_float_for_rounding(int(x)))
    if source.is_float:
        return lambda x: _saturate(x, target)
    return _then1(int, wrap_result(target))


def bitcast(source: DType, target: DType) -> Function1:
    """The same bits as another dtype of the same width."""
    return _then1(bits_of(source), value_of_bits(target))


def bits_of(dtype: DType) -> Function1:
    """The bits of a value as a non-negative int."""
    if not dtype.is_float:
        mask = (1 << dtype.bits) - 1
        return lambda x: x & mask
    match dtype.name:
        case "bfloat16":
            return lambda x: _repack("<f", "<I", x) >> 16
        case "float8_e4m3fn" | "float8_e5m2":
            return lambda x: int(np.asarray(x, dtype.to_numpy()).view(np.uint8))
        case _:
            code, unsigned = _PACKING[dtype.name]
            return lambda x: _repack(code, unsigned, x)


def value_of_bits(dtype: DType) -> Function1:
    """The value that non-negative bits stand for."""
    if not dtype.is_float:
        return wrap_result(dtype)
    match dtype.name:
        case "bfloat16":
            return lambda b: _repack("<I", "<f", b << 16)
        case "float8_e4m3fn" | "float8_e5m2":
            return lambda b: float(np.asarray(b, np.uint8).view(dtype.to_numpy()))
        case _:
            code, unsigned = _PACKING[dtype.name]
            return lambda b: _repack(unsigned, code, b)


def zero(dtype: DType) -> Value:
    """The zero of a dtype."""
    return 0.0 if dtype.is_float else False if dtype.is_bool else 0


_PACKING = {"float16": ("<e", "<H"), "float32": ("<f", "<I"), "float64": ("<d", "<Q")}


def _repack(source: str, target: str, value: Value) -> Value:
    return struct.unpack(target, struct.pack(source, value))[0]


def _same(x: float) -> float:
    return x


def _round_float32(x: float) -> float:
    return ctypes.c_float(x).value


def _then1(inner: Function1, outer: Function1) -> Function1:
    return lambda x: outer(inner(x))


def _then2(inner: Function2, outer: Function1) -> Function2:
    return lambda x, y: outer(inner(x, y))


def _is_nan(x: Value) -> bool:
    return isinstance(x, float) and math.isnan(x)


def _minimum(x: Value, y: Value) -> Value:
    return y if y < x or _is_nan(y) else x  # a NaN in x fails both tests and stays


def _maximum(x: Value, y: Value) -> Value:
    return y if y > x or _is_nan(y) else x


def _divide(x: float, y: float) -> float:
    if y != 0.0:
        return x / y
    if x == 0.0 or math.isnan(x):
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def _nonzero(y: int) -> int:
    if y == 0:
        raise RuntimeCheckError("integer division by zero")
    return y


def _truncdiv(x: int, y: int) -> int:
    quotient = abs(x) // abs(_nonzero(y))
    return quotient if (x < 0) == (y < 0) else -quotient


def _truncmod(x: int, y: int) -> int:
    return x - _truncdiv(x, y) * y


def _shift(op: str, dtype: DType) -> Function2:
    bits, wrap = dtype.bits, wrap_result(dtype)
    if op == "shl":
        return lambda x, y: wrap(x << y) if 0 <= y < bits else 0
    return lambda x, y: x >> y if 0 <= y < bits else (-1 if x < 0 else 0)


def _saturate(x: float, target: DType) -> int:
    if math.isnan(x):
        return 0
    if math.isinf(x):
        return target.max_value if x > 0 else target.min_value
    return min(max(int(x), target.min_value), target.max_value)


def _float_for_rounding(value: int) -> float:
    """A float that rounds to any narrower format as `value` does: exact, or cut to 53 bits with the last one set when
    anything nonzero was cut (round to odd, Boldo and Melquiond 2008); rounding twice is then rounding once.
    """
    excess = abs(value).bit_length() - 53
    if excess <= 0:
        return float(value)
    cut = abs(value) >> excess
    if abs(value) & ((1 << excess) - 1):
        cut |= 1
    return math.copysign(math.ldexp(float(cut), excess), value)


_BITS: dict[str, Function2] = {
    "bitand": lambda x, y: x & y,
    "bitor": lambda x, y: x | y,
    "bitxor": lambda x, y: x ^ y,
}
_INTEGER_BINARY: dict[str, Function2] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": lambda x, y: x // _nonzero(y),
    "floormod": lambda x, y: x % _nonzero(y),
    "truncdiv": _truncdiv,
    "truncmod": _truncmod,
    **_BITS,
}
_FLOAT_BINARY: dict[str, Function2] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _divide,
}
_COMPARES: dict[str, Function2] = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le}


def primitive(name: str, dtype: DType) -> Callable[..., Value]:
    """A primitive operation of `lpx.expr.ops` on values of `dtype`."""
    if name in _INTEGER_PRIMITIVES:
        return _INTEGER_PRIMITIVES[name](dtype)
    if name == "abs":
        return math.fabs if dtype.is_float else _then1(abs, wrap_result(dtype))
    if name == "fma":
        return _fma(dtype)
    if name == "sqrt":
        return _then1(_sqrt, round_result(dtype))
    if name not in _FLOAT_PRIMITIVES:
        raise InternalError(f"the interpreter does not know the primitive {name}")
    return _FLOAT_PRIMITIVES[name]


def _sqrt(x: float) -> float:
    return math.nan if x < 0.0 else math.sqrt(x)


def _to_integer(convert: Callable[[float], int]) -> Function1:
    # Infinities, NaN and everything from 2**52 up are integers already; the sign of a zero result is the operand's.
    return lambda x: math.copysign(float(convert(x)), x) if abs(x) < 2.0**52 else x


def _fma(dtype: DType) -> Function3:
    if dtype == dtypes.float64:
        return fma_float64
    if dtype == dtypes.float32:
        return fma_float32
    narrow = round_float(dtype)
    return lambda x, y, z: narrow(fma_float32(x, y, z))


def fma_float64(x: float, y: float, z: float) -> float:
    """x * y + z in float64, rounded once: exact integers, then the correctly rounded division of Python's ints."""
    if not (math.isfinite(x) and math.isfinite(y)):
        return x * y + z
    if not math.isfinite(z):
        return z
    (nx, dx), (ny, dy), (nz, dz) = x.as_integer_ratio(), y.as_integer_ratio(), z.as_integer_ratio()
    numerator = nx * ny * dz + nz * dx * dy
    if numerator == 0:
        return x * y + z if nx * ny == 0 else 0.0
    try:
        return numerator / (dx * dy * dz)
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def fma_float32(x: float, y: float, z: float) -> float:
    """x * y + z in float32, rounded once.

    The product is exact in float64. The sum is rounded to odd, after which rounding to float32 is as if from the exact
    sum (Boldo and Melquiond 2008); the error of the sum is Knuth's two-sum.
    """
    product = x * y
    total = product + z
    if not math.isfinite(total):  # an operand was not finite: float32 values cannot overflow float64 here
        return total
    part = total - product
    error = (product - (total - part)) + (z - part)
    if error != 0.0 and not _repack("<d", "<Q", total) & 1:
        total = math.nextafter(total, math.copysign(math.inf, error))
    return _round_float32(total)


def _signbit(x: float) -> bool:
    return math.copysign(1.0, x) < 0.0


_FLOAT_PRIMITIVES: dict[str, Callable[..., Value]] = {
    "floor": _to_integer(math.floor),
    "ceil": _to_integer(math.ceil),
    "trunc": _to_integer(math.trunc),
    "rint": _to_integer(round),
    "copysign": math.copysign,
    "unlikely": bool,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "signbit": _signbit,
}


def _popcount(dtype: DType) -> Function1:
    bits = bits_of(dtype)
    return lambda x: dtype.wrap(bits(x).bit_count())


def _clz(dtype: DType) -> Function1:
    bits = bits_of(dtype)
    return lambda x: dtype.bits - bits(x).bit_length()


def _ctz(dtype: DType) -> Function1:
    bits = bits_of(dtype)
    return lambda x: (bits(x) & -bits(x)).bit_length() - 1 if x else dtype.bits


def _mulhi(dtype: DType) -> Function2:
    return lambda x, y: dtype.wrap((x * y) >> dtype.bits)


_INTEGER_PRIMITIVES: dict[str, Callable[[DType], Callable[..., Value]]] = {
    "popcount": _popcount,
    "clz": _clz,
    "ctz": _ctz,
    "mulhi": _mulhi,
}
