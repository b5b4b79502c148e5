"""Reductions over rows, columns and everything, next to NumPy, numba and ONNX Runtime in the same run.

pytest bench/test_reductions.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from bench import peers
from bench.interleave import compare
from bench.peers import prange

import lpx

SHAPES = [(2048, 1024), (4096, 4096), (512, 512)]


@dataclass(frozen=True, slots=True)
class Case:
    """A reduction in NumPy's words, its operator of ONNX over `axes` if it is one of float32, numba's loops if any."""

    function: Callable[[Any], Any]
    operator: str = ""
    axes: tuple[int, ...] = ()
    numba: Callable[[Any], Any] | None = None


def column_sums(x: Any) -> Any:
    """For numba."""
    out = np.zeros(x.shape[1], np.float32)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j] += x[i, j]
    return out


def running_sums(x: Any) -> Any:
    """For numba."""
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
            out[i, j] = total
    return out


CASES: dict[str, Case] = {
    "sum of rows": Case(lambda x: np.sum(x, axis=1), "ReduceSum", (1,)),
    "sum of columns": Case(lambda x: np.sum(x, axis=0), "ReduceSum", (0,), numba=column_sums),
    "sum of all": Case(lambda x: np.sum(x, axis=None), "ReduceSum", (0, 1)),
    "max of rows": Case(lambda x: np.max(x, axis=1), "ReduceMax", (1,)),
    "max of columns": Case(lambda x: np.max(x, axis=0), "ReduceMax", (0,)),
    "max of all": Case(lambda x: np.max(x, axis=None), "ReduceMax", (0, 1)),
    "mean of rows": Case(lambda x: np.mean(x, axis=1), "ReduceMean", (1,)),
    "mean of columns": Case(lambda x: np.mean(x, axis=0), "ReduceMean", (0,)),
    "variance of rows": Case(lambda x: np.var(x, axis=1)),
    "variance of columns": Case(lambda x: np.var(x, axis=0)),
    "deviation of all": Case(lambda x: np.std(x, axis=None)),
    "any of all": Case(lambda x: np.any(x > np.float32(9))),
    "all of rows": Case(lambda x: np.all(x < np.float32(9), axis=1)),
    "argmax of rows": Case(lambda x: np.argmax(x, axis=1)),
    "argmax of columns": Case(lambda x: np.argmax(x, axis=0)),
    "argmax of all": Case(lambda x: np.argmax(x, axis=None)),
    "argmin of rows": Case(lambda x: np.argmin(x, axis=1)),
    "running sum of rows": Case(lambda x: np.cumsum(x, axis=1), numba=running_sums),
    "running sum of columns": Case(lambda x: np.cumsum(x, axis=0)),
    "running product of rows": Case(lambda x: np.cumprod(x, axis=1)),
}
INTEGERS = ("argmax", "argmin", "any", "all")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("name", CASES)
def test_reduction(benchmark: Any, name: str, shape: tuple[int, int]) -> None:
    """One reduction of a matrix by one NumPy function."""
    case = CASES[name]
    benchmark.group = f"{name}, {shape[0]} x {shape[1]}"
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    compiled = lpx.jit(case.function)
    jitted = None if case.numba is None else peers.njit(case.numba)
    nodes = [(case.operator, ["x", "axes"], "y", {"keepdims": 0})]
    feed = {"x": x, "axes": np.asarray(case.axes, np.int64)}
    candidates = peers.present(
        numpy=lambda: np.asarray(case.function(x)),
        numba=None if jitted is None else lambda: jitted(x),
        onnxruntime=peers.onnx_runtime(nodes, feed, "y") if case.operator else None,
        lpx=lambda: compiled(x),
    )
    exact = name.startswith(INTEGERS)
    compare(benchmark, candidates, tolerance=0 if exact else 1e-4, work={"bytes": float(x.nbytes)})
