"""Loops and scans: unrolled while importing, by trip counts and conditions that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lpx.onnx
from lpx.errors import UnsupportedError
from tests.frontends.onnx.support import Array, floats, model_of, reference, run

ANY = None


def value(name: str, dtype: int = TensorProto.FLOAT, shape: Any = ANY) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def counting_loop(stop: int) -> onnx.ModelProto:
    """Doubles `v` while the step is below `stop`; gives the last value and the value of each step."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["v_next"]),
            helper.make_node("Identity", ["v"], ["row"]),
            helper.make_node("Less", ["i", "stop"], ["again"]),
        ],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("v")],
        [value("again", TensorProto.BOOL), value("v_next"), value("row")],
    )
    node = helper.make_node("Loop", ["m", "", "x"], ["last", "rows"], body=body)
    inputs: dict[str, Array] = {"m": np.array(0), "x": floats(3)}
    return model_of([node], inputs, ["last", "rows"], {"stop": np.array(stop)})


@pytest.mark.parametrize(("count", "steps"), [(0, 0), (-3, 0), (2, 2), (5, 3), (2**63 - 1, 3)])
def test_loop(count: int, steps: int) -> None:
    """The condition turns false after three steps; a huge or negative trip count is only a number."""
    x = floats(3)
    last, rows = run(counting_loop(2), {"m": np.array(count), "x": x})
    np.testing.assert_array_equal(last, x * 2**steps)
    assert rows.shape == (steps, 3)
    for k, row in enumerate(rows):
        np.testing.assert_array_equal(row, x * 2**k)


def test_loop_that_is_too_long() -> None:
    with pytest.raises(UnsupportedError, match="a loop of more than 1024 steps"):
        run(counting_loop(10**6), {"m": np.array(5000), "x": floats(3)})


@pytest.mark.parametrize("direction", [0, 1])
def test_scan(direction: int) -> None:
    """Running sums along axis 1, with each sum as an output row."""
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["s_next"]), helper.make_node("Identity", ["s_next"], ["row"])],
        "body",
        [value("s"), value("e")],
        [value("s_next"), value("row")],
    )
    node = helper.make_node(
        "Scan",
        ["zero", "x"],
        ["last", "rows"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[1],
        scan_input_directions=[direction],
        scan_output_directions=[direction],
    )
    x = floats(3, 4)
    model = model_of([node], {"x": x}, ["last", "rows"], {"zero": np.zeros(3, np.float32)})
    last, rows = lpx.onnx.load(model)(x)
    ordered = x[:, ::-1] if direction else x
    sums = np.cumsum(ordered, axis=1)
    np.testing.assert_allclose(last, x.sum(axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rows, sums[:, ::-1] if direction else sums, rtol=1e-5, atol=1e-6)


def test_scan_equals_the_reference() -> None:
    body = helper.make_graph(
        [helper.make_node("Mul", ["s", "e"], ["s_next"]), helper.make_node("Tanh", ["e"], ["row"])],
        "body",
        [value("s"), value("e")],
        [value("s_next"), value("row")],
    )
    node = helper.make_node("Scan", ["x", "y"], ["last", "rows"], body=body, num_scan_inputs=1)
    inputs = {"x": floats(3), "y": floats(4, 3, seed=1)}
    model = model_of([node], inputs, ["last", "rows"])
    for got, want in zip(run(model, inputs), reference(model, inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
