"""Small models made in memory, and what they give by lpx and by ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import lpx.onnx

Array = NDArray[Any]
Oracle = Callable[[onnx.ModelProto, Mapping[str, Array]], list[Array]]
OPSET = 21


@dataclass(frozen=True, slots=True)
class Case:
    """One node on arrays. `static` has the positions of inputs that are initializers; the others are graph inputs."""

    op: str
    inputs: Sequence[Array | None]
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    opset: int = OPSET
    outputs: int = 1
    static: frozenset[int] = frozenset()

    def __str__(self) -> str:
        attrs = "".join(f"-{k}={v}" for k, v in self.attrs.items())
        return f"{self.op}{self.opset}{attrs}"[:80].replace(" ", "")


def case(op: str, *inputs: Any, opset: int = OPSET, outputs: int = 1, static: Sequence[int] = (), **attrs: Any) -> Case:
    """A case; numbers and lists of inputs become arrays."""
    arrays = [None if x is None else np.asarray(x) for x in inputs]
    return Case(op, arrays, attrs, opset, outputs, frozenset(static))


def node_model(c: Case) -> onnx.ModelProto:
    """The model of one node."""
    names = ["" if x is None else f"x{k}" for k, x in enumerate(c.inputs)]
    results = [f"y{k}" for k in range(c.outputs)]
    node = helper.make_node(c.op, names, results, **c.attrs)
    given = {n: x for n, x in zip(names, c.inputs, strict=True) if x is not None}
    static = {f"x{k}" for k in c.static}
    return model_of(
        [node],
        {n: x for n, x in given.items() if n not in static},
        results,
        {n: x for n, x in given.items() if n in static},
        c.opset,
    )


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    outputs: Sequence[str],
    initializers: Mapping[str, Array] | None = None,
    opset: int = OPSET,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model with inputs of these arrays' types. Outputs have no declared types beyond being tensors."""
    declared = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in inputs.items()
    ]
    results = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in outputs]
    stored = [numpy_helper.from_array(x, n) for n, x in (initializers or {}).items()]
    graph = helper.make_graph(list(nodes), "test", declared, results, stored)
    imports = [helper.make_opsetid("", opset)] + [
        helper.make_opsetid(domain, 1) for domain in sorted({f.domain for f in functions})
    ]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def run(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of a model by lpx."""
    return list(lpx.onnx.load(model).run(inputs).values())


def run_case(c: Case) -> list[Array]:
    """The outputs of a case by lpx."""
    return run(node_model(c), feeds_of(c))


def feeds_of(c: Case) -> dict[str, Array]:
    """The inputs of a case by name."""
    return {f"x{k}": x for k, x in enumerate(c.inputs) if x is not None and k not in c.static}


def reference(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of a model by ONNX's reference evaluator."""
    evaluator: Any = ReferenceEvaluator(model)
    with np.errstate(all="ignore"):
        return [np.asarray(y) for y in evaluator.run(None, dict(inputs))]


def onnxruntime(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of a model by ONNX Runtime, which is right where the reference evaluator is not."""
    runtime: Any = import_module("onnxruntime")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs: list[Array] = session.run(None, dict(inputs))
    return outputs


def check(c: Case, rtol: float = 1e-5, atol: float = 1e-6, oracle: Oracle = reference) -> None:
    """The outputs of a case agree with the oracle's: dtypes and shapes exactly, integers too."""
    for got, want in zip(run_case(c), oracle(node_model(c), feeds_of(c)), strict=True):
        assert_same(got, want, rtol, atol)


def assert_same(got: Array, want: Array, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Equal dtypes and shapes; equal elements, floats within tolerance."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol)


def floats(*shape: int, seed: int = 0) -> Array:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def integers(*shape: int, low: int = -5, high: int = 6, dtype: str = "int64", seed: int = 0) -> Array:
    """Random integers."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
