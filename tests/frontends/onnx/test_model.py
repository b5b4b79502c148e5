"""The model object: calls, specialisation, values compiled in, functions, branches, checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lpx
import lpx.onnx
from lpx import dtypes
from lpx.graph.nodes import Graph
from lpx.onnx import backend
from tests.frontends.onnx.support import OPSET, Array, case, floats, model_of, node_model, reference


def dynamic_model() -> onnx.ModelProto:
    """y = relu(x @ w), z = shape(x), for any number of rows."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["y"]),
        helper.make_node("Shape", ["x"], ["z"]),
    ]
    model = model_of(nodes, {"x": floats(1, 3)}, ["y", "z"], {"w": floats(3, 4, seed=1)})
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    return model


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_dynamic_dimensions(rows: int) -> None:
    model = lpx.onnx.load(dynamic_model())
    x = floats(rows, 3)
    y, z = model(x)
    np.testing.assert_allclose(y, np.maximum(x @ floats(3, 4, seed=1), 0), rtol=1e-5, atol=1e-6)
    assert z.tolist() == [rows, 3]


def test_calls() -> None:
    model = lpx.onnx.load(node_model(case("Sub", floats(3), floats(3))))
    a, b = floats(3), floats(3, seed=1)
    out = np.empty(3, np.float32)
    assert model(a, b, out=out) is out
    for result in (model(a, b), model(a, x1=b), model(x0=a, x1=b), model.run({"x1": b, "x0": a})["y0"], out):
        np.testing.assert_array_equal(result, a - b)
    assert [str(t) for t in model.inputs] == ["x0: float32[3]", "x1: float32[3]"]
    assert len(model.stats) == 1


def test_each_shape_is_compiled_once() -> None:
    model = lpx.onnx.load(dynamic_model())
    for rows in (1, 2, 1, 2):
        model(floats(rows, 3))
    assert len(model.stats) == 2


def test_strided_and_foreign_byte_order_arguments() -> None:
    model = lpx.onnx.load(dynamic_model())
    x = floats(6, 3)[::2]
    want = model(np.ascontiguousarray(x))[0]
    np.testing.assert_array_equal(model(x)[0], want)
    np.testing.assert_array_equal(model(x.astype(">f4"))[0], want)


def test_elements_that_decide_shapes_are_compiled_in() -> None:
    x = floats(2, 6)
    c = case("Reshape", x, np.array([3, 4]))
    model = lpx.onnx.load(node_model(c))
    assert model(x, np.array([3, 4])).shape == (3, 4)
    assert model(x, np.array([12, 1])).shape == (12, 1)
    assert model(x, np.array([3, 4])).shape == (3, 4)
    assert len(model.stats) == 2


def test_initializers_that_are_inputs_can_be_replaced() -> None:
    model = node_model(case("Add", floats(3), floats(3, seed=1), static=[1]))
    model.graph.input.append(helper.make_tensor_value_info("x1", TensorProto.FLOAT, [3]))
    loaded = lpx.onnx.load(model)
    np.testing.assert_array_equal(loaded(floats(3)), floats(3) + floats(3, seed=1))
    np.testing.assert_array_equal(loaded(floats(3), x1=np.ones(3, np.float32)), floats(3) + 1)
    np.testing.assert_array_equal(loaded(floats(3)), floats(3) + floats(3, seed=1))


def test_outputs_that_are_inputs_constants_or_one_another() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["same"]), helper.make_node("Relu", ["x"], ["y"])]
    nodes += [helper.make_node("Identity", ["y"], ["again"])]
    model = model_of(nodes, {"x": floats(3)}, ["x", "same", "y", "again", "w"], {"w": np.arange(3.0)})
    x = floats(3)
    got = lpx.onnx.load(model)(x)
    for value, want in zip(got, [x, x, np.maximum(x, 0), np.maximum(x, 0), np.arange(3.0)], strict=True):
        np.testing.assert_array_equal(value, want)
    assert got[0] is not x


def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
    """A branch whose output is `r`."""
    return helper.make_graph(list(nodes), name, [], [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)])


@pytest.mark.parametrize("taken", [True, False])
def test_branches_see_the_names_around_them(taken: bool) -> None:
    then = branch("then", helper.make_node("Add", ["x", "w"], ["r"]))
    otherwise = branch("else", helper.make_node("Mul", ["x", "w"], ["r"]))
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)
    inputs: dict[str, Array] = {"x": floats(3), "c": np.array(taken)}
    model = model_of([node], inputs, ["y"], {"w": floats(3, seed=1)})
    (want,) = reference(model, inputs)
    np.testing.assert_array_equal(lpx.onnx.load(model)(*inputs.values()), want)


def test_functions_with_attributes_and_defaults() -> None:
    node = helper.make_node("LeakyRelu", ["a"], ["b"])
    node.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    imports = [helper.make_opsetid("", OPSET)]
    default = [helper.make_attribute("slope", 0.5)]
    function = helper.make_function("own", "Leak", ["a"], ["b"], [node], imports, [], default)
    nodes = [
        helper.make_node("Leak", ["x"], ["m"], domain="own"),
        helper.make_node("Leak", ["m"], ["y"], domain="own", slope=0.25),
    ]
    model = lpx.onnx.load(model_of(nodes, {"x": floats(4)}, ["y"], functions=[function]))
    got = model(-np.ones(4, np.float32))
    np.testing.assert_array_equal(got, np.full(4, -0.125, np.float32))


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float64", "int8", "uint64", "bool", "int4", "uint4", "float8_e4m3fn"]
)
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "typed field"])
def test_stored_elements(dtype: str, raw: bool) -> None:
    """Tensors of every dtype come out of a model as they went in, whichever field they lie in."""
    native = dtypes.parse(dtype).to_numpy()
    array = np.array([[0, 1, 1], [3, 2, 5], [1, 0, 7]]).astype(native)
    tensor = numpy_helper.from_array(array, "w")
    if not raw:
        tensor = helper.make_tensor("w", tensor.data_type, array.shape, array.astype(np.float32).reshape(-1).tolist())
    model = model_of([helper.make_node("Identity", ["w"], ["y"])], {}, ["y"])
    model.graph.initializer.append(tensor)
    (got,) = lpx.onnx.load(model).run({}).values()
    assert got.dtype == native
    np.testing.assert_array_equal(got.astype(np.float32), array.astype(np.float32))


def operators_of(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[str]:
    """The graph operators that do work for a model."""
    graph: Graph = lpx.onnx.load(model).graph(inputs)
    return [n.operator.name for n in graph.nodes if n.inputs]


def test_shape_arithmetic_leaves_nothing_behind() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["d"], axis=0),
        helper.make_node("Concat", ["rest", "d"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    stored = {"one": np.array([1]), "rest": np.array([-1])}
    model = model_of(nodes, {"x": floats(2, 3, 4)}, ["y"], stored)
    assert operators_of(model, {"x": floats(2, 3, 4)}) == ["reshape"]


def test_weights_are_transposed_once() -> None:
    model = node_model(case("Gemm", floats(2, 64), floats(128, 64, seed=1), transB=1, static=[1]))
    assert operators_of(model, {"x0": floats(2, 64)}) == ["matmul"]


def test_broadcast_constants_stay_cheap() -> None:
    """A constant that is larger than what it is made from is made again where it is used."""
    nodes = [helper.make_node("Expand", ["w", "s"], ["e"]), helper.make_node("Add", ["x", "e"], ["y"])]
    model = model_of(nodes, {"x": floats(64, 512)}, ["y"], {"w": floats(1, 512), "s": np.array([64, 512])})
    graph = lpx.onnx.load(model).graph({"x": floats(64, 512)})
    assert sum(a.size for a in graph.constants.values()) == 512


def test_batch_normalisation_disappears_into_the_convolution() -> None:
    x, w = floats(1, 3, 8, 8), floats(5, 3, 3, 3, seed=1)
    statistics = {f"s{k}": np.abs(floats(5, seed=k)) + np.float32(0.5) for k in range(4)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"]),
        helper.make_node("BatchNormalization", ["c", *statistics], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    model = model_of(nodes, {"x": x}, ["y"], {"w": w, "b": floats(5, seed=9), **statistics})
    assert operators_of(model, {"x": x}) == ["conv", "add", "relu"]
    (want,) = reference(model, {"x": x})
    np.testing.assert_allclose(lpx.onnx.load(model)(x), want, rtol=1e-4, atol=1e-5)


def test_scales_stay_where_the_convolution_is_used_twice() -> None:
    x, w = floats(1, 3, 8, 8), floats(5, 3, 3, 3, seed=1)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Mul", ["c", "s"], ["m"]),
        helper.make_node("Add", ["m", "c"], ["y"]),
    ]
    model = model_of(nodes, {"x": x}, ["y"], {"w": w, "s": floats(5, 1, 1, seed=2)})
    assert operators_of(model, {"x": x}) == ["conv", "mul", "add"]


def test_check_finds_everything_at_once() -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["x"], ["b"], name="second", slope=1),
        helper.make_node("Unknown", ["b"], ["c"], name="third"),
        helper.make_node("Pad", ["x", "pads"], ["d"], name="fourth", mode="mirror"),
        helper.make_node("Relu", ["x"], ["y"], name="fifth"),
    ]
    report = lpx.onnx.check(model_of(nodes, {"x": floats(3)}, ["y"], {"pads": np.array([1, 1])}))
    assert {f.node: f.message.partition(": ")[2] or f.message for f in report.faults} == {
        "NonZero node 'first'": "operator NonZero is not supported (version 13)",
        "Relu node 'second'": "Relu node 'second' has the unknown attribute slope",
        "Unknown node 'third'": "operator set ai.onnx 21 has no Unknown",
        "Pad node 'fourth'": "mode='mirror'",
    }
    assert report.operators == {"Relu": 2, "NonZero": 1, "Unknown": 1, "Pad": 1}


def test_check_says_what_it_could_not_look_at() -> None:
    report = lpx.onnx.check(node_model(case("Reshape", floats(4), np.array([2, 2]))))
    assert not report.faults
    assert "depends on the elements of input x1" in report.unseen[0]


def test_check_of_a_model_that_runs() -> None:
    report = lpx.onnx.check(dynamic_model())
    assert (report.faults, report.unseen) == ([], [])


def test_sample_inputs_fill_open_dimensions() -> None:
    model = lpx.onnx.load(dynamic_model())
    assert lpx.onnx.sample_inputs(model)["x"].shape == (1, 3)
    assert lpx.onnx.sample_inputs(model, {"x": (5, 3)})["x"].shape == (5, 3)
    with pytest.raises(lpx.errors.ArgumentError, match=r"shape \(5, 4\) does not fit"):
        lpx.onnx.sample_inputs(model, {"x": (5, 4)})
    with pytest.raises(lpx.errors.ArgumentError, match="there is no input 'z'"):
        lpx.onnx.sample_inputs(model, {"z": (5, 4)})


def test_backend() -> None:
    model = dynamic_model()
    x = floats(2, 3)
    results: Any = backend.prepare(model).run([x])
    for got, want in zip(results, reference(model, {"x": x}), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    (relu,) = backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [x])
    np.testing.assert_array_equal(relu, np.maximum(x, 0))
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
