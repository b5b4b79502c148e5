"""Comparisons with other libraries: results are checked, candidates take turns, and clocks see all of the work."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pytest

import lpx
from lpx.cli.comparison import operations, timing
from lpx.cli.comparison.libraries import Libraries, installed, on_the_same_threads
from lpx.cli.comparison.program import Array, Program, aligned_like, normal, takes_out
from lpx.cli.comparison.result import Result, duration, geometric_mean
from lpx.cli.comparison.timing import DisagreementError

QUICK = ("numpy", "numba", "onnxruntime")


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = lpx.get_num_threads()
    lpx.set_num_threads(1)
    yield
    lpx.set_num_threads(before)


@pytest.fixture
def libraries(one_thread: None) -> Iterator[Libraries]:
    with on_the_same_threads(QUICK) as found:
        yield found


def test_candidates_take_turns() -> None:
    calls: list[str] = []
    times = timing.interleave({name: partial(calls.append, name) for name in "ab"}, 0.0, time.perf_counter)
    assert len(times["a"]) == len(times["b"]) == timing.ROUNDS
    changes = [name for name, before in zip(calls[1:], calls, strict=False) if name != before]
    assert changes[-4:] == ["a", "b", "a", "b"]


def test_a_wrong_result_is_never_timed() -> None:
    right, wrong = np.ones(3), np.asarray([1.0, 1.0, 1.1])
    timing.check({"numpy": lambda: right, "lpx": lambda: right + 1e-7}, 1e-5)
    with pytest.raises(DisagreementError, match=r"lpx and numpy do not compute the same: they differ by 1\.0e-01"):
        timing.check({"numpy": lambda: right, "lpx": lambda: wrong}, 1e-5)
    with pytest.raises(DisagreementError, match=r"lpx gives the shape \(2,\), numpy \(3,\)"):
        timing.check({"numpy": lambda: right, "lpx": lambda: right[:2]}, 1e-5)


def test_narrow_results_are_compared_exactly() -> None:
    assert timing.as_array(np.full(1, 255, np.uint8)).dtype == np.int64
    assert timing.as_array(normal(1, dtype="bfloat16")).dtype == np.float64


DATA = bytes(1 << 20)


def work() -> object:
    """Some milliseconds without Python's lock."""
    return hashlib.sha256(DATA).digest()


def test_work_of_other_threads_is_seen(one_thread: None) -> None:
    with ThreadPoolExecutor(1) as pool:

        def elsewhere() -> object:
            return pool.submit(work).result()

        assert timing.clock_of(work) is time.thread_time
        assert timing.clock_of(elsewhere) is time.process_time
        times = timing.interleave({"here": work, "elsewhere": elsewhere}, 0.0)
        blind = timing.interleave({"here": work, "elsewhere": elsewhere}, 0.0, time.thread_time)
    assert median(times["elsewhere"]) > 0.5 * median(times["here"])
    assert median(blind["elsewhere"]) < 0.5 * median(blind["here"])


def test_several_threads_are_timed_by_the_wall() -> None:
    before = lpx.get_num_threads()
    lpx.set_num_threads(2)
    try:
        assert timing.clock_of(work) is time.perf_counter
    finally:
        lpx.set_num_threads(before)


def test_the_fastest_way_is_taken(one_thread: None) -> None:
    def slow() -> object:
        return work(), work(), work()

    assert timing.fastest([slow, work]) is work
    assert timing.fastest([slow]) is slow


def test_results() -> None:
    result = Result("sum", {"numpy": 2.0, "numba": 1.0, "lpx": 0.5, "lpx_other": 0.1})
    assert (result.best_peer, result.ratio) == ("numba", 2.0)
    assert Result("sum", {"lpx": 1.0}).best_peer == ""
    assert geometric_mean([4.0, 1.0]) == 2.0
    assert [duration(2e-3), duration(2e-6)] == ["2.00 ms", "2.0 us"]


def test_arrays_begin_at_a_page() -> None:
    for array in (normal(3, 5), aligned_like(np.ones((2, 3), np.int8)), normal(4, dtype="float64")):
        assert array.ctypes.data % 4096 == 0
        assert array.flags.c_contiguous
    assert normal(2, 3).shape == (2, 3)


def test_functions_that_take_an_output() -> None:
    assert takes_out(lambda x, out: None)
    assert not takes_out(lambda x: None)


SMALL: dict[str, dict[str, Any]] = {
    "matmul": {"m": 3, "n": 5, "k": 7},
    "linear": {"m": 3, "n": 5, "k": 7},
    "softmax": {"rows": 3, "columns": 17},
    "log_softmax": {"rows": 3, "columns": 17},
    "layer_norm": {"rows": 3, "columns": 17},
    "rms_norm": {"rows": 3, "columns": 17},
    "attention": {"heads": 2, "length": 5, "width": 4, "causal": 1},
    "conv2d": {"channels": 2, "filters": 3, "size": 5},
    "transpose": {"rows": 3, "columns": 5},
}


@pytest.mark.parametrize("name", operations.KERNELS)
def test_libraries_agree(libraries: Libraries, name: str) -> None:
    program = operations.KERNELS[name](**SMALL[name])
    candidates = libraries.candidates(program)
    assert list(candidates)[-1] == "lpx"
    assert len(candidates) > 1
    timing.check(candidates, program.tolerance)


@pytest.mark.parametrize("name", ["matmul", "linear", "conv2d"])
@pytest.mark.parametrize("constant", [False, True])
def test_constants_are_held(libraries: Libraries, name: str, constant: bool) -> None:
    program = operations.KERNELS[name](**SMALL[name], constant=constant)
    assert bool(program.constants) == constant
    assert set(program.arguments) == set(program.inputs) - set(program.constants)
    timing.check(libraries.candidates(program), program.tolerance)


def doubled(x: Array, out: Array) -> None:
    """For NumPy and numba."""
    for i in range(x.size):
        out[i] = x[i] * 2


def test_libraries_write_to_arrays_of_their_own(libraries: Libraries) -> None:
    program = Program("double", {"x": normal(4)}, lpx=lambda x: x * 2, numpy=doubled, numba=doubled)
    results = {name: run() for name, run in libraries.candidates(program).items()}
    assert results["lpx"] is not results["numpy"]
    timing.check({name: partial(results.get, name) for name in results}, 0.0)


def test_a_library_without_words_is_left_out(libraries: Libraries) -> None:
    program = Program("double", {"x": normal(4)}, lpx=lambda x: x * 2)
    assert list(libraries.candidates(program)) == ["lpx"]


@pytest.mark.skipif(not installed("torch"), reason="needs PyTorch")
def test_torch() -> None:
    with on_the_same_threads(["numpy", "torch"]) as found:
        for constant in (False, True):
            program = operations.matmul(8, 16, 32, constant=constant)
            candidates = found.candidates(program)
            assert list(candidates) == ["numpy", "torch", "torch_compile", "lpx"]
            timing.check(candidates, program.tolerance)


@pytest.mark.skipif(not installed("jax"), reason="needs JAX")
def test_jax_works_on_the_calling_thread(one_thread: None) -> None:
    with on_the_same_threads(["numpy", "jax"]) as found:
        program = operations.matmul(256, 256, 256)
        candidates = found.candidates(program)
        timing.check(candidates, program.tolerance)
        assert timing.clock_of(candidates["jax"]) is time.thread_time
