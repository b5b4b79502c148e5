"""What a model's outputs are compared with: ONNX Runtime where it is installed, and ONNX's reference evaluator."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lpx.records import record

Array = NDArray[Any]
Arrays = Mapping[str, Array]
PeerName = Literal["onnxruntime", "reference"]


@record
class Difference:
    """How far one output is from a peer's. `relative` is to the largest magnitude of the peer's output."""

    absolute: float
    relative: float
    same_type: bool

    def is_within(self, tolerance: float) -> bool:
        """Whether the output counts as equal."""
        return self.same_type and self.relative <= tolerance


def best_peer() -> PeerName:
    """ONNX Runtime where it is installed, else ONNX's reference evaluator."""
    return "onnxruntime" if find_spec("onnxruntime") is not None else "reference"


def run_peer(name: PeerName, path: Path, inputs: Arrays, threads: int, repeat: int) -> tuple[list[Array], float | None]:
    """The peer's outputs in order, and its median latency in seconds (None where that says nothing)."""
    return (
        _run_onnxruntime(path, inputs, threads, repeat)
        if name == "onnxruntime"
        else (_run_reference(path, inputs), None)
    )


def _run_onnxruntime(path: Path, inputs: Arrays, threads: int, repeat: int) -> tuple[list[Array], float]:
    onnxruntime: Any = import_module("onnxruntime")  # carries no types
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = dict(inputs)
    outputs: list[Array] = session.run(None, feeds)
    return outputs, median_seconds(lambda: session.run(None, feeds), repeat)


def _run_reference(path: Path, inputs: Arrays) -> list[Array]:
    evaluator: Any = import_module("onnx.reference").ReferenceEvaluator(str(path))
    outputs: list[Array] = evaluator.run(None, dict(inputs))
    return outputs


def median_seconds(call: Callable[[], object], repeat: int) -> float:
    """The median time of `repeat` calls."""
    times: list[float] = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def difference(own: Array, peer: Array) -> Difference:
    """The largest distance between two outputs. NaN and infinities must stand at the same places."""
    if own.shape != peer.shape or own.dtype != peer.dtype:
        return Difference(np.inf, np.inf, same_type=False)
    if not own.size:
        return Difference(0.0, 0.0, same_type=True)
    a, b = own.astype(np.float64), peer.astype(np.float64)
    special = ~np.isfinite(a) | ~np.isfinite(b)
    if not np.array_equal(a[special], b[special], equal_nan=True):
        return Difference(np.inf, np.inf, same_type=True)
    a, b = np.where(special, 0.0, a), np.where(special, 0.0, b)
    largest, scale = float(np.abs(a - b).max()), float(np.abs(b).max())
    return Difference(largest, largest / scale if scale else largest, same_type=True)
