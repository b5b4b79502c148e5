"""The libraries lpx is compared with, at the same number of threads, and what they need to run one operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lpx

Array = NDArray[Any]
NAMES = ("numpy", "numba", "onnxruntime")


def installed(name: str) -> bool:
    """Whether a peer is there to compare with."""
    return find_spec(name) is not None


prange: Any = import_module("numba").prange if installed("numba") else range
"""The range of a loop whose iterations numba may share among threads."""


def describe() -> str:
    """Each peer with its version, for the header of a run."""
    versions = [f"{n} {import_module(n).__version__ if installed(n) else 'is not installed'}" for n in NAMES]
    return ", ".join(versions)


@contextmanager
def same_threads() -> Iterator[int]:
    """Limit NumPy's BLAS and numba to the threads that lpx has; ONNX Runtime's sessions are made with them."""
    count = lpx.get_num_threads()
    if installed("numba"):
        import_module("numba").set_num_threads(count)
    if not installed("threadpoolctl"):
        yield count
        return
    with import_module("threadpoolctl").threadpool_limits(limits=count):
        yield count


def njit(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """A function compiled by numba at its best settings, None without it."""
    if not installed("numba"):
        return None
    numba: Any = import_module("numba")
    parallel = lpx.get_num_threads() > 1
    compiled: Callable[..., Any] = numba.njit(fastmath=True, parallel=parallel)(function)
    return compiled


def onnx_runtime(
    nodes: Sequence[tuple[str, Sequence[str], str, Mapping[str, Any]]],
    inputs: Mapping[str, Array],
    output: str,
    constants: Mapping[str, Array] | None = None,
) -> Callable[[], Array] | None:
    """A session over `nodes` (operator, inputs, output, attributes), run on `inputs`; None without ONNX Runtime.

    It holds `constants`, and may lay them out as it likes best.
    """
    if not installed("onnxruntime"):
        return None
    onnx: Any = import_module("onnx")
    runtime: Any = import_module("onnxruntime")
    helper = onnx.helper
    made = [helper.make_node(op, list(names), [out], **attrs) for op, names, out, attrs in nodes]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()
    ]
    result = helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
    held = [onnx.numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(made, "bench", infos, [result], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = lpx.get_num_threads()
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = dict(inputs)

    def run() -> Array:
        (value,) = session.run([output], feed)
        return np.asarray(value)

    return run


def present(**candidates: Callable[[], Any] | None) -> dict[str, Callable[[], Any]]:
    """The candidates that are not None."""
    return {name: run for name, run in candidates.items() if run is not None}
