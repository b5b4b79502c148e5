"""Meaning of every scalar operation, against Python's integers, fractions, NumPy and ml_dtypes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import RuntimeCheckError
from lpx.expr.nodes import BinaryOp
from lpx.ir import scalars

INTEGERS = [d for d in dtypes.ALL if d.is_integer]
FLOATS = [d for d in dtypes.ALL if d.is_float]
DIVISIONS: list[BinaryOp] = ["floordiv", "floormod", "truncdiv", "truncmod"]
INF, NAN = math.inf, math.nan


def same(x: Any, y: Any) -> bool:
    """Equal, telling -0.0 from 0.0, with NaN equal to NaN."""
    return repr(x) == repr(y)


def pairs(dtype: DType) -> st.SearchStrategy[tuple[int, int]]:
    edges = [dtype.min_value, dtype.max_value, 0, 1, dtype.wrap(-1)]
    one = st.one_of(st.sampled_from(edges), st.integers(dtype.min_value, dtype.max_value))
    return st.tuples(one, one)


def exact_integer(op: BinaryOp, x: int, y: int, bits: int) -> int:
    """`x op y` over the unbounded integers."""
    match op:
        case "shl":
            return x << y if 0 <= y < bits else 0
        case "shr":
            return x >> (y if 0 <= y < bits else bits)
        case "floordiv":
            return math.floor(Fraction(x, y))
        case "truncdiv":
            return math.trunc(Fraction(x, y))
        case "floormod":
            return x - y * math.floor(Fraction(x, y))
        case "truncmod":
            return x - y * math.trunc(Fraction(x, y))
        case _:
            return int({"add": x + y, "sub": x - y, "mul": x * y, "min": min(x, y), "max": max(x, y)}[op])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max", "shl", "shr", *DIVISIONS])
def test_integer_arithmetic_wraps(op: BinaryOp, dtype: DType) -> None:
    operation = scalars.binary(op, dtype)

    @settings(max_examples=20)
    @given(pairs(dtype))
    def check(values: tuple[int, int]) -> None:
        x, y = values
        if y == 0 and op in DIVISIONS:
            with pytest.raises(RuntimeCheckError, match="integer division by zero"):
                operation(x, y)
        else:
            assert operation(x, y) == dtype.wrap(exact_integer(op, x, y, dtype.bits))

    check()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bit_operations_are_numpys(dtype: DType) -> None:
    wide = np.uint64 if dtype == dtypes.uint64 else np.int64
    values = [dtype.min_value, dtype.max_value, 0, 1, dtype.wrap(0x5A)]
    for x in values:
        for y in values:
            a, b = wide(x), wide(y)
            assert scalars.binary("bitand", dtype)(x, y) == int(a & b)
            assert scalars.binary("bitor", dtype)(x, y) == int(a | b)
            assert scalars.binary("bitxor", dtype)(x, y) == int(a ^ b)


def test_integer_edges() -> None:
    low = dtypes.int32.min_value
    assert scalars.binary("truncdiv", dtypes.int32)(low, -1) == low
    assert scalars.binary("floordiv", dtypes.int32)(low, -1) == low
    assert scalars.binary("truncmod", dtypes.int32)(low, -1) == 0
    assert scalars.unary("neg", dtypes.int32)(low) == low
    assert scalars.primitive("abs", dtypes.int32)(low) == low
    assert scalars.unary("not", dtypes.uint8)(0) == 255
    assert scalars.unary("not", dtypes.bool_)(True) is False
    assert scalars.binary("bitxor", dtypes.bool_)(True, True) is False


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_bit_counts(x: int, y: int) -> None:
    bits = format(x & 0xFFFFFFFF, "032b")
    assert scalars.primitive("popcount", dtypes.int32)(x) == bits.count("1")
    assert scalars.primitive("clz", dtypes.int32)(x) == len(bits) - len(bits.lstrip("0"))
    assert scalars.primitive("ctz", dtypes.int32)(x) == len(bits) - len(bits.rstrip("0"))
    assert scalars.primitive("mulhi", dtypes.int32)(x, y) == (x * y) >> 32


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16], ids=str)
def test_float_arithmetic_is_numpys(dtype: DType) -> None:
    """Narrow floats through float32, as the rules say; NumPy's float16 and ml_dtypes' bfloat16 do the same."""
    kind = dtype.to_numpy().type
    ufuncs: dict[BinaryOp, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
    single = st.floats(width=64 if dtype.bits == 64 else 32).map(scalars.round_float(dtype))

    @given(single, single)
    def check(x: float, y: float) -> None:
        with np.errstate(all="ignore"):
            for name, ufunc in ufuncs.items():
                expected = float(ufunc(kind(x), kind(y)))
                got = scalars.binary(name, dtype)(x, y)
                assert same(got, expected) or (math.isnan(got) and math.isnan(expected)), name
            if x >= 0:
                assert same(scalars.primitive("sqrt", dtype)(x), float(np.sqrt(kind(x))))

    check()


@pytest.mark.parametrize(
    ("x", "y", "low", "high"),
    [
        (1.0, 2.0, 1.0, 2.0),
        (NAN, 1.0, NAN, NAN),
        (1.0, NAN, NAN, NAN),
        (-INF, INF, -INF, INF),
        (0.0, -0.0, 0.0, 0.0),  # of equal operands the first
        (-0.0, 0.0, -0.0, -0.0),
    ],
)
def test_min_and_max(x: float, y: float, low: float, high: float) -> None:
    assert same(scalars.binary("min", dtypes.float32)(x, y), low)
    assert same(scalars.binary("max", dtypes.float32)(x, y), high)


def test_comparisons_with_nan() -> None:
    results = [scalars.compare(op)(NAN, NAN) for op in ("eq", "ne", "lt", "le")]
    assert results == [False, True, False, False]


@pytest.mark.parametrize(
    ("value", "integer", "expected"),
    [
        (2.9, dtypes.int8, 2),
        (-2.9, dtypes.int8, -2),
        (1e10, dtypes.int8, 127),
        (-1e10, dtypes.int8, -128),
        (-1.0, dtypes.uint8, 0),
        (INF, dtypes.int64, 2**63 - 1),
        (-INF, dtypes.int64, -(2**63)),
        (NAN, dtypes.int32, 0),
        (9.5, dtypes.int4, 7),
    ],
)
def test_float_to_integer_saturates(value: float, integer: DType, expected: int) -> None:
    assert scalars.cast(dtypes.float64, integer)(value) == expected


@given(st.integers(-(2**63), 2**63 - 1))
def test_integer_to_float_rounds_once(value: int) -> None:
    assert scalars.cast(dtypes.int64, dtypes.float64)(value) == float(value)
    assert scalars.cast(dtypes.int64, dtypes.float32)(value) == float(np.int64(value).astype(np.float32))
    for dtype in (dtypes.float16, dtypes.bfloat16):
        assert _is_nearest(Fraction(value), scalars.cast(dtypes.int64, dtype)(value), dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_infinity(dtype: DType) -> None:
    expected = NAN if dtype == dtypes.float8_e4m3fn else -INF  # that format has no infinity
    assert same(scalars.cast(dtypes.float64, dtype)(-INF), expected)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_to_narrow_rounds_once(value: float) -> None:
    for dtype in FLOATS:
        assert _is_nearest(Fraction(value), scalars.cast(dtypes.float64, dtype)(value), dtype)


def _is_nearest(exact: Fraction, rounded: float, dtype: DType) -> bool:
    """Whether no other value of `dtype` is nearer, and the even one was taken of two equally near."""
    info = _largest(dtype)
    if not math.isfinite(rounded):
        return abs(exact) >= info + _gap(dtype) / 2
    if abs(exact) > info:
        return abs(rounded) == info and abs(exact) <= info + _gap(dtype) / 2
    bits = scalars.bits_of(dtype)(abs(rounded))
    error = abs(abs(exact) - Fraction(abs(rounded)))
    for other in (bits - 1, bits + 1):
        neighbour = scalars.value_of_bits(dtype)(other) if other >= 0 else NAN
        if math.isfinite(neighbour):
            distance = abs(abs(exact) - Fraction(neighbour))
            if distance < error or (distance == error and bits % 2):
                return False
    return True


def _largest(dtype: DType) -> Fraction:
    values = [scalars.value_of_bits(dtype)(b) for b in _top_bits(dtype)]
    return Fraction(max(v for v in values if math.isfinite(v)))


def _gap(dtype: DType) -> Fraction:
    values = sorted(Fraction(v) for b in _top_bits(dtype) if math.isfinite(v := scalars.value_of_bits(dtype)(b)))
    return values[-1] - values[-2]


def _top_bits(dtype: DType) -> Sequence[int]:
    infinity = scalars.bits_of(dtype)(INF) if dtype.name != "float8_e4m3fn" else 0x7F
    return range(infinity - 2, infinity + 1)


def test_bfloat16_of_a_double_is_not_rounded_twice() -> None:
    value = (
        1.0 + 2.0**-8 + 2.0**-40
    )  # just above the middle of two bfloat16; through float32 it would become the middle
    assert scalars.cast(dtypes.float64, dtypes.bfloat16)(value) == 1.0 + 2.0**-7


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.bits == 8], ids=str)
def test_every_float8_survives_a_bitcast(dtype: DType) -> None:
    for bits in range(256):
        value = scalars.value_of_bits(dtype)(bits)
        if not math.isnan(value):
            assert scalars.bits_of(dtype)(value) == bits
            assert same(scalars.round_float(dtype)(value), value)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_every_half_survives_a_bitcast(dtype: DType) -> None:
    for bits in range(0, 65536, 7):
        value = scalars.value_of_bits(dtype)(bits)
        if not math.isnan(value):
            assert scalars.bits_of(dtype)(value) == bits


def test_bitcast_of_integers() -> None:
    assert scalars.bitcast(dtypes.float32, dtypes.int32)(-0.0) == -(2**31)
    assert scalars.bitcast(dtypes.int32, dtypes.float32)(0x3F800000) == 1.0
    assert scalars.bitcast(dtypes.uint8, dtypes.int8)(255) == -1
    assert scalars.bitcast(dtypes.bfloat16, dtypes.uint16)(1.0) == 0x3F80


@given(st.floats(width=32), st.floats(width=32), st.floats(width=32))
def test_fma_float32_rounds_once(x: float, y: float, z: float) -> None:
    assume(all(map(math.isfinite, (x, y, z))))
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    assert _is_nearest(exact, scalars.fma_float32(x, y, z), dtypes.float32)


@given(st.floats(), st.floats(), st.floats())
def test_fma_float64_rounds_once(x: float, y: float, z: float) -> None:
    got = scalars.fma_float64(x, y, z)
    if all(map(math.isfinite, (x, y, z))):
        assert _is_nearest(Fraction(x) * Fraction(y) + Fraction(z), got, dtypes.float64)
    else:
        assert same(got, x * y + z) or (math.isfinite(x) and math.isfinite(y) and same(got, z))


@pytest.mark.parametrize("fma", [scalars.fma_float32, scalars.fma_float64])
@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ((1.0, 0.0, -0.0), 0.0),
        ((-1.0, 0.0, -0.0), -0.0),
        ((1.0, 1.0, -1.0), 0.0),
        ((INF, 0.0, 1.0), NAN),
        ((INF, 1.0, -INF), NAN),
        ((1.0, 1.0, INF), INF),
    ],
)
def test_fma_special_values(fma: Any, operands: tuple[float, ...], expected: float) -> None:
    assert same(fma(*operands), expected)


def test_fma_needs_the_exact_product() -> None:
    x = 1.0 + 2.0**-23
    assert scalars.fma_float32(x, x, -(1.0 + 2.0**-22)) == 2.0**-46
    # Rounding the sum to double first would give the middle of two floats, and then the even one.
    assert scalars.fma_float32(1.0, 1.0 + 2.0**-23, 2.0**-24 + 2.0**-47) == 1.0 + 2.0**-22


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "rint"])
@pytest.mark.parametrize("value", [0.5, 1.5, -0.5, -1.5, 2.5, 0.0, -0.0, 1e300, INF, -INF, -0.2, 4503599627370495.5])
def test_rounding_to_integers(name: str, value: float) -> None:
    assert same(scalars.primitive(name, dtypes.float64)(value), float(getattr(np, name)(value)))


def test_classification() -> None:
    assert scalars.primitive("isnan", dtypes.float32)(NAN) is True
    assert scalars.primitive("isinf", dtypes.float32)(-INF) is True
    assert scalars.primitive("isfinite", dtypes.float32)(INF) is False
    assert scalars.primitive("signbit", dtypes.float32)(-0.0) is True
    assert scalars.primitive("copysign", dtypes.float32)(3.0, -0.0) == -3.0
    assert math.isnan(scalars.primitive("sqrt", dtypes.float32)(-1.0))
