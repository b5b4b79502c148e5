"""Matrix products, next to NumPy's BLAS and ONNX Runtime in the same run: cubes, layers of a transformer, odd shapes.

pytest bench/test_gemm.py
"""

from __future__ import annotations

import math
import re
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from bench import peak, peers
from bench.interleave import SECONDS, Array, compare, interleave

import lpx
from lpx import te
from lpx.schedule import Schedule

CUBES = [(n, n, n) for n in (128, 256, 512, 768, 1024, 2048)]
LAYERS = [(128, 768, 768), (128, 3072, 768), (197, 768, 768)]
ODD = [(37, 53, 71), (333, 777, 129), (4, 768, 768), (15, 512, 512), (512, 512, 8), (1, 4096, 4096)]
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
    candidates = peers.present(
        numpy=lambda: np.matmul(a, b, out=theirs),
        onnxruntime=peers.onnx_runtime([("MatMul", ["a", "b"], "y", {})], {"a": a, "b": b}, "y"),
        lpx=lambda: kernel(a, b, out=mine),
    )
    compare(benchmark, candidates, work={"flop": 2.0 * m * k * n})


def test_layer_with_bias_and_gelu(benchmark: Any) -> None:
    """A layer of a transformer whole: product, bias, and x/2 (1 + erf(x / sqrt(2)))."""
    m, k, n = 128, 3072, 768
    benchmark.group = f"matmul {m} x {k} x {n}, bias, GELU"
    a, b, bias = normal(m, k), normal(k, n, seed=1), normal(n, seed=2)
    half, root = np.array(0.5, np.float32), np.array(2**0.5, np.float32)
    c, v, mine = product(m, k, n), te.placeholder((n,), name="bias"), np.empty((m, n), np.float32)
    x = te.compute((m, n), lambda i, j: c[i, j] + v[j], name="X")
    kernel = lpx.build(te.compute((m, n), lambda i, j: x[i, j] * 0.5 * (1.0 + te.erf(x[i, j] * 0.5**0.5)), name="Y"))
    nodes: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("MatMul", ["a", "b"], "c", {}),
        ("Add", ["c", "bias"], "x", {}),
        ("Gelu", ["x"], "y", {}),
    ]
    wide = a.astype(np.float64) @ b + bias
    candidates = peers.present(
        onnxruntime=peers.onnx_runtime(nodes, {"a": a, "b": b, "bias": bias}, "y"),
        lpx=lambda: kernel(a, b, bias, out=mine),
    )
    if "onnxruntime" not in candidates:
        pytest.skip("needs ONNX Runtime")
    np.testing.assert_allclose(candidates["lpx"](), wide * half * (1 + erf(wide / root)), rtol=0, atol=1e-3)
    compare(benchmark, candidates, work={"flop": 2.0 * m * k * n})


def erf(x: Array) -> Array:
    """The error function, by Python's own."""
    return np.array([math.erf(value) for value in x.flat]).reshape(x.shape)


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


def test_a_vector_by_a_matrix_is_as_fast_as_reading() -> None:
    """At least 90% of the speed at which the matrix can be read, in turns with it."""
    n = 4096
    a, b, out = normal(1, n), peak.aligned(n * n).reshape(n, n), np.empty((1, n), np.float32)
    kernel = lpx.build(product(1, n, n))
    read, size = peak.reading(n * n)
    times = interleave({"lpx": lambda: kernel(a, b, out=out), "read": read})
    share = median(times["read"]) * b.nbytes / size / median(times["lpx"]) / lpx.get_num_threads()
    print(f"\n{share:.0%} of the speed of reading")
    if lpx.get_num_threads() == 1:  # a read on one core says nothing of what two reach
        assert share >= 0.9


def test_scheduled_by_hand(benchmark: Any) -> None:
    """The page's schedule at its full size: at least 85% of the peak, in turns with it, and its ratio to NumPy.

    Arrays begin at a page; stores across two lines cost 2%.
    """
    n = 1024
    benchmark.group = "matmul 1024 x 1024 x 1024, docs/matmul.md"
    a, b, mine, theirs = (peak.aligned(n * n).reshape(n, n) for _ in range(4))
    a[:], b[:] = normal(n, n), normal(n, n, seed=1)
    kernel = lpx.build(by_hand(n, n, n))
    candidates = {"numpy": lambda: np.matmul(a, b, out=theirs), "lpx": lambda: kernel(a, b, out=mine)}
    seconds = compare(benchmark, candidates, work={"flop": 2.0 * n**3})
    multiply, flop = peak.multiplying()
    times = interleave({"lpx": candidates["lpx"], "peak": multiply}, 2 * SECONDS, time.thread_time)
    share = 2 * n**3 / median(times["lpx"]) / (flop / median(times["peak"]))
    print(f"\n{share:.0%} of the peak, {seconds['numpy'] / seconds['lpx']:.2f} times NumPy")
    if lpx.get_num_threads() == 1:
        assert share >= 0.85


def test_two_threads() -> None:
    """At least 1.9 times as fast as one thread, at best, on a machine with nothing else to do."""
    if lpx.Target.parse("cpu").cpu.cores < 2:
        pytest.skip("needs two cores")
    n, before = 1024, lpx.get_num_threads()
    a, b, out = (peak.aligned(n * n).reshape(n, n) for _ in range(3))
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
