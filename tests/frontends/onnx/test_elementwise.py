"""Elementwise handlers against the reference evaluator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.frontends.onnx.support import Case, assert_same, case, check, floats, integers, run_case

X = floats(3, 5)
POSITIVE = np.abs(X) + np.float32(0.1)
INSIDE = np.tanh(X)  # within -1..1
INTS = integers(3, 5)
BOOLS = X > 0

UNARY = {
    "Abs": X,
    "Acos": INSIDE,
    "Acosh": POSITIVE + 1,
    "Asin": INSIDE,
    "Asinh": X,
    "Atan": X,
    "Atanh": INSIDE,
    "Ceil": X * 3,
    "Cos": X,
    "Cosh": X,
    "Erf": X,
    "Exp": X,
    "Floor": X * 3,
    "Log": POSITIVE,
    "Neg": INTS,
    "Reciprocal": POSITIVE,
    "Relu": X,
    "Round": np.array([0.5, 1.5, -2.5, 2.4], np.float32),
    "Sigmoid": X,
    "Sign": INTS,
    "Sin": X,
    "Sinh": X,
    "Softplus": X,
    "Softsign": X,
    "Sqrt": POSITIVE,
    "Tan": INSIDE,
    "Tanh": X,
    "Not": BOOLS,
    "BitwiseNot": INTS,
    "HardSwish": X * 3,
    "Mish": X,
    "Identity": X,
    "IsNaN": np.array([1, np.nan, np.inf], np.float32),
}


@pytest.mark.parametrize("op", UNARY)
def test_unary(op: str) -> None:
    check(case(op, UNARY[op], opset=20))


BINARY = [
    case("Add", X, floats(5)),
    case("Sub", INTS, integers(1, 5, seed=1)),
    case("Mul", X, floats(3, 1, seed=1)),
    case("Div", X, POSITIVE),
    case("Div", integers(9), np.full(9, 3)),
    case("And", BOOLS, ~BOOLS),
    case("Or", BOOLS, BOOLS[:1]),
    case("BitwiseXor", INTS, integers(5, seed=1)),
    case("Equal", INTS, integers(3, 5, seed=2)),
    case("Less", X, floats(5, seed=2)),
    case("Greater", INTS, integers(3, 5, seed=2)),
    case("LessOrEqual", X, X),
    case("GreaterOrEqual", X, floats(5, seed=2)),
    case("Pow", POSITIVE, floats(5, seed=1)),
    case("Pow", X, np.array(3, np.int64)),
    case("Pow", np.array([2, -3, 7], np.int64), np.array([10, 3, 0], np.int64)),
    case("Pow", np.array([2, 3], np.int32), np.array([2.0, 0.5], np.float32)),
    case("BitShift", np.array([1, 2, 16], np.uint8), np.array([3, 1, 2], np.uint8), direction="LEFT"),
    case("BitShift", np.array([1, 2, 16], np.uint32), np.array([3, 1, 2], np.uint32), direction="RIGHT"),
    case("Where", BOOLS, X, floats(1, 5, seed=4)),
    case("PRelu", X, np.array([0.1, 0.2, 0.3, 0.4, 0.5], np.float32)),
    case("Min", X, floats(5, seed=1), floats(1, seed=2)),
    case("Max", INTS),
    case("Sum", X, floats(5, seed=1), floats(1, seed=2)),
    case("Mean", X, floats(3, 5, seed=1)),
]


@pytest.mark.parametrize("c", BINARY, ids=str)
def test_several_operands(c: Case) -> None:
    check(c)


ATTRIBUTES = [
    case("LeakyRelu", X, alpha=0.2, opset=16),
    case("Elu", X, alpha=0.7),
    case("Selu", X),
    case("Celu", X, alpha=0.8),
    case("ThresholdedRelu", X, alpha=0.3),
    case("Shrink", X, lambd=0.4, bias=0.1),
    case("HardSigmoid", X, alpha=0.3, beta=0.4),
    case("Gelu", X, opset=20),
    case("Gelu", X, approximate="tanh", opset=20),
    case("IsInf", np.array([1, np.inf, -np.inf, np.nan], np.float32), detect_negative=0, opset=20),
    case("IsInf", np.array([1, np.inf, -np.inf, np.nan], np.float32), opset=20),
    case("Clip", X, np.array(-0.5, np.float32), None),
    case("Clip", INTS, None, np.array(2)),
    case("Mod", INTS, np.full((5,), 3)),
    case("Mod", X * 10, np.full((5,), 3, np.float32), fmod=1),
]


@pytest.mark.parametrize("c", ATTRIBUTES, ids=str)
def test_with_attributes(c: Case) -> None:
    check(c)


@pytest.mark.parametrize(
    "c",
    [
        Case("Clip", [X], {"min": -0.5, "max": 0.25}, 6),
        Case("Add", [floats(2, 3, 4, 5), floats(3, 4)], {"axis": 1, "broadcast": 1}, 6),
        Case("Dropout", [X], {"ratio": 0.5}, 10),
    ],
    ids=str,
)
def test_old_versions(c: Case) -> None:
    """Attributes that later became operands, or were dropped."""
    x = c.inputs[0]
    assert x is not None
    other = c.inputs[1] if len(c.inputs) > 1 else None
    expected = {
        "Clip": np.clip(x, np.float32(-0.5), np.float32(0.25)),
        "Add": x if other is None else x + other[:, :, None],
        "Dropout": x,
    }
    assert_same(run_case(c)[0], expected[c.op])


@pytest.mark.parametrize("to", ["float16", "float64", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("given", ["float32", "int16", "bool"])
def test_cast(given: str, to: str) -> None:
    code = {"float16": 10, "float64": 11, "int32": 6, "int64": 7, "uint8": 2, "bool": 9}[to]
    check(case("Cast", np.array([0, 1, 3, 100]).astype(given), to=code))


def test_cast_to_narrow_floats_saturates() -> None:
    x = np.array([0.3, 500.0, -np.inf, np.nan], np.float32)
    (got,) = run_case(case("Cast", x, to=17))
    want = np.array([0.3, 448, -448, np.nan], np.float32).astype(ml_dtypes.float8_e4m3fn)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_round_once(dtype: str) -> None:
    """Arithmetic on 16-bit floats is in float32, rounded once, so that it equals NumPy's on the widened arrays."""
    narrow = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    a, b = (floats(7, seed=s).astype(narrow) for s in (0, 1))
    (got,) = run_case(case("Mul", a, b))
    np.testing.assert_array_equal(got, (a.astype(np.float32) * b.astype(np.float32)).astype(narrow))
