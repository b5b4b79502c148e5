"""Parallel loops in shares that any thread may do: each once, however late workers are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx import te
from lpx.runtime import pool
from tests.support import Child


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = lpx.get_num_threads()
    yield
    lpx.set_num_threads(before)


def counting(n: int) -> Any:
    """counts[i] = counts[i] + 1 for n elements, one iteration of a parallel loop each."""
    counts = te.placeholder((n,), "int64", name="counts")
    s = lpx.create_schedule(te.compute((n,), lambda i: counts[i] + 1, name="more"))
    s.parallel(s.loops("more")[0])
    return lpx.build(s)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 31, 1000])
def test_every_iteration_runs_once(count: int, n: int) -> None:
    lpx.set_num_threads(count)
    kernel = counting(n)
    counts: NDArray[np.int64] = np.zeros(n, np.int64)
    for round_ in range(200):
        result = kernel(counts)
        assert (result == counts + 1).all(), f"round {round_}"
        counts = result


def test_workers_that_come_late_find_nothing() -> None:
    """Sixteen threads on few cores: most regions are over before a worker has the core, and are taken back."""
    lpx.set_num_threads(16)
    kernel = counting(64)
    counts: NDArray[np.int64] = np.zeros(64, np.int64)
    for _ in range(3000):
        counts = kernel(counts)
    assert (counts == 3000).all()
    assert pool.started_workers() >= 15


def test_sleeping_workers_come_back() -> None:
    lpx.set_num_threads(4)
    kernel = counting(1 << 14)
    counts: NDArray[np.int64] = np.zeros(1 << 14, np.int64)
    for _ in range(20):
        counts = kernel(counts)
        time.sleep(0.01)  # longer than workers spin
    assert (counts == 20).all()


def test_a_failing_share_is_reported_and_the_pool_goes_on() -> None:
    lpx.set_num_threads(4)
    places = te.placeholder((64,), "int64", name="places")
    x = te.placeholder((8,), "float32", name="x")
    s = lpx.create_schedule(te.compute((64,), lambda i: x[places[i]], name="picked"))
    s.parallel(s.loops("picked")[0])
    kernel = lpx.build(s)
    array, wrong = np.arange(8, dtype=np.float32), np.zeros(64, np.int64)
    wrong[40] = 8
    for _ in range(50):
        with pytest.raises(lpx.errors.RuntimeCheckError):
            kernel(wrong, array)
        np.testing.assert_array_equal(kernel(np.arange(64) % 8, array), array[np.arange(64) % 8])


BUSY = """
import threading, numpy as np, lpx
from lpx import te
def counting(n):
    counts = te.placeholder((n,), "int64", name="counts")
    s = lpx.create_schedule(te.compute((n,), lambda i: counts[i] + 1, name="more"))
    s.parallel(s.loops("more")[0])
    return lpx.build(s)
lpx.set_num_threads(2)
kernels = [counting(n) for n in (5, 64, 300)]
def work():
    for kernel, n in zip(kernels, (5, 64, 300)):
        counts = np.zeros(n, np.int64)
        for _ in range(500):
            counts = kernel(counts)
        assert (counts == 500).all()
threads = [threading.Thread(target=work) for _ in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
print("all once")
"""


def test_many_callers_at_once(child: Child) -> None:
    assert "all once" in child(BUSY)
