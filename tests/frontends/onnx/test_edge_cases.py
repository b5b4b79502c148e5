"""Where other runtimes were wrong: each test is a defect somebody met."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lpx.errors import ModelError
from tests.frontends.onnx.support import Array, Case, assert_same, case, run_case

BOTH = pytest.mark.parametrize("folded", [False, True], ids=["at run time", "folded"])


def outcome(c: Case, folded: bool) -> Array:
    """The first output, with all inputs as initializers when `folded`."""
    static = frozenset(range(len(c.inputs))) if folded else c.static
    return run_case(Case(c.op, c.inputs, c.attrs, c.opset, c.outputs, static))[0]


@BOTH
def test_modulo_has_the_sign_it_should(folded: bool) -> None:
    assert_same(outcome(case("Mod", np.array([-5]), np.array([3])), folded), np.array([1]))
    floats = case("Mod", np.array([-5.5], np.float32), np.array([3.0], np.float32), fmod=1)
    assert_same(outcome(floats, folded), np.array([-2.5], np.float32))


@BOTH
def test_integers_are_divided_exactly(folded: bool) -> None:
    big = 2**53 + 1
    assert_same(outcome(case("Div", np.array([big]), np.array([1])), folded), np.array([big]))
    assert_same(outcome(case("Div", np.array([-7, 7]), np.array([2, -2])), folded), np.array([-3, -3]))


@pytest.mark.parametrize(
    ("end", "want"), [(2**31 - 1, []), (-(2**31), range(9, -1, -1)), (-(2**63), range(9, -1, -1)), (2**63 - 1, [])]
)
def test_backward_slice_past_the_ends(end: int, want: Any) -> None:
    c = case("Slice", np.arange(10), np.array([-1]), np.array([end]), np.array([0]), np.array([-1]), static=range(1, 5))
    assert_same(run_case(c)[0], np.array(list(want), np.int64))


@pytest.mark.parametrize("opset", [11, 19])
def test_average_pool_counts_padding_but_not_what_ceil_adds(opset: int) -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    attrs = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": 1, "count_include_pad": 1}
    want = np.array([[14 / 9, 30 / 9, 2], [57 / 9, 11, 6], [4.5, 7.5, 4]], np.float32)[None, None]
    assert_same(run_case(Case("AveragePool", [x], attrs, opset))[0], want)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_windows_that_start_past_the_data_are_dropped(op: str) -> None:
    x = np.array([[[1, 2, 3, 4]]], np.float32)
    assert_same(run_case(case(op, x, kernel_shape=[1], strides=[2], ceil_mode=1))[0], x[..., ::2])
    padded = case(op, x[..., :2], kernel_shape=[2], strides=[3], pads=[1, 1], ceil_mode=1)
    (got,) = run_case(padded)
    assert got.shape == (1, 1, 1)
    assert got.item() == 1


@pytest.mark.parametrize(
    ("auto_pad", "want"), [("SAME_UPPER", [1, 10, 102, 20, 203, 30]), ("SAME_LOWER", [10, 102, 20, 203, 30, 300])]
)
def test_transposed_padding_goes_to_the_right_side(auto_pad: str, want: list[int]) -> None:
    x, w = np.array([[[1, 2, 3]]], np.float32), np.array([[[1, 10, 100]]], np.float32)
    (got,) = run_case(case("ConvTranspose", x, w, strides=[2], auto_pad=auto_pad))
    assert_same(got, np.array([[want]], np.float32))


def test_reflection_leaves_other_axes_alone() -> None:
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    (got,) = run_case(case("Pad", x, np.array([1, 0, 0, 0]), mode="reflect"))
    np.testing.assert_array_equal(got[0], [4, 5, 6, 7])


def test_reflection_as_wide_as_the_axis() -> None:
    x = np.array([[1, 1.2], [2.3, 3.4], [4.5, 5.7]], np.float32)
    (got,) = run_case(case("Pad", x, np.array([0, 2, 0, 0]), mode="reflect"))
    assert_same(got, np.pad(x, [(0, 0), (2, 0)], mode="reflect"))
    (got,) = run_case(case("Pad", x, np.array([2, 1, 1, 1]), mode="wrap"))
    assert_same(got, np.pad(x, [(2, 1), (1, 1)], mode="wrap"))


@BOTH
def test_negative_indices(folded: bool) -> None:
    c = case("GatherElements", np.array([[1, 2], [3, 4]]), np.array([[-1, 0], [0, -2]]), axis=1)
    assert_same(outcome(c, folded), np.array([[2, 1], [3, 3]]))
    c = case("GatherND", np.arange(8).reshape(2, 2, 2), np.array([[-1], [0]]), batch_dims=1)
    assert_same(outcome(c, folded), np.array([[2, 3], [4, 5]]))
    c = case("OneHot", np.array([-1, 3, -4, 0]), np.array(3), np.array([0, 1]))
    assert_same(outcome(c, folded), np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0], [1, 0, 0]]))


@pytest.mark.parametrize(
    ("reduction", "want"),
    [("add", [8, 2, 3, 3]), ("min", [1, 2, 3, -6]), ("max", [7, 2, 3, 5]), ("mul", [7, 2, 3, -120])],
)
def test_scatter_combines_equal_places(reduction: str, want: list[int]) -> None:
    operands = [np.array([1, 2, 3, 4]), np.array([[-1], [-1], [0]]), np.array([5, -6, 7])]
    assert_same(run_case(case("ScatterND", *operands, reduction=reduction))[0], np.array(want))
    rows = [operands[0].reshape(2, 2), np.array([[1, 1], [-1, -1], [0, 0]]), operands[2]]
    assert_same(run_case(case("ScatterND", *rows, reduction=reduction))[0], np.array(want).reshape(2, 2))


def test_top_k_of_none() -> None:
    values, places = run_case(case("TopK", np.array([1.0, 2, 3], np.float32), np.array([0]), outputs=2))
    assert values.shape == places.shape == (0,)
    with pytest.raises(ModelError, match="TopK of -1 of 3 elements"):
        run_case(case("TopK", np.array([1.0, 2, 3], np.float32), np.array([-1]), outputs=2))


def test_einsum_of_three_sums_a_label_of_one() -> None:
    operands = [np.arange(n, dtype=np.float32).reshape(s) for n, s in ((8, (2, 2, 2)), (4, (2, 2)), (8, (2, 2, 2)))]
    (got,) = run_case(case("Einsum", *operands, equation="abc,cd,def->abd"))
    assert_same(got, np.array([[[12, 66], [36, 242]], [[60, 418], [84, 594]]], np.float32))


def test_group_normalisation_of_one_group() -> None:
    x = np.arange(8, dtype=np.float32).reshape(1, 4, 2)
    one, zero = np.ones(4, np.float32), np.zeros(4, np.float32)
    (got,) = run_case(case("GroupNormalization", x, one, zero, num_groups=1))
    np.testing.assert_allclose(got.reshape(-1)[[0, -1]], [-1.527524, 1.527524], rtol=1e-5)


def test_slope_of_rank_one_goes_along_the_last_axis() -> None:
    slope = np.array([1, 2, 3], np.float32)
    (got,) = run_case(case("PRelu", -np.ones((1, 3, 2, 3), np.float32), slope))
    assert_same(got, np.broadcast_to(-slope, (1, 3, 2, 3)))
    (got,) = run_case(case("PRelu", -np.ones((1, 3, 1, 2), np.float32), slope.reshape(3, 1, 1)))
    assert_same(got, np.broadcast_to(-slope.reshape(3, 1, 1), (1, 3, 1, 2)))


def test_running_sums_backwards() -> None:
    x = np.array([[1, 2, 3, 4]])
    assert_same(run_case(case("CumSum", x, np.array(1), reverse=1))[0], np.array([[10, 9, 7, 4]]))
    assert_same(run_case(case("CumSum", x, np.array(1), reverse=1, exclusive=1))[0], np.array([[9, 7, 4, 0]]))


@BOTH
@pytest.mark.parametrize("length", [1, 2, 33])
def test_exclusive_or(length: int, folded: bool) -> None:
    a, b = np.arange(length) % 2 == 0, np.arange(length) % 3 == 1
    assert_same(outcome(case("Xor", a, b), folded), a ^ b)


@BOTH
def test_variadic_extremes(folded: bool) -> None:
    assert_same(outcome(case("Min", np.array([1, 2]), np.array([3, 4])), folded), np.array([1, 2]))
    assert_same(outcome(case("Max", np.array([1, 2])), folded), np.array([1, 2]))
    assert_same(
        outcome(case("Max", np.array([[1], [5]]), np.array([2, 3]), np.array(4)), folded), np.array([[4, 4], [5, 5]])
    )


@BOTH
def test_clip_between_swapped_bounds(folded: bool) -> None:
    c = case("Clip", np.array([-2.0, 0, 6], np.float32), np.array(2.0, np.float32), np.array(1.0, np.float32))
    assert_same(outcome(c, folded), np.ones(3, np.float32))


def test_float16_is_quantised_as_float16_divides() -> None:
    x = np.array([0.050018310546875, -0.050018310546875], np.float16)
    c = case("QuantizeLinear", x, np.array(0.0999755859375, np.float16), np.array(0, np.int8))
    assert_same(run_case(c)[0], np.array([1, -1], np.int8))


@pytest.mark.parametrize(
    ("x", "y", "scale", "zero"),
    [([-127, 128, 0.5], [0, 255, 127], 1, 127), ([-253, 257], [0, 254], 2, 126), ([0, 0, 0], [0, 0, 0], 0, 0)],
)
def test_dynamic_quantisation_rounds_ties_to_even(x: list[float], y: list[int], scale: float, zero: int) -> None:
    got = run_case(case("DynamicQuantizeLinear", np.array(x, np.float32), outputs=3))
    assert_same(got[0], np.array(y, np.uint8))
    assert_same(got[2], np.array(zero, np.uint8))
    if scale:
        assert_same(got[1], np.array(scale, np.float32))
