"""Handlers that make, reshape and move tensors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.onnx.support import Case, assert_same, case, check, floats, integers, onnxruntime, run_case

X = floats(2, 3, 4)
INTS = np.int64


CASES = [
    case("Shape", X),
    case("Shape", X, start=1, end=-1),
    case("Size", X),
    case("Reshape", X, np.array([0, -1], INTS)),
    case("Reshape", floats(2, 0, 3), np.array([3, 0, 4], INTS), allowzero=1),
    case("Flatten", X, axis=2),
    case("Flatten", X, axis=-1),
    case("Squeeze", floats(1, 3, 1), np.array([0], INTS)),
    case("Squeeze", floats(1, 3, 1)),
    case("Unsqueeze", X, np.array([0, -1], INTS)),
    case("Transpose", X),
    case("Transpose", X, perm=[1, 0, 2]),
    case("Expand", floats(3, 1), np.array([2, 1, 4], INTS)),
    case("Tile", X, np.array([1, 2, 3], INTS)),
    case("Concat", X, floats(2, 1, 4, seed=1), axis=1),
    case("Concat", X, floats(2, 0, 4), floats(2, 2, 4, seed=1), axis=-2),
    case("Split", X, np.array([1, 3], INTS), axis=2, outputs=2),
    case("Split", X, axis=2, num_outputs=3, outputs=3),
    case("Slice", X, np.array([0, 1], INTS), np.array([2, 10], INTS), np.array([0, -1], INTS)),
    case("Slice", X, np.array([-1], INTS), np.array([-100], INTS), np.array([2], INTS), np.array([-2], INTS)),
    case("Slice", X, np.array([3], INTS), np.array([1], INTS), np.array([2], INTS)),
    case("ConstantOfShape", np.array([2, 3], INTS)),
    case("Range", np.array(1), np.array(10), np.array(3)),
    case("Range", np.array(2.5, np.float32), np.array(-1, np.float32), np.array(-0.75, np.float32)),
    case("Trilu", floats(2, 4, 5), np.array(1, INTS)),
    case("Trilu", floats(4, 5), np.array(-1, INTS), upper=0),
    case("EyeLike", floats(3, 4), k=1, dtype=7),
    case("DepthToSpace", floats(1, 8, 2, 3), blocksize=2),
    case("DepthToSpace", floats(1, 8, 2, 3), blocksize=2, mode="CRD"),
    case("SpaceToDepth", floats(1, 2, 4, 6), blocksize=2),
    case("Pad", X, np.array([0, 1, 2, 0, 0, 1], INTS), np.array(7, np.float32)),
    case("Pad", X, np.array([1, 2], INTS), None, np.array([-1], INTS), mode="edge"),
    case("Pad", X, np.array([0, 2, 1, 0, 1, 3], INTS), mode="reflect"),
    case("Pad", X, np.array([0, 2, 1, 0, 1, 3], INTS), mode="wrap"),
    case("OneHot", integers(2, 3, low=-4, high=4), np.array(3), np.array([-1, 2], np.float32)),
    case("OneHot", integers(2, 3, low=0, high=4), np.array(5), np.array([0, 1], np.int64), axis=1),
]


@pytest.mark.parametrize("c", CASES, ids=str)
def test_shapes(c: Case) -> None:
    check(c)


def test_negative_padding_cuts() -> None:
    check(case("Pad", X, np.array([0, -1, 2, 0, 0, -1], INTS)), oracle=onnxruntime)


def test_old_attribute_forms() -> None:
    x = floats(1, 3, 4)
    assert_same(run_case(Case("Squeeze", [x], {"axes": [0]}, 11))[0], x[0])
    assert_same(run_case(Case("Unsqueeze", [x], {"axes": [0, 4]}, 11))[0], x[None, ..., None])
    assert_same(run_case(Case("Slice", [x], {"starts": [1], "ends": [3], "axes": [2]}, 9))[0], x[:, :, 1:3])
    assert_same(run_case(Case("Reshape", [x], {"shape": [3, -1]}, 1))[0], x.reshape(3, -1))
    assert_same(
        run_case(Case("Pad", [x], {"pads": [0, 0, 1, 0, 0, 0], "value": 2.0}, 2))[0],
        np.pad(x, [(0, 0)] * 2 + [(1, 0)], constant_values=2),
    )
    assert_same(
        run_case(Case("Upsample", [x[None]], {"scales": [1.0, 1.0, 2.0, 1.0]}, 7))[0], x[None].repeat(2, axis=2)
    )
