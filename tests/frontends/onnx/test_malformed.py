"""Models that are wrong or hostile: each is refused by name, before anything runs or is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lpx.onnx
from lpx.errors import ArgumentError, ModelError, UnsupportedError
from tests.frontends.onnx.support import OPSET, Case, case, floats, model_of, node_model, run, run_case

X = floats(4)


def external_model(
    location: str, entries: Mapping[str, str] | None = None, shape: Sequence[int] = (4,)
) -> onnx.ModelProto:
    """y = x + w, with w in an external file."""
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": X}, ["y"])
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **(entries or {})}.items():
        tensor.external_data.add(key=key, value=value)
    model.graph.initializer.append(tensor)
    return model


def load_saved(model: onnx.ModelProto, folder: Path) -> Any:
    """Save a model and run it, with the data file `w.bin` beside it."""
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return lpx.onnx.load(folder / "model.onnx")(X)


def test_external_data_beside_the_model(tmp_path: Path) -> None:
    weights = floats(6, seed=1)
    (tmp_path / "w.bin").write_bytes(weights.tobytes())
    ranges: list[dict[str, str]] = [{}, {"length": "0"}, {"length": "16", "offset": "0"}]
    for entries in ranges:
        np.testing.assert_array_equal(load_saved(external_model("w.bin", entries), tmp_path), X + weights[:4])
    np.testing.assert_array_equal(load_saved(external_model("w.bin", {"offset": "8"}), tmp_path), X + weights[2:])


@pytest.mark.parametrize(
    "location", ["../w.bin", "a/../../w.bin", "a\\..\\w.bin", "w.bin\0", "", "C:w.bin", "/etc/passwd"]
)
def test_external_data_outside_the_folder(location: str, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(64))
    with pytest.raises(ModelError, match="not a path inside the model's folder"):
        load_saved(external_model(location), tmp_path / "inner")


def test_external_data_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "w.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ModelError, match="leads out of the model's folder"):
        load_saved(external_model("w.bin"), tmp_path / "inner")


def test_external_data_that_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelError, match="cannot read 'folder'"):
        load_saved(external_model("folder"), tmp_path)
    with pytest.raises(ModelError, match=r"cannot read 'absent\.bin': No such file"):
        load_saved(external_model("absent.bin"), tmp_path)
    with pytest.raises(ModelError, match="not loaded from a file"):
        run(external_model("w.bin"), {"x": X})


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": str(2**64 - 8)}, "must be a number of bytes"),
        ({"offset": str(2**62)}, f"takes bytes {2**62} to {2**62 + 16}"),
        ({"offset": "16"}, "takes bytes 16 to 32 of 'w.bin', which has 16"),
        ({"length": str(2**63)}, f"has length {2**63}"),
        ({"length": "12"}, "takes 16 bytes, but its external data has length 12"),
        ({"length": "-1"}, "must be a number of bytes"),
        ({"checksum": "x", "colour": "red"}, "the external data key 'colour'"),
    ],
)
def test_external_ranges(entries: dict[str, str], message: str, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    with pytest.raises(ModelError, match=message):
        load_saved(external_model("w.bin", entries), tmp_path)


def test_external_file_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(15))
    with pytest.raises(ModelError, match=r"takes bytes 0 to 16 of 'w\.bin', which has 15"):
        load_saved(external_model("w.bin"), tmp_path)


def test_huge_external_tensor_is_not_allocated(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    with pytest.raises(ModelError, match=f"takes bytes 0 to {2**62} of"):
        load_saved(external_model("w.bin", shape=(2**30, 2**30)), tmp_path)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (
            TensorProto(name="w", data_type=1, dims=[4], raw_data=bytes(15)),
            r"float32\[4\], which takes 16 bytes, but holds 15",
        ),
        (TensorProto(name="w", data_type=1, dims=[-4], raw_data=bytes(16)), "negative extent"),
        (TensorProto(name="w", data_type=1, dims=[4], float_data=[1, 2]), r"float32\[4\] but holds 2 element"),
        (TensorProto(name="w", data_type=99, dims=[4]), "element type 99, which ONNX does not define"),
        (TensorProto(name="w", data_type=8, dims=[1], string_data=[b"a"]), "elements of STRING"),
    ],
)
def test_stored_tensors(tensor: TensorProto, message: str) -> None:
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": X}, ["y"])
    model.graph.initializer.append(tensor)
    with pytest.raises((ModelError, UnsupportedError), match=message):
        run(model, {"x": X})


def test_sizes_are_checked_before_they_are_allocated() -> None:
    with pytest.raises(UnsupportedError, match="more than the memory of this machine"):
        run_case(case("ConstantOfShape", np.array([2**40, 2**10])))


def add(*names: str) -> onnx.NodeProto:
    """z = x + y for the names of x, y and z."""
    return helper.make_node("Add", names[:2], names[2:], name="sum")


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([add("x", "nothing", "y")], "'nothing', an input of the Add node 'sum', is made nowhere"),
        ([add("x", "b", "y"), add("x", "x", "b")], "is made only later, by the Add node 'sum'"),
        ([add("x", "b", "a"), add("x", "a", "b"), add("a", "b", "y")], "must not form a cycle"),
        ([add("x", "x", "y"), add("x", "x", "y")], "the name 'y' is given to two tensors"),
        ([add("x", "x", "x")], "the name 'x' is given to two tensors"),
        ([add("x", "x", "z")], "'y', an output of the graph, is made nowhere"),
    ],
)
def test_names(nodes: list[onnx.NodeProto], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        lpx.onnx.load(model_of(nodes, {"x": X}, ["y"]))


def test_initializer_given_twice() -> None:
    model = model_of([add("x", "w", "y")], {"x": X}, ["y"], {"w": X})
    model.graph.initializer.append(model.graph.initializer[0])
    with pytest.raises(ModelError, match="initializer 'w' is given twice"):
        lpx.onnx.load(model)


def function(name: str, callee: str) -> onnx.FunctionProto:
    """A function that calls another."""
    node = helper.make_node(callee, ["a"], ["b"], domain="" if callee == "Relu" else "own")
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], [node], imports)


def calling(name: str, *functions: onnx.FunctionProto) -> onnx.ModelProto:
    """A model that calls a function."""
    node = helper.make_node(name, ["x"], ["y"], domain="own")
    return model_of([node], {"x": X}, ["y"], functions=functions)


def test_functions_are_inlined() -> None:
    (got,) = run(calling("A", function("A", "B"), function("B", "Relu")), {"x": X})
    np.testing.assert_array_equal(got, np.maximum(X, 0))


def test_functions_that_call_themselves() -> None:
    with pytest.raises(ModelError, match="function A calls itself: A -> A"):
        lpx.onnx.load(calling("A", function("A", "A")))
    with pytest.raises(ModelError, match="calls itself: A -> B -> A"):
        lpx.onnx.load(calling("A", function("A", "B"), function("B", "A")))
    chain = [function(f"F{k}", f"F{k + 1}") for k in range(5000)]
    with pytest.raises(ModelError, match="functions call each other 5001 deep"):
        lpx.onnx.load(calling("F0", *chain, function("F5000", "Relu")))


def test_function_defined_twice() -> None:
    with pytest.raises(ModelError, match="function A of domain 'own' is defined twice"):
        lpx.onnx.load(calling("A", function("A", "Relu"), function("A", "Relu")))


def test_deep_nesting() -> None:
    model = model_of([], {"c": np.array(True)}, [])
    graph = model.graph
    for depth in range(100):
        node = graph.node.add(op_type="If", input=["c"], output=[f"r{depth}"])
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
    with pytest.raises(ModelError, match="graphs nest more than 64 deep"):
        lpx.onnx.load(model)


def test_deep_nesting_of_bytes() -> None:
    """10,000 levels of graph, node, attribute, each a length-delimited field."""
    data = b""
    for _ in range(10_000):
        for field_number in (6, 5, 1):
            data = bytes([field_number << 3 | 2]) + _varint(len(data)) + data
    with pytest.raises(ModelError, match="no ONNX model, or it nests too deeply"):
        lpx.onnx.load(b"\x3a" + _varint(len(data)) + data)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def test_bytes_that_are_no_model() -> None:
    with pytest.raises(ModelError, match="this is no ONNX model"):
        lpx.onnx.load(b"\x0a\xff\xff not a model")
    with pytest.raises(ModelError, match="the model has no graph"):
        lpx.onnx.load(b"")
    with pytest.raises(ModelError, match="cannot read the model"):
        lpx.onnx.load("/nowhere/model.onnx")


@pytest.mark.parametrize(
    ("c", "message"),
    [
        (case("Relu", X, alpha=1.0), "has the unknown attribute alpha"),
        (case("Relu", X, X), r"has 2 input\(s\)"),
        (case("LeakyRelu", X, alpha=1), "attribute alpha must be FLOAT"),
        (case("Concat", X, X), "lacks the attribute axis"),
        (case("Add", X, X.astype(np.float64)), "input B is float64, but another of its type is float32"),
        (case("Sqrt", np.arange(3)), "input X is int64"),
        (case("Add", X, floats(3)), r"Add node that makes 'y0': shapes \(4,\) and \(3,\) do not broadcast"),
        (case("Reshape", X, np.array([3, -1])), r"cannot reshape float32\[4\] to \(3, -1\)"),
        (case("Pad", X, np.array([1, 1]), mode="mirror"), "mode='mirror'"),
        (case("Einsum", X, X, equation="i->i"), "equation 'i->i' does not fit 2 operand"),
        (case("Einsum", X, equation="i->j"), "labels that repeat or occur nowhere"),
        (case("Einsum", X, equation="ij->i"), "does not fit operands of rank 1"),
        (case("Conv", floats(1, 1, 4, 4), floats(1, 1, 3, 3, 3)), "differ in rank"),
        (case("Conv", floats(1, 1, 4, 4), floats(1, 1, 3, 3), kernel_shape=[3, 3, 3]), "attribute kernel_shape is"),
        (case("Conv", floats(1, 1, 4, 4), floats(1, 1, 3, 3), pads=[1, 1]), r"attribute pads is \(1, 1\)"),
        (case("Conv", floats(1, 1, 4, 4), floats(1, 1, 3, 3), strides=[0, 1]), r"attribute strides is \(0, 1\)"),
        (case("MaxPool", floats(1, 1, 4, 4), kernel_shape=[3]), "attribute kernel_shape is"),
    ],
)  # fmt: skip
def test_nodes(c: Case, message: str) -> None:
    with pytest.raises((ModelError, UnsupportedError), match=message):
        run_case(c)


def test_operators_that_do_not_exist() -> None:
    with pytest.raises(UnsupportedError, match=r"operator set ai\.onnx 21 has no Frobnicate"):
        run_case(case("Frobnicate", X))
    model = model_of([helper.make_node("Thing", ["x"], ["y"], domain="com.example")], {"x": X}, ["y"])
    with pytest.raises(ModelError, match=r"is of the operator set 'com\.example', which is not imported"):
        run(model, {"x": X})


def test_operator_sets_of_the_future() -> None:
    model = node_model(case("Relu", X))
    model.opset_import[0].version = 1000
    with pytest.raises(UnsupportedError, match="operator set 1000"):
        lpx.onnx.load(model)


def test_shapes_that_depend_on_data() -> None:
    """The elements of small inputs are compiled in; those of large ones are refused."""
    x = np.arange(100)
    with pytest.raises(UnsupportedError, match="the shape of Reshape depends on the elements of input 'x1'"):
        run_case(case("Reshape", floats(100), x))


def test_arguments() -> None:
    model = lpx.onnx.load(node_model(case("Relu", X)))
    for arguments, message in [
        ((), "the call lacks input 'x0'"),
        ((X, X), r"takes 1 input\(s\), not 2"),
        ((X.astype(np.float64),), r"another dtype: float64\[4\] was given, x0: float32\[4\] is expected"),
        ((floats(2, 2),), "another rank"),
        ((floats(5),), "another shape"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            model(*arguments)
    with pytest.raises(ArgumentError, match="the model has no input 'z'"):
        model.run({"x0": X, "z": X})
    with pytest.raises(ArgumentError, match="input 'x0' was given twice"):
        model(X, x0=X)
