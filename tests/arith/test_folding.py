"""Constant folding gives the bits that NumPy gives."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from lpx import dtypes
from lpx.arith.folding import fold
from lpx.arith.simplify import simplify
from lpx.dtypes import DType
from lpx.expr import build, nodes
from lpx.expr.nodes import BinaryOp, Expr

INTEGERS = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64)
FLOATS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)


def value(expr: Expr) -> Any:
    folded = simplify(expr)
    assert isinstance(folded, nodes.Const)
    return folded.value


def unfolded(expr: Expr) -> bool:
    return fold(expr) is None and simplify(expr) is expr


@pytest.mark.parametrize(
    ("op", "a", "b", "want"),
    [  # the upper half of uint64
        ("add", 2**63 - 1, 5, 9223372036854775812),
        ("mul", 2**62, 3, 13835058055282163712),
        ("sub", 0, 1, 2**64 - 1),
        ("floordiv", 2**64 - 1, 2, 2**63 - 1),
        ("shr", 2**63, 63, 1),
        ("max", 2**63, 1, 2**63),
    ],
)
def test_uint64(op: BinaryOp, a: int, b: int, want: int) -> None:
    assert value(build.binary(op, build.const(a, "uint64"), build.const(b, "uint64"))) == want


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap_as_numpy_does(dtype: DType) -> None:
    rng = random.Random(dtype.name)
    scalar = dtype.to_numpy().type
    for _ in range(60):
        a, b = (
            rng.choice((dtype.min_value, dtype.max_value, rng.randint(dtype.min_value, dtype.max_value))) for _ in "ab"
        )
        with np.errstate(all="ignore"):
            for op, function in (
                ("add", np.add),
                ("sub", np.subtract),
                ("mul", np.multiply),
                ("bitxor", np.bitwise_xor),
            ):
                want = int(function(scalar(a), scalar(b)))
                assert value(build.binary(op, build.const(a, dtype), build.const(b, dtype))) == want  # type: ignore[arg-type]
            if b:
                assert value(build.const(a, dtype) // build.const(b, dtype)) == int(
                    np.floor_divide(scalar(a), scalar(b))
                )
                assert value(build.const(a, dtype) % build.const(b, dtype)) == int(np.remainder(scalar(a), scalar(b)))


def test_signs_of_divisions() -> None:
    a, b = build.const(-7), build.const(2)
    assert value(a // b) == -4
    assert value(a % b) == 1
    assert value(build.binary("truncdiv", a, b)) == -3
    assert value(build.binary("truncmod", a, b)) == -1
    assert value(build.binary("truncdiv", -a, -b)) == -3
    assert value(build.const(-(2**31), "int32") // build.const(-1, "int32")) == -(2**31)
    assert value(build.binary("truncdiv", build.const(-(2**63)), build.const(-1))) == -(2**63)


@pytest.mark.parametrize("op", ["floordiv", "floormod", "truncdiv", "truncmod"])
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint32"])
def test_division_by_zero_stays(op: BinaryOp, dtype: str) -> None:
    assert unfolded(build.binary(op, build.const(5, dtype), build.const(0, dtype)))


def test_shifts() -> None:
    eight = build.const(-8, "int32")
    assert value(build.const(3, "int8") << 7) == -128
    assert value(build.const(3, "int8") << 8) == 0
    assert value(eight >> 1) == -4
    assert value(eight >> 40) == -1
    assert value(build.const(200, "uint8") >> 3) == 25
    assert unfolded(eight >> -1)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_round_as_numpy_does(dtype: DType) -> None:
    rng = random.Random(dtype.name)
    scalar = dtype.to_numpy().type
    with np.errstate(all="ignore"):
        for _ in range(80):
            a, b = (scalar(rng.choice((rng.uniform(-9, 9), 1e-30, 6e4, 0.0, -0.0, math.inf, 3e38))) for _ in "ab")
            for op, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)):
                want = scalar(function(np.float32(a), np.float32(b)) if dtype.bits < 32 else function(a, b))
                expr = build.binary(op, build.const(float(a), dtype), build.const(float(b), dtype))  # type: ignore[arg-type]
                if np.isnan(want):
                    assert fold(expr) is None
                else:
                    assert repr(value(expr)) == repr(float(want))


def test_minimum_of_floats() -> None:
    nan, zero, minus = (build.const(v, "float32") for v in (math.nan, 0.0, -0.0))
    assert value(build.minimum(build.const(2.0), build.const(-3.0))) == -3.0
    assert unfolded(build.minimum(nan, zero))
    assert unfolded(build.maximum(zero, minus))


@pytest.mark.parametrize(
    ("source", "number", "target", "want"),
    [
        ("float32", 300.7, "int8", 127),
        ("float32", -1.9, "uint8", 0),
        ("float32", -1.9, "int32", -1),
        ("float32", math.nan, "int32", 0),
        ("float64", math.inf, "uint64", 2**64 - 1),
        ("float64", -math.inf, "int64", -(2**63)),
        ("float64", 9.3e18, "int64", 2**63 - 1),
        ("int64", 300, "int8", 44),
        ("int64", -1, "uint64", 2**64 - 1),
        ("int64", 3, "bool", True),
        ("float32", math.nan, "bool", True),
        ("float32", -0.0, "bool", False),
        ("bool", True, "int8", 1),
        ("float64", 1.0 + 2.0**-24, "float32", 1.0),
        ("float64", 65520.0, "float16", math.inf),
        ("int64", 2**53 + 1, "float64", 2.0**53),
        ("int64", 2**60 + 2**36 + 1, "float32", 2.0**60 + 2.0**37),  # rounding by way of a double gives 2.0**60
        ("uint64", 2**64 - 1, "float32", 2.0**64),
    ],
)
def test_conversions(source: str, number: float, target: str, want: float) -> None:
    got = value(build.cast(build.const(number, source), target))
    assert got == want
    assert isinstance(got, float) == dtypes.parse(target).is_float


def test_comparisons() -> None:
    nan = build.const(math.nan)
    assert value(nan != nan) is True
    assert value(nan < nan) is False
    assert value(build.const(0.0) == build.const(-0.0)) is True
    assert value(build.const(2**63, "uint64") > build.const(1, "uint64")) is True


def test_tests_of_numbers_are_folded() -> None:
    for number, results in ((math.nan, (1, 0, 0)), (-math.inf, (0, 1, 0)), (1.5, (0, 0, 1))):
        tests = [build.call(name, build.const(number, "float32")) for name in ("isnan", "isinf", "isfinite")]
        assert tuple(value(t) for t in tests) == results
