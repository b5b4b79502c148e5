"""What one core of this machine can do at most, measured by kernels lpx makes: multiply-adds, reading, and copying.

`python -m bench.peak` prints all three. A kernel that is timed in turns with others needs an array of its own to write
to: stores past the caches are slow where another kernel has left the same lines in a cache, by a factor of up to two.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

import lpx
from lpx import te
from lpx.cli.comparison.program import aligned_like
from lpx.cli.comparison.timing import clock
from lpx.schedule import Schedule

ACCUMULATORS = 12
"""Independent sums: more than units times latency (2 x 4 on x86-64), and few enough to stay in registers."""

STEPS = 1 << 20
COPIED = 1 << 22
"""Elements that are copied, in float32: 16 MB, what the elementwise benchmarks read and write."""

READ = 1 << 24
"""Elements that are read, in float32: 64 MB, a matrix of 4096 x 4096."""

MEASURED = 0.5
"""Seconds of measuring; the best time counts, as interruptions only add to it."""


@functools.cache
def flop_per_second() -> float:
    """Floating-point operations a second in float32, two for each multiply-add, on one core."""
    run, flop = multiplying()
    return flop / best(run)


def multiplying() -> tuple[Callable[[], object], float]:
    """A call that multiplies and adds in registers, for measuring in turns with others, and its operations."""
    lanes = lpx.Target.parse("cpu").cpu.lanes(32)
    kernel = lpx.build(multiply_adds(lanes))
    a, b = np.full((ACCUMULATORS, lanes), 0.5, np.float32), np.full(lanes, 0.5, np.float32)
    out = np.empty_like(a)
    return lambda: kernel(a, b, out=out), 2.0 * ACCUMULATORS * lanes * STEPS


@functools.cache
def read_bytes_per_second() -> float:
    """Bytes read a second from beyond the second cache, on one core."""
    run, size = reading()
    return size / best(run)


def reading(elements: int = READ) -> tuple[Callable[[], object], float]:
    """A call that adds up an array of `elements` float32, and the bytes it reads."""
    lanes = 8 * lpx.Target.parse("cpu").cpu.lanes(32)
    kernel, source, out = lpx.build(add_up(elements // lanes, lanes)), aligned(elements), np.empty(lanes, np.float32)
    source = source[: elements // lanes * lanes].reshape(-1, lanes)
    return lambda: kernel(source, out=out), float(source.nbytes)


@functools.cache
def copy_bytes_per_second() -> float:
    """Bytes copied a second, each counted once, on one core: through the caches or past them, whichever is faster."""
    source = aligned(COPIED)
    kernels = [lpx.build(copy(COPIED, past_caches=way)) for way in (False, True)]
    return source.nbytes / min(best(partial(k, source, out=aligned(COPIED))) for k in kernels)


def aligned(n: int) -> NDArray[np.float32]:
    """Ones at the start of a page: non-temporal stores need whole lines."""
    array = aligned_like(np.empty(n, np.float32))
    array[:] = 1
    return array


def multiply_adds(lanes: int) -> Schedule:
    """C[i, j] = STEPS times A[i, j] * B[j], each C[i] a register."""
    a, b = te.placeholder((ACCUMULATORS, lanes), name="A"), te.placeholder((lanes,), name="B")
    r = te.reduce_axis(STEPS, name="r")
    s = lpx.create_schedule(te.compute(a.shape, lambda i, j: te.sum(a[i, j] * b[j], axis=r), name="C"))
    i, j, step = s.loops("C")
    outer, inner = s.split(step, 4)
    s.reorder(outer, inner, i, j)
    start_i, start_j = s.loops(s.decompose_reduction("C", outer))
    for loop in (start_i, inner, i):
        s.unroll(loop)
    for loop in (start_j, j):
        s.vectorize(loop)
    return s


def add_up(rows: int, lanes: int) -> Schedule:
    """C[j] = sum of A[i, j] over i, each C[j] a lane of a register."""
    a, r = te.placeholder((rows, lanes), name="A"), te.reduce_axis(rows, name="r")
    s = lpx.create_schedule(te.compute((lanes,), lambda j: te.sum(a[r, j], axis=r), name="C"))
    j, row = s.loops("C")
    s.reorder(row, j)
    (start,) = s.loops(s.decompose_reduction("C", row))
    for loop in (start, j):
        s.vectorize(loop)
    return s


def copy(n: int, *, past_caches: bool) -> Schedule:
    """C[i] = A[i]."""
    a = te.placeholder((n,), name="A")
    s = lpx.create_schedule(te.compute((n,), lambda i: a[i], name="C"))
    outer, inner = s.split(s.loops("C")[0], 64)
    s.vectorize(inner)
    if past_caches:
        s.pragma(outer, "nontemporal")
    return s


def best(run: Callable[[], object]) -> float:
    """The least time of a call, in seconds."""
    run()
    now = clock()
    least, end = float("inf"), time.perf_counter() + MEASURED
    while time.perf_counter() < end:
        begin = now()
        run()
        least = min(least, now() - begin)
    return least


if __name__ == "__main__":
    print(
        f"multiply-adds {flop_per_second() / 1e9:.1f} GFLOP/s, reading {read_bytes_per_second() / 1e9:.1f} GB/s,"
        f" copying {copy_bytes_per_second() / 1e9:.1f} GB/s"
    )
