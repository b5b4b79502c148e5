"""Mathematical functions of 16,384 elements (in cache) on one thread.

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
from bench.compare import Compare

from lpx import te
from lpx.cli.comparison.libraries import installed
from lpx.cli.comparison.program import Program
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


def kernel_of(name: str, dtype: str) -> Any:
    """Our kernel."""
    inputs = [te.placeholder((SIZE,), dtype, name=x) for x in ("x", "y")[: ops.MATH[name].arity]]
    return build_kernel(te.compute((SIZE,), lambda i: build.call(name, *[x[i] for x in inputs]), name="z"))


def numpy_function(name: str) -> Callable[..., Any]:
    """NumPy's function, or what stands for it, into a given array."""
    function = COMPOSED.get(name) or getattr(SPECIAL if name in ("erf", "erfc") else np, NUMPY_NAMES.get(name, name))

    def of_one(x: Array, out: Array) -> None:
        function(x, out=out)

    def of_two(x: Array, y: Array, out: Array) -> None:
        function(x, y, out=out)

    return of_one if ops.MATH[name].arity == 1 else of_two


def run_of(function: Any, name: str, dtype: str) -> Run:
    """A call into a given array."""
    args, out = operands(name, dtype), np.empty(SIZE, dtype)
    return lambda: function(*args, out=out)


def _sigmoid(x: Array, out: Array) -> None:
    np.exp(np.negative(x, out=out), out=out)
    np.divide(1, np.add(out, 1, out=out), out=out)


def _rsqrt(x: Array, out: Array) -> None:
    np.divide(1, np.sqrt(x, out=out), out=out)


SPECIAL: Any = importlib.import_module("scipy.special")  # it has no types
COMPOSED: dict[str, Callable[..., Any]] = {"sigmoid": _sigmoid, "rsqrt": _rsqrt}


def in_torch(name: str) -> Callable[..., Any] | None:
    """PyTorch's function of `(torch, *inputs, out)`, None where it has none of that name."""
    if not installed("torch"):
        return None
    torch: Any = importlib.import_module("torch")
    function = getattr(torch, NUMPY_NAMES.get(name, name), None) or getattr(torch.special, name, None)

    def call(_torch: Any, *inputs: Any, out: Any) -> Any:
        return function(*inputs, out=out)

    return call if function else None


def in_jax(name: str) -> Callable[..., Any] | None:
    """JAX's function of `(jax, *inputs)`, None where it has none of that name."""
    if not installed("jax"):
        return None
    homes: list[Any] = [importlib.import_module(f"jax.{m}") for m in ("numpy", "lax", "nn", "scipy.special")]
    names = (NUMPY_NAMES.get(name, name), name)
    function = next((getattr(home, n) for n in names for home in homes if hasattr(home, n)), None)
    return (lambda _jax, *inputs: function(*inputs)) if function else None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ops.MATH)
def test_function(compare: Compare, name: str, dtype: str) -> None:
    """One call into a given array, where a library can."""
    inputs = dict(zip("xy", operands(name, dtype), strict=False))
    program = Program(
        f"{name} of {SIZE} {dtype}",
        inputs,
        built=kernel_of(name, dtype),
        numpy=numpy_function(name),
        torch=in_torch(name),
        jax=in_jax(name),
        tolerance=1e-5 if dtype == "float32" else 1e-12,
    )
    compare(program)


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
        mine, theirs = nanoseconds(
            run_of(kernel_of(name, dtype), name, dtype), run_of(numpy_function(name), name, dtype)
        )
        ratios[name] = theirs / mine
        print(f"\n{name} {dtype}: {mine:.3f} ns (numpy {theirs:.3f}), {ratios[name]:.2f} times as fast", end="")
    assert math.exp(sum(map(math.log, ratios.values())) / len(ratios)) >= GOAL
    assert {name for name, ratio in ratios.items() if ratio < FLOOR} == set()
