"""Matrix products, next to NumPy's BLAS in the same run: cubes, layers of a transformer, an odd shape, a vector.

pytest bench/test_gemm.py
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import peak
from bench.interleave import SECONDS, Array, compare, interleave
from bench.peak import best

import lpx
from lpx import te
from lpx.schedule import Schedule

CUBES = [(n, n, n) for n in (128, 256, 512, 768, 1024)]
LAYERS = [(128, 768, 768), (128, 3072, 768)]
ODD = [(333, 777, 129)]
PAGE = Path(__file__).parent.parent / "docs" / "matmul.md"


def normal(*shape: int, seed: int = 0) -> Array:
    """Normally distributed float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def product(m: int, k: int, n: int) -> te.Tensor:
    """C = A B."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


def by_hand(m: int, k: int, n: int) -> Schedule:
    """The schedule that docs/matmul.md arrives at."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec("\n".join(blocks), names)
    schedule: Schedule = names["schedule_matmul"](m, k, n)
    return schedule


@pytest.mark.parametrize(("m", "k", "n"), [*CUBES, *LAYERS, *ODD])
def test_product(benchmark: Any, m: int, k: int, n: int) -> None:
    """The default schedule."""
    benchmark.group = f"matmul {m} x {k} x {n}"
    a, b = normal(m, k), normal(k, n, seed=1)
    mine, theirs = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    kernel = lpx.build(product(m, k, n))
    candidates = {"numpy": lambda: np.matmul(a, b, out=theirs), "lpx": lambda: kernel(a, b, out=mine)}
    compare(benchmark, candidates, work={"flop": 2.0 * m * k * n})


@pytest.mark.parametrize(("m", "k"), [(1024, 1024), (4096, 4096), (1024, 4096)])
def test_matrix_by_vector(benchmark: Any, m: int, k: int) -> None:
    """The default schedule; bound by reading the matrix."""
    benchmark.group = f"matrix {m} x {k} by a vector"
    a, b = normal(m, k), normal(k, seed=1)
    mine, theirs = np.empty(m, np.float32), np.empty(m, np.float32)
    x, v, r = te.placeholder((m, k), name="A"), te.placeholder((k,), name="v"), te.reduce_axis(k, name="r")
    kernel = lpx.build(te.compute((m,), lambda i: te.sum(x[i, r] * v[r], axis=r), name="C"))
    candidates = {"numpy": lambda: np.matmul(a, b, out=theirs), "lpx": lambda: kernel(a, b, out=mine)}
    compare(benchmark, candidates, work={"bytes": 4.0 * (m * k + k + m)})


def test_scheduled_by_hand(benchmark: Any) -> None:
    """The page's schedule at its full size: share of the peak, and of NumPy."""
    n = 1024
    benchmark.group = "matmul 1024 x 1024 x 1024, docs/matmul.md"
    a, b = normal(n, n), normal(n, n, seed=1)
    mine, theirs = np.empty((n, n), np.float32), np.empty((n, n), np.float32)
    kernel = lpx.build(by_hand(n, n, n))
    candidates = {"numpy": lambda: np.matmul(a, b, out=theirs), "lpx": lambda: kernel(a, b, out=mine)}
    seconds = compare(benchmark, candidates, work={"flop": 2.0 * n**3})
    share = 2 * n**3 / best(candidates["lpx"]) / (peak.flop_per_second() * lpx.get_num_threads())
    print(f"\n{share:.0%} of the peak at best, {seconds['numpy'] / seconds['lpx']:.2f} times NumPy")


def test_two_threads() -> None:
    """At least 1.9 times as fast as one thread, at best, on a machine with nothing else to do."""
    if lpx.Target.parse("cpu").cpu.cores < 2:
        pytest.skip("needs two cores")
    n, before = 1024, lpx.get_num_threads()
    a, b, out = normal(n, n), normal(n, n, seed=1), np.empty((n, n), np.float32)
    kernel = lpx.build(by_hand(n, n, n))

    def on(count: int) -> Any:
        def run() -> None:
            lpx.set_num_threads(count)
            kernel(a, b, out=out)

        return run

    try:
        times = interleave({"one": on(1), "two": on(2)}, 3 * SECONDS, time.perf_counter)
    finally:
        lpx.set_num_threads(before)
    speed_up = min(times["one"]) / min(times["two"])
    print(f"\ntwo threads: {speed_up:.2f} times one")
    assert speed_up >= 1.9
