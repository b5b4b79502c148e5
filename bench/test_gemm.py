"""Matrix products: cubes, layers of a transformer, odd shapes, constant weights, narrow types.

pytest bench/test_gemm.py
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from bench import peak
from bench.compare import Compare

import lpx
from lpx import te
from lpx.cli.comparison import operations
from lpx.cli.comparison.program import Program, normal
from lpx.cli.comparison.timing import interleave
from lpx.schedule import Schedule

CUBES = [(n, n, n) for n in (128, 256, 512, 768, 1024, 2048)]
LAYERS = [(128, 768, 768), (128, 3072, 768), (197, 768, 768)]
ODD = [(37, 53, 71), (333, 777, 129), (4, 768, 768), (15, 512, 512), (512, 512, 8), (1, 4096, 4096)]
PAGE = Path(__file__).parent.parent / "docs" / "matmul.md"


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
def test_product(compare: Compare, m: int, k: int, n: int) -> None:
    """Both operands at run time."""
    compare(operations.matmul(m, n, k))


@pytest.mark.parametrize(
    ("m", "k", "n"), [(512, 512, 512), (1024, 1024, 1024), *LAYERS, (4, 768, 768), (1, 4096, 4096)]
)
def test_product_by_constant_weights(compare: Compare, m: int, k: int, n: int) -> None:
    """The right operand as a constant, which libraries lay out as they like beforehand."""
    compare(operations.matmul(m, n, k, constant=True))


@pytest.mark.parametrize("constant", [False, True], ids=["arguments", "constants"])
def test_layer_with_bias_and_gelu(compare: Compare, constant: bool) -> None:
    """A layer of a transformer whole: product, bias, and x/2 (1 + erf(x / sqrt(2)))."""
    compare(operations.linear(128, 768, 3072, constant=constant))


@pytest.mark.parametrize(("m", "k", "n"), [(512, 512, 512), (1024, 1024, 1024), (128, 3072, 768), (1, 4096, 4096)])
@pytest.mark.parametrize("left", ["int8", "uint8"])
def test_integers(compare: Compare, left: str, m: int, k: int, n: int) -> None:
    """Products of 8-bit integers, added up in 32 bits."""
    rng = np.random.default_rng(0)
    low, high = np.iinfo(left).min, np.iinfo(left).max
    inputs = {
        "a": rng.integers(low, high, (m, k), endpoint=True, dtype=left),
        "b": rng.integers(-128, 127, (k, n), endpoint=True, dtype=np.int8),
    }
    a, b = te.placeholder((m, k), left, name="A"), te.placeholder((k, n), "int8", name="B")
    r = te.reduce_axis(k, name="r")

    def element(i: te.Scalar, j: te.Scalar) -> te.Scalar:
        return te.sum(te.cast(a[i, r], "int32") * te.cast(b[r, j], "int32"), axis=r)

    exact = inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)
    program = Program(
        f"matmul {m} x {k} x {n}, {left} by int8",
        inputs,
        built=lpx.build(te.compute((m, n), element, name="C")),
        torch=(lambda torch, a, b: torch._int_mm(a, b)) if left == "int8" and m > 16 else None,
        jax=lambda jax, a, b: jax.numpy.matmul(a, b, preferred_element_type=np.int32),
        nodes=[("MatMulInteger", ["a", "b"], "c", {})],
        reference=lambda _a, _b: exact,
        flop=2.0 * m * k * n,
        tolerance=0,
    )
    compare(program)


@pytest.mark.parametrize(("m", "k", "n"), [(512, 512, 512), (1024, 1024, 1024), (128, 3072, 768), (1, 4096, 4096)])
def test_bfloat16(compare: Compare, m: int, k: int, n: int) -> None:
    """Products of bfloat16, added up in float32; NumPy has no such products worth a comparison."""
    inputs = {"a": normal(m, k, dtype="bfloat16"), "b": normal(k, n, seed=1, dtype="bfloat16")}
    exact = inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)
    program = Program(
        f"matmul {m} x {k} x {n}, bfloat16",
        inputs,
        lpx=lambda a, b: a @ b,
        torch=lambda torch, a, b, out: torch.matmul(a, b, out=out),
        jax=lambda jax, a, b: jax.numpy.matmul(a, b),
        reference=lambda _a, _b: exact,
        flop=2.0 * m * k * n,
        tolerance=4e-3,
    )
    compare(program)


@pytest.mark.parametrize(("m", "k"), [(1024, 1024), (4096, 4096), (1024, 4096)])
def test_matrix_by_vector(compare: Compare, m: int, k: int) -> None:
    """Bound by reading the matrix."""
    program = Program(
        f"matrix {m} x {k} by a vector",
        {"a": normal(m, k), "b": normal(k, seed=1)},
        lambda xp, a, b: xp.matmul(a, b),
        numpy=lambda a, b, out: np.matmul(a, b, out=out),
        torch=lambda torch, a, b, out: torch.matmul(a, b, out=out),
        nodes=[("MatMul", ["a", "b"], "y", {})],
        flop=2.0 * m * k,
    )
    compare(program)


def test_a_vector_by_a_matrix_is_as_fast_as_reading(seconds: float) -> None:
    """At least 90% of the speed at which the matrix can be read, in turns with it."""
    n = 4096
    a, b, out = normal(1, n), peak.aligned(n * n).reshape(n, n), np.empty((1, n), np.float32)
    kernel = lpx.build(product(1, n, n))
    read, size = peak.reading(n * n)
    times = interleave({"lpx": lambda: kernel(a, b, out=out), "read": read}, seconds)
    share = median(times["read"]) * b.nbytes / size / median(times["lpx"]) / lpx.get_num_threads()
    print(f"\n{share:.0%} of the speed of reading")
    if lpx.get_num_threads() == 1:  # a read on one core says nothing of what two reach
        assert share >= 0.9


def test_scheduled_by_hand(compare: Compare, seconds: float) -> None:
    """The page's schedule at its full size: at least 85% of the peak, in turns with it, and its ratio to NumPy.

    Arrays begin at a page; stores across two lines cost 2%.
    """
    n = 1024
    a, b, mine, theirs = (peak.aligned(n * n).reshape(n, n) for _ in range(4))
    a[:], b[:] = normal(n, n), normal(n, n, seed=1)
    kernel = lpx.build(by_hand(n, n, n))
    candidates = {"numpy": lambda: np.matmul(a, b, out=theirs), "lpx": lambda: kernel(a, b, out=mine)}
    medians = compare.checked("matmul 1024 x 1024 x 1024, docs/matmul.md", candidates, flop=2.0 * n**3)
    multiply, flop = peak.multiplying()
    times = interleave({"lpx": candidates["lpx"], "peak": multiply}, 2 * seconds, time.thread_time)
    share = 2 * n**3 / median(times["lpx"]) / (flop / median(times["peak"]))
    print(f"\n{share:.0%} of the peak, {medians['numpy'] / medians['lpx']:.2f} times NumPy")
    if lpx.get_num_threads() == 1:
        assert share >= 0.85


def test_two_threads(seconds: float) -> None:
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
        times = interleave({"one": on(1), "two": on(2)}, 3 * seconds, time.perf_counter)
    finally:
        lpx.set_num_threads(before)
    speed_up = min(times["one"]) / min(times["two"])
    print(f"\ntwo threads: {speed_up:.2f} times one")
    assert speed_up >= 1.9
