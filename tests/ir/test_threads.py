"""Simulated threads: parallel regions, GPU blocks, barriers, warps, and the mistakes that are detected."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from lpx.errors import MemoryAccessError
from lpx.ir.interpreter import interpret
from lpx.ir.parser import parse_function

SEEDS = [None, 0, 1]


def run(text: str, *arrays: Any, **options: Any) -> None:
    interpret(parse_function(text), arrays, **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_region_shares_parallel_loops_and_runs_the_rest_everywhere(threads: int, seed: int | None) -> None:
    text = """
    func f(A: inout int64[8], N: inout int64[1]) {
      region {
        for i in 0..8 parallel { A[i] = A[i] + i }
        barrier region
        for k in 0..3 {
          for i in 0..8 parallel { for j in 0..2 parallel { A[i] = A[i] * 2 } }
          barrier region
        }
        atomic add N[0], 1
      }
    }"""
    a, n = np.ones(8, np.int64), np.zeros(1, np.int64)
    run(text, a, n, threads=threads, seed=seed)
    assert a.tolist() == [(1 + i) * 64 for i in range(8)]
    assert n.tolist() == [threads]


def test_region_without_the_barrier_reads_what_is_not_there() -> None:
    text = """
    func f(C: out int64[4]) {
      alloc T: int64[4]
      region {
        for i in 0..4 parallel { T[i] = i }
        barrier region
        for i in 0..4 parallel { C[i] = T[3 - i] }
      }
    }"""
    c = np.zeros(4, np.int64)
    run(text, c)
    assert c.tolist() == [3, 2, 1, 0]
    with pytest.raises(MemoryAccessError, match="is read before it is written"):
        run(text.replace("barrier region", ""), c)


REVERSE = """
func reverse(A: in int64[n], C: out int64[n]) symbols(n) {
  for b in 0..n // 8 bind(blockIdx.x) {
    alloc S: int64[8] scope(shared)
    for ty in 0..2 bind(threadIdx.y) {
      for tx in 0..4 bind(threadIdx.x) {
        let t = ty * 4 + tx
        alloc x: int64[1] scope(local)
        x[0] = A[b * 8 + t]
        S[t] = x[0]
        barrier block
        C[b * 8 + t] = S[7 - t]
      }
    }
  }
}"""


@pytest.mark.parametrize("seed", SEEDS)
def test_gpu_block(seed: int | None) -> None:
    c = np.zeros(24, np.int64)
    run(REVERSE, np.arange(24), c, seed=seed)
    np.testing.assert_array_equal(c, np.arange(24).reshape(3, 8)[:, ::-1].ravel())


def test_shared_memory_may_be_allocated_by_each_thread() -> None:
    moved = REVERSE.replace("alloc S: int64[8] scope(shared)", "").replace(
        "alloc x:", "alloc S: int64[8] scope(shared)\nalloc x:"
    )
    c = np.zeros(8, np.int64)
    run(moved, np.arange(8), c)
    assert c.tolist() == list(range(7, -1, -1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("barrier block", "", "is read before it is written"),
        ("barrier block", "if t < 3 { barrier block } S[7 - t] = 0", "3 thread(s) wait at `barrier block`"),
        ("barrier block", "if tx < 3 { barrier block } else { barrier block }", "6 thread(s) wait at `barrier block`"),
        (
            "barrier block",
            "barrier warp barrier block S[t] = t if t == 0 { barrier warp }",
            "1 thread(s) wait at `barrier warp`",
        ),
    ],
)
def test_gpu_mistakes(old: str, new: str, message: str) -> None:
    with pytest.raises(MemoryAccessError, match=re.escape(message)):
        run(REVERSE.replace(old, new), np.arange(8), np.zeros(8, np.int64))


@pytest.mark.parametrize("seed", SEEDS)
def test_warps_wait_for_themselves_only(seed: int | None) -> None:
    text = """
    func f(C: out int64[64]) {
      alloc S: int64[64] scope(shared)
      for t in 0..64 bind(threadIdx.x) {
        S[t] = t
        if t < 32 { barrier warp }
        C[t] = select(t < 32, S[31 - t], 0)
      }
    }"""
    c = np.zeros(64, np.int64)
    run(text, c, seed=seed)
    assert c.tolist() == list(range(31, -1, -1)) + [0] * 32


@pytest.mark.parametrize("seed", SEEDS)
def test_warp_and_lane_axes(seed: int | None) -> None:
    text = """
    func f(C: out int64[2, 4]) {
      alloc S: int64[2, 4] scope(shared)
      for w in 0..2 bind(warp) { for l in 0..4 bind(lane) {
        S[w, l] = w * 4 + l
        barrier warp
        C[w, l] = S[w, 3 - l]
      } }
    }"""
    c = np.zeros((2, 4), np.int64)
    run(text, c, seed=seed)
    assert c.tolist() == [[3, 2, 1, 0], [7, 6, 5, 4]]


def test_each_thread_waits_for_its_own_copies() -> None:
    text = """
    func f(A: in int64[32], C: out int64[32]) {
      alloc S: int64[32] scope(shared)
      for t in 0..8 bind(threadIdx.x) {
        async_copy S[t * 4], A[t * 4], 4
        async_commit
        async_wait 0
        barrier block
        for k in 0..4 { C[t * 4 + k] = S[(t + 1) % 8 * 4 + k] }
      }
    }"""
    a, c = np.arange(32), np.zeros(32, np.int64)
    run(text, a, c)
    np.testing.assert_array_equal(c, np.roll(a, -4))
    for missing in ("async_wait 0", "barrier block", "async_commit"):
        with pytest.raises(MemoryAccessError, match="is read before it is written"):
            run(text.replace(missing, ""), a, c)


@pytest.mark.parametrize("seed", SEEDS)
def test_atomic_updates(seed: int | None) -> None:
    text = """
    func f(A: in int64[8], H: inout int64[2]) {
      for b in 0..2 bind(blockIdx.x) { for t in 0..4 bind(threadIdx.x) { atomic add H[A[b * 4 + t] % 2], 1 } }
    }"""
    h = np.zeros(2, np.int64)
    run(text, np.array([1, 1, 2, 3, 4, 5, 7, 9]), h, seed=seed)
    assert h.tolist() == [2, 6]


def test_vector_atomics_add_every_lane() -> None:
    h = np.zeros(2, np.int64)
    run("func f(H: inout int64[2]) { atomic add H[ramp(0, 1, 4) % broadcast(2, 4)], ramp(1, 1, 4) }", h)
    assert h.tolist() == [4, 6]
