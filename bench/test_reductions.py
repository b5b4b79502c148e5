"""Sums and extremes over rows, columns and everything, next to NumPy and ONNX Runtime in the same run.

pytest bench/test_reductions.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bench import peers
from bench.interleave import Array, compare

import lpx

SHAPE = (2048, 1024)
X = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)


def sum_of_all(x: Any) -> Any:
    """One number."""
    return np.sum(x)


CASES: dict[str, tuple[Callable[[Any], Any], str, tuple[int, ...]]] = {
    "sum of rows": (lambda x: np.sum(x, axis=1), "ReduceSum", (1,)),
    "sum of columns": (lambda x: np.sum(x, axis=0), "ReduceSum", (0,)),
    "sum of all": (sum_of_all, "ReduceSum", (0, 1)),
    "max of rows": (lambda x: np.max(x, axis=1), "ReduceMax", (1,)),
    "mean of rows": (lambda x: np.mean(x, axis=1), "ReduceMean", (1,)),
}


@pytest.mark.parametrize("case", CASES)
def test_reduction(benchmark: Any, case: str) -> None:
    """Two megaelements, reduced by one NumPy function."""
    function, operator, axes = CASES[case]
    benchmark.group = f"{case}, {SHAPE[0]} x {SHAPE[1]}"
    compiled = lpx.jit(function)

    def numpy() -> Array:
        return np.asarray(function(X))

    nodes = [(operator, ["x", "axes"], "y", {"keepdims": 0})]
    candidates = peers.present(
        numpy=numpy,
        onnxruntime=peers.onnx_runtime(nodes, {"x": X, "axes": np.asarray(axes, np.int64)}, "y"),
        lpx=lambda: compiled(X),
    )
    compare(benchmark, candidates, work={"bytes": float(X.nbytes)})


def test_argmax(benchmark: Any) -> None:
    """A reduction of pairs."""
    benchmark.group = f"argmax of rows, {SHAPE[0]} x {SHAPE[1]}"
    compiled = lpx.jit(lambda x: np.argmax(x, axis=1))
    candidates = {"numpy": lambda: np.argmax(X, axis=1), "lpx": lambda: compiled(X)}
    compare(benchmark, candidates, tolerance=0, work={"bytes": float(X.nbytes)})
