"""What a parallel region of two threads costs, next to libgomp in the same run.

pytest bench/test_pool.py
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lpx.runtime import objects, pool
from lpx.runtime.emitted.emit import Unit
from lpx.runtime.emitted.types import I32, I64, PTR, VOID
from lpx.runtime.support import link_kernel

REGIONS = 10_000
Regions = Callable[[int], Any]

OPENMP = """
void regions(long n) {
    for (long i = 0; i < n; i++) {
        _Pragma("omp parallel num_threads(2)")
        __asm__ volatile("" ::: "memory");
    }
}
"""


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    before = pool.get_num_threads()
    pool.set_num_threads(2)
    yield
    pool.set_num_threads(before)


def lpx_regions(*, barriers: int = 0) -> tuple[objects.LinkedObject, Regions]:
    """n empty regions, one after another, each with some barriers inside."""
    unit = Unit("regions", objects.host_triple())
    parallel = unit.extern("lpx_parallel", I32, PTR, PTR, I64)
    barrier = unit.extern("lpx_barrier", I32, PTR)
    with unit.function("body", I32, PTR, I64, I64, PTR, local=True) as (body, _closure, _t, _nt, region):
        for _ in range(barriers):
            body.call(barrier, region)
        body.ret(0)
    with unit.function("regions", VOID, I64) as (code, n):
        with code.count(n):
            code.call(parallel, code.symbol(unit.extern("body", I32)), code.null(), 2)
        code.ret()
    linked = link_kernel(objects.compile_module(unit), ("regions",))
    return linked, ctypes.CFUNCTYPE(None, ctypes.c_int64)(linked.address("regions"))


@pytest.fixture(scope="module")
def libgomp_regions(tmp_path_factory: pytest.TempPathFactory) -> Regions:
    """The same loop over empty regions, by gcc and libgomp."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc for the peer")
    folder: Path = tmp_path_factory.mktemp("openmp")
    (folder / "regions.c").write_text(OPENMP)
    command = [
        "gcc",
        "-O2",
        "-fopenmp",
        "-shared",
        "-fPIC",
        "-o",
        str(folder / "regions.so"),
        str(folder / "regions.c"),
    ]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("gcc has no OpenMP")
    function: Any = ctypes.CDLL(str(folder / "regions.so")).regions
    function.argtypes = [ctypes.c_int64]
    return function  # type: ignore[no-any-return]


def microseconds(*candidates: Regions) -> list[float]:
    """The least time of one region of each candidate, measured in turns."""
    best = [float("inf")] * len(candidates)
    for _ in range(15):
        for place, regions in enumerate(candidates):
            regions(100)
            start = time.perf_counter_ns()
            regions(REGIONS)
            best[place] = min(best[place], (time.perf_counter_ns() - start) / REGIONS / 1000)
    return best


@pytest.mark.parametrize("barriers", [0, 1])
def test_regions(benchmark: Any, libgomp_regions: Regions, barriers: int) -> None:
    """A region without a barrier takes at most 1.5 microseconds while both threads spin."""
    _keep, regions = lpx_regions(barriers=barriers)
    mine, libgomp = microseconds(regions, libgomp_regions)
    benchmark.group = f"region of two threads{', with a barrier against none' if barriers else ''}"
    benchmark.extra_info.update(seconds={"lpx": mine * 1e-6, "libgomp": libgomp * 1e-6}, work={})
    benchmark(regions, REGIONS)
    print(f"\n{barriers} barriers: {mine:.2f} us, libgomp {libgomp:.2f} us")
    if not barriers:
        assert mine <= 1.5
