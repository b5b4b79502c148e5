"""Reductions and positions of extremes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.onnx.support import Case, assert_same, case, check, floats, integers, onnxruntime, run_case

X = floats(3, 4, 5)
REDUCE = "ReduceSum ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp ReduceMax ReduceMin".split()


@pytest.mark.parametrize("op", REDUCE)
def test_axes(op: str) -> None:
    check(case(op, X, np.array([0, -1]), keepdims=0))


@pytest.mark.parametrize("op", REDUCE)
def test_all_axes(op: str) -> None:
    check(case(op, X))


MORE = [
    case("ReduceLogSum", np.abs(X) + 1, np.array([1])),
    case("ReduceSum", integers(3, 4), np.array([1])),
    case("ReduceMean", integers(3, 4), np.array([1])),
    case("ReduceMax", X > 0, np.array([1]), opset=20),
    case("ReduceSum", X, np.array([], np.int64), noop_with_empty_axes=1),
    Case("ReduceMax", [X], {"axes": [1], "keepdims": 0}, 13),
    Case("ReduceSum", [X], {"axes": [1, 2]}, 11),
    case("ArgMax", X, axis=1),
    case("ArgMin", X, axis=-1, keepdims=0),
    case("ArgMax", np.array([[1, 3, 3], [2, 2, 0]]), axis=1, select_last_index=1),
    case("CumSum", X, np.array(1)),
    case("CumSum", X, np.array(-1), exclusive=1, reverse=1),
    case("Hardmax", X, axis=1),
    case("Softmax", X, axis=0),
    case("LogSoftmax", X),
    Case("Softmax", [floats(2, 3)], {}, 1),
    case("LpNormalization", X, axis=1, p=2),
]


@pytest.mark.parametrize("c", MORE, ids=str)
def test_more(c: Case) -> None:
    check(c)


@pytest.mark.parametrize(
    "c",
    [
        Case("Softmax", [X], {"axis": 1}, 11),
        Case("Hardmax", [X], {"axis": 1}, 11),
        case("LpNormalization", X, axis=-1, p=1),
    ],
    ids=str,
)
def test_what_the_reference_lacks(c: Case) -> None:
    """Versions that flatten from an axis on; sums of absolute values."""
    check(c, oracle=onnxruntime)


def test_log_sum_exp_of_large_numbers() -> None:
    (got,) = run_case(case("ReduceLogSumExp", np.array([1000, 1000, -np.inf], np.float32)))
    assert_same(got, np.array([1000 + np.log(2)], np.float32))


NOTHING = {"ReduceSum": 0, "ReduceProd": 1, "ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceMean": np.nan}


@pytest.mark.parametrize("op", NOTHING)
def test_no_elements(op: str) -> None:
    (got,) = run_case(case(op, np.zeros((2, 0, 4), np.float32), np.array([1]), keepdims=0))
    assert_same(got, np.full((2, 4), NOTHING[op], np.float32))


def test_no_elements_at_all() -> None:
    assert_same(run_case(case("ReduceSum", np.zeros(0, np.float32)))[0], np.zeros(1, np.float32))
    assert_same(
        run_case(case("ReduceSum", np.zeros((1, 0), np.float32), np.array([1])))[0], np.zeros((1, 1), np.float32)
    )
