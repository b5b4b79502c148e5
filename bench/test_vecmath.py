"""Mathematical functions of 16,384 elements (in cache) on one thread, next to NumPy in the same run.

Where NumPy has no function of that name, what its users write stands for it: `1 / np.sqrt(x)` into an array, or
SciPy's function.

pytest bench/test_vecmath.py
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lpx import te
from lpx.driver.build import build as build_kernel
from lpx.expr import build, ops
from lpx.runtime import pool

SIZE = 16_384
REPEATS, LOOPS = 40, 4
DTYPES = ["float32", "float64"]

Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[], Any]

NUMPY_NAMES = {"pow": "power", **{f"a{f}": f"arc{f}" for f in "sin cos tan sinh cosh tanh tan2".split()}}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = pool.get_num_threads()
    pool.set_num_threads(1)
    yield
    pool.set_num_threads(before)


def operands(name: str, dtype: str) -> list[Array]:
    """Ordinary numbers in the domain of the function."""
    rng = np.random.default_rng(0)
    low, high = (-0.99, 0.99) if name in ("asin", "acos", "atanh") else (1.0, 4.0) if name == "acosh" else (0.1, 4.0)
    return [rng.uniform(low, high, SIZE).astype(dtype), rng.uniform(-2, 2, SIZE).astype(dtype)][: ops.MATH[name].arity]


def lpx_run(name: str, dtype: str) -> Run:
    """A call of our kernel into a given array."""
    inputs = [te.placeholder((SIZE,), dtype, name=x) for x in ("x", "y")[: ops.MATH[name].arity]]
    kernel = build_kernel(te.compute((SIZE,), lambda i: build.call(name, *[x[i] for x in inputs]), name="z"))
    args, out = operands(name, dtype), np.empty(SIZE, dtype)
    return lambda: kernel(*args, out=out)


def numpy_run(name: str, dtype: str) -> Run:
    """A call of NumPy's function, or of what stands for it, into a given array."""
    function = COMPOSED.get(name) or getattr(SPECIAL if name in ("erf", "erfc") else np, NUMPY_NAMES.get(name, name))
    args, out = operands(name, dtype), np.empty(SIZE, dtype)
    return lambda: function(*args, out=out)


def _sigmoid(x: Array, out: Array) -> None:
    np.exp(np.negative(x, out=out), out=out)
    np.divide(1, np.add(out, 1, out=out), out=out)


def _rsqrt(x: Array, out: Array) -> None:
    np.divide(1, np.sqrt(x, out=out), out=out)


SPECIAL: Any = importlib.import_module("scipy.special")  # it has no types
COMPOSED: dict[str, Callable[..., Any]] = {"sigmoid": _sigmoid, "rsqrt": _rsqrt}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ops.MATH)
@pytest.mark.parametrize("library", ["lpx", "numpy"])
def test_function(benchmark: Any, library: str, name: str, dtype: str) -> None:
    """One call, through a lambda that each library pays for."""
    benchmark.group = f"{name} {dtype}"
    benchmark((lpx_run if library == "lpx" else numpy_run)(name, dtype))


def nanoseconds(*runs: Run) -> list[float]:
    """The least time of each for one element; they take turns, so that other load on the machine meets them all."""
    best = [math.inf] * len(runs)
    for _ in range(REPEATS):
        for i, run in enumerate(runs):
            start = time.perf_counter_ns()
            for _ in range(LOOPS):
                run()
            best[i] = min(best[i], (time.perf_counter_ns() - start) / LOOPS / SIZE)
    return best


FLOOR = 1.0
"""None behind NumPy: least times of many turns, which load on the machine does not move."""
GOAL = 1.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_goals(dtype: str) -> None:
    """1.5 times as fast as NumPy in the geometric mean over all functions, and none behind."""
    ratios: dict[str, float] = {}
    for name in ops.MATH:
        mine, theirs = nanoseconds(lpx_run(name, dtype), numpy_run(name, dtype))
        ratios[name] = theirs / mine
        print(f"\n{name} {dtype}: {mine:.3f} ns (numpy {theirs:.3f}), {ratios[name]:.2f} times as fast", end="")
    assert math.exp(sum(map(math.log, ratios.values())) / len(ratios)) >= GOAL
    assert {name for name, ratio in ratios.items() if ratio < FLOOR} == set()
