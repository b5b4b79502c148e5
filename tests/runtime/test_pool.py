"""The thread pool: shares, barriers, failures, nesting, forks, idleness, and how many threads there are."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lpx.errors import ArgumentError, RuntimeCheckError
from lpx.runtime import cores, pool
from lpx.runtime.native import NativeFunction
from lpx.runtime.specialisation import Specialisation
from tests.runtime import kernels
from tests.support import ROOT, Child

PATHS = os.pathsep.join(str(ROOT / part) for part in (".", "jit", "kernels"))


@pytest.fixture(autouse=True)
def _same_number_afterwards() -> Iterator[None]:
    before = pool.get_num_threads()
    yield
    pool.set_num_threads(before)


def function(specialisation: Specialisation) -> NativeFunction:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise AssertionError("fell back")

    made = NativeFunction(refuse)
    made.add(specialisation)
    return made


def owners(n: int) -> tuple[list[int], int]:
    """Thread of each of n rows, and the number of threads."""
    owner, count = function(kernels.threads_of_rows())(np.zeros(n, np.int64))
    return owner.tolist(), int(count[0])


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_shares_are_balanced(threads: int, n: int) -> None:
    pool.set_num_threads(threads)
    owner, count = owners(n)
    assert count == min(threads, n)
    sizes = [owner.count(t) for t in range(count)]
    assert sum(sizes) == n
    assert max(sizes) - min(sizes) <= 1
    assert owner == sorted(owner)


def test_nothing_to_do() -> None:
    owner, _ = owners(0)
    assert owner == []


def test_seven_on_two() -> None:
    pool.set_num_threads(2)
    assert sorted(owners(7)[0].count(t) for t in (0, 1)) == [3, 4]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_barrier_separates_rounds(threads: int) -> None:
    pool.set_num_threads(threads)
    cells = function(kernels.rounds())(np.array([200]))
    assert cells.tolist() == [200] * threads + [0] * (8 - threads)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_failure_frees_those_at_the_barrier(threads: int) -> None:
    pool.set_num_threads(threads)
    call = function(kernels.rounds(fail_at=20))
    for _ in range(20):
        with pytest.raises(RuntimeCheckError, match="told to fail"):
            call(np.array([100]))
    assert call(np.array([10])).sum() == 10 * threads


def test_nested_regions_run_serially() -> None:
    pool.set_num_threads(3)
    inner, outer = function(kernels.nested())()
    assert outer.tolist() == [3]
    assert inner.tolist() == [1, 1, 1, 0]


def test_python_threads_share_the_pool() -> None:
    pool.set_num_threads(2)
    call = function(kernels.rounds())
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(100):
            cells = call(np.array([3])).tolist()
            if cells not in ([3, 3] + [0] * 6, [3] + [0] * 7):
                wrong.append(cells)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


def test_changing_the_number_of_threads() -> None:
    for threads in (1, 4, 2, 6, 1):
        pool.set_num_threads(threads)
        assert pool.get_num_threads() == threads
        assert owners(100)[1] == threads


@pytest.mark.parametrize("count", [0, -1, 257])
def test_illegal_number_of_threads(count: int) -> None:
    with pytest.raises(ArgumentError, match="choose from 1 to 256"):
        pool.set_num_threads(count)


SETUP = """
import os, sys, threading, time
import numpy as np
from lpx.runtime import cores, pool
from lpx.runtime.native import NativeFunction
from tests.runtime import kernels
def function(specialisation):
    made = NativeFunction(None)
    made.add(specialisation)
    return made
def threads_used(n=64):
    return int(function(kernels.threads_of_rows())(np.zeros(n, np.int64))[1][0])
"""


def run(child: Child, code: str, threads: int = 2) -> str:
    return child(SETUP + code, PYTHONPATH=PATHS, LPX_NUM_THREADS=str(threads)).strip()


def test_knob_sets_the_number(child: Child) -> None:
    assert run(child, "print(pool.get_num_threads(), threads_used())", threads=5) == "5 5"


def test_workers_start_lazily(child: Child) -> None:
    code = "kernels.add(); before = pool.started_workers(); threads_used(); print(before, pool.started_workers())"
    assert run(child, code, threads=3) == "0 2"


def test_one_cpu_means_one_thread(child: Child) -> None:
    pinned = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    code = f"{pinned}\n{SETUP}\nprint(pool.get_num_threads(), threads_used(), pool.started_workers())"
    assert child(code, PYTHONPATH=PATHS).strip() == "1 1 0"


def test_more_threads_than_cpus_make_progress(child: Child) -> None:
    code = """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
pool.set_num_threads(4)
print(function(kernels.rounds())(np.array([20])).sum())
"""
    assert run(child, code) == "80"


def test_forked_child_has_its_own_workers(child: Child) -> None:
    code = """
assert threads_used() == 3
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        assert pool.started_workers() == 0
        assert threads_used() == 3
        assert pool.started_workers() == 2
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print(threads_used())
"""
    assert run(child, code, threads=3) == "3"


def test_fork_while_a_region_runs(child: Child) -> None:
    code = """
call = function(kernels.rounds())
stop = threading.Event()
def work():
    while not stop.is_set():
        call(np.array([1000]))
thread = threading.Thread(target=work)
thread.start()
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        os._exit(threads_used())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
stop.set()
thread.join()
print("done")
"""
    assert run(child, code, threads=2) == "done"


def test_spawned_child(child: Child) -> None:
    code = """
import multiprocessing
pids = multiprocessing.get_context("spawn").Pool(2)
print(pids.map(kernels.use_threads, [3, 4]))
pids.terminate()
"""
    assert run(child, code) == "[3, 4]"


def test_idle_workers_sleep(child: Child) -> None:
    code = """
threads_used()
time.sleep(0.02)
before = time.process_time()
time.sleep(0.5)
print(time.process_time() - before < 0.02)
"""
    assert run(child, code, threads=4) == "True"


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "os._exit(0)"])
def test_exit_with_workers_alive(child: Child, ending: str) -> None:
    run(child, f"threads_used()\n{ending}", threads=4)


def test_exit_while_a_region_runs_in_a_daemon_thread(child: Child) -> None:
    code = """
call = function(kernels.until_interrupted(threads=True))
started = np.zeros(1, np.int64)
threading.Thread(target=call, args=(started,), daemon=True).start()
while not started[0]:
    time.sleep(0.001)
"""
    run(child, code, threads=2)


def test_quota_of_cgroup_v2(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "a" / "cpu.max").write_text("150000 100000\n")
    (inner / "cpu.max").write_text("800000 100000\n")
    assert cores.cgroup_quota("0::/a/b\n", tmp_path) == 1.5
    assert cores.cgroup_quota("0::/elsewhere\n", tmp_path) is None


def test_quota_of_cgroup_v1(tmp_path: Path) -> None:
    inner = tmp_path / "cpu,cpuacct" / "docker"
    inner.mkdir(parents=True)
    (inner / "cpu.cfs_quota_us").write_text("250000\n")
    (inner / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "cpu,cpuacct" / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu,cpuacct" / "cpu.cfs_period_us").write_text("100000\n")
    assert cores.cgroup_quota("4:cpu,cpuacct:/docker\n2:memory:/docker\n", tmp_path) == 2.5
    assert cores.cgroup_quota("2:memory:/docker\n", tmp_path) is None


def test_cores_count_siblings_once(tmp_path: Path) -> None:
    for cpu in range(4):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 2},{cpu % 2 + 2}\n")
    assert cores.physical_cores(frozenset({0, 1, 2, 3}), tmp_path) == 2
    assert cores.physical_cores(frozenset({0, 2}), tmp_path) == 1
    assert cores.physical_cores(frozenset({0, 9}), tmp_path) == 2


def test_scratch_blocks_are_aligned_and_reused() -> None:
    call = function(kernels.scratch())
    addresses = call(np.array([100, 100, 4096, 100, 5 << 20, 5 << 20, 0, 1]))
    assert not (addresses % 64).any()
    assert addresses[0] == addresses[1] == addresses[3]
    assert addresses[4] == addresses[5]


@pytest.mark.parametrize("size", [-1, 1 << 60])
def test_out_of_scratch_memory(size: int) -> None:
    with pytest.raises(MemoryError, match="scratch"):
        function(kernels.scratch())(np.array([64, size]))


def test_scratch_cache_is_bounded(child: Child) -> None:
    code = """
call = function(kernels.scratch())
import random, resource
sizes = np.array([1 << (6 + i % 18) for i in range(4000)])
call(sizes)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
call(sizes)
call(np.full(50, 1 << 28))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10)
"""
    assert run(child, code) == "True"
