"""Threads, processes and the cache, on which comparable compilers have been wrong."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lpx
from lpx import dtypes, knobs, te
from lpx.errors import CacheWarning
from lpx.ir.parser import parse_function
from tests.edge_cases.support import BASELINE, Checker, parallel, plain, split
from tests.support import Child

RNG = np.random.default_rng(2)


def row_sums(rows: int, columns: int) -> te.Tensor:
    a, r = te.placeholder((rows, columns), name="A"), te.reduce_axis(columns, "r")
    return te.compute((rows,), lambda i: te.sum(a[i, r], axis=r), name="C")


def parallel_kernel(rows: int = 64, columns: int = 33) -> Callable[..., Any]:
    s = lpx.create_schedule(row_sums(rows, columns))
    s.parallel(s.loops("C")[0])
    return lpx.build(s)


@pytest.mark.parametrize("outer", [1000, 7, 1])
def test_parallel_inside_parallel(check: Checker, outer: int) -> None:
    function = parse_function(f"""
func f(A: in float32[{outer}, 8], C: inout float32[{outer}, 8]) {{
  for i in 0..{outer} parallel {{
    for j in 0..8 parallel {{
      block C(vi: spatial {outer} = i, vj: spatial 8 = j) {{ C[vi, vj] = A[vi, vj] * 2.0f32 }}
    }}
  }}
}}""")
    x = RNG.standard_normal((outer, 8)).astype(np.float32)
    check(function, [x, np.zeros_like(x)], [x * 2], {"plain": plain}, with_default=False)


def test_a_parallel_kernel_called_from_many_threads() -> None:
    kernel = parallel_kernel()
    x = RNG.integers(-9, 9, (64, 33)).astype(np.float32)
    want = x.sum(1)
    wrong: list[object] = []

    def call() -> None:
        for _ in range(200):
            got = kernel(x)
            if not np.array_equal(got, want):
                wrong.append(got)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


def test_a_carried_scalar_is_no_parallel_loop(check: Checker) -> None:
    """A counter that is used as a value; `test_scheduling` has the refusals of other forms."""
    counter = parse_function("""
func f(A: in int64[64], N: inout int64[1], C: out int64[64]) {
  for i in 0..64 { block S(vi: sequential 64 = i) { C[vi] = A[vi] + N[0]  N[0] = N[0] + 1 } }
}""")
    s = lpx.create_schedule(counter)
    with pytest.raises(lpx.errors.ScheduleError, match="loop i cannot be threads"):
        s.parallel(s.loops("S")[0])
    x = RNG.integers(-9, 9, 64)
    check(counter, [x, np.array([5])], [np.array([69]), x + np.arange(5, 69)], {"p": parallel, "s": split(8)})


CORRUPTIONS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "ten bytes": lambda content: content[:10],
    "half": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:-100] + bytes([content[-100] ^ 4]) + content[-99:],
    "metadata": lambda content: content[:50] + bytes([content[50] ^ 1]) + content[51:],
    "other file": lambda content: b"#!/bin/sh\nexit 1\n" * 10,
}


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_damaged_cache_entry_is_compiled_again(tmp_path: Path, corruption: str) -> None:
    program = row_sums(3, 5)
    x = RNG.integers(-9, 9, (3, 5)).astype(np.float32)
    with knobs.override(cache_dir=tmp_path):
        np.testing.assert_array_equal(lpx.build(program)(x), x.sum(1))
        (entry,) = [p for p in tmp_path.rglob("*") if p.is_file()]
        entry.write_bytes(CORRUPTIONS[corruption](entry.read_bytes()))
        with pytest.warns(CacheWarning) as caught:
            np.testing.assert_array_equal(lpx.build(program)(x), x.sum(1))
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(lpx.build(program)(x), x.sum(1))


def test_a_cache_folder_that_cannot_be_made(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    x = np.ones((3, 5), np.float32)
    with knobs.override(cache_dir=file):
        with pytest.warns(CacheWarning) as caught:
            np.testing.assert_array_equal(lpx.build(row_sums(3, 5))(x), x.sum(1))
        assert len(caught) == 1


def test_a_forked_child_runs_parallel_kernels(child: Child) -> None:
    """Threads do not survive a fork; a pool that waited for them would hang."""
    out = child(
        """
        import os, signal, warnings
        import numpy as np
        import lpx
        from lpx import te

        a, r = te.placeholder((64, 33), name="A"), te.reduce_axis(33, "r")
        s = lpx.create_schedule(te.compute((64,), lambda i: te.sum(a[i, r], axis=r), name="C"))
        s.parallel(s.loops("C")[0])
        lpx.set_num_threads(2)
        kernel = lpx.build(s)
        x = np.arange(64 * 33, dtype=np.float32).reshape(64, 33) % 7
        want = kernel(x).copy()
        warnings.simplefilter("ignore", DeprecationWarning)  # forking a process with threads is what is tested
        for _ in range(3):
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                os._exit(0 if np.array_equal(kernel(x), want) else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert np.array_equal(kernel(x), want)
        print("same")
        """
    )
    assert out.split() == ["same"]


@pytest.mark.parametrize("target", ["cpu", BASELINE])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_needs_no_library(check: Checker, dtype: str, target: str) -> None:
    half = dtypes.parse(dtype).to_numpy()
    x, y = (RNG.standard_normal(37).astype(half) for _ in range(2))
    a, b = te.placeholder((37,), dtype, name="A"), te.placeholder((37,), dtype, name="B")
    total = te.compute((37,), lambda i: (a[i] + b[i], te.cast(a[i], "float32"), te.cast(b[i], "float64")), name="C")
    check(total, [x, y], [x + y, x.astype(np.float32), y.astype(np.float64)], {"split": split(8)}, target=target)
    f32 = (RNG.standard_normal(37) * 100).astype(np.float32)
    f64 = np.concatenate([RNG.standard_normal(33) * 100, [np.nan, np.inf, -np.inf, -0.0]])
    c, d = te.placeholder((37,), "float32", name="F"), te.placeholder((37,), "float64", name="D")
    casts = te.compute((37,), lambda i: (te.cast(c[i], dtype), te.cast(d[i], dtype)), name="C")
    if dtype == "float16":  # ml_dtypes rounds float64 to bfloat16 twice
        check(casts, [f32, f64], [f32.astype(half), f64.astype(half)], {"split": split(8)}, target=target)
        return
    narrowed = te.compute((37,), lambda i: te.cast(c[i], dtype), name="C")
    check(narrowed, [f32], [f32.astype(half)], {"split": split(8)}, target=target)


def busy(iterations: int, work: int) -> Callable[..., Any]:
    """A kernel whose parallel loop has `iterations` equal ones."""
    s = lpx.create_schedule(
        parse_function(f"""
func f(A: in int64[{iterations}], C: out int64[{iterations}]) {{
  for i in 0..{iterations} parallel {{
    for r in 0..{work} {{
      block C(vi: spatial {iterations} = i, vr: reduce {work} = r) {{
        init {{ C[vi] = A[vi] }} C[vi] = (C[vi] * 6364136223846793005 + vr) ^ (C[vi] >> 7)
      }}
    }}
  }}
}}""")
    )
    return lpx.build(s)


@pytest.mark.long
def test_the_rest_of_a_parallel_loop_is_shared(cache_dir: Path) -> None:
    """7 equal iterations on 2 threads take 4 of them; the machine may be busy, so the best of several counts."""
    one, seven = busy(1, 1 << 23), busy(7, 1 << 23)
    before = lpx.get_num_threads()
    lpx.set_num_threads(2)
    try:
        ratios = [_seconds(seven, 7) / _seconds(one, 1) for _ in range(8)]
    finally:
        lpx.set_num_threads(before)
    assert min(ratios) <= 4.3


def _seconds(kernel: Callable[..., Any], iterations: int) -> float:
    x = np.arange(iterations)
    begin = time.perf_counter()
    kernel(x)
    return time.perf_counter() - begin
