"""Number of threads that parallel loops run on.

One native pool serves the process (see `emitted.pool`). Its size is `LPX_NUM_THREADS`, else one thread per physical
core this process may use, counting affinity and cgroup quotas; `set_num_threads` changes it.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lpx import knobs
from lpx.errors import ArgumentError
from lpx.runtime.emitted.pool import MAX_THREADS
from lpx.runtime.support import support_library

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_CPU_FOLDER = Path("/sys/devices/system/cpu")


def set_num_threads(count: int) -> None:
    """Makes parallel loops run on at most `count` threads, the calling one included, from the next kernel on.

    Raises ArgumentError unless 1 <= count <= 256.
    """
    if not 1 <= count <= MAX_THREADS:
        raise ArgumentError(f"cannot run on {count} threads", hint=f"choose from 1 to {MAX_THREADS}")
    ensure_pool()
    _native().configure(count)


def get_num_threads() -> int:
    """Threads that parallel loops run on at most, the calling one included."""
    ensure_pool()
    return int(_native().size())


def started_workers() -> int:
    """Worker threads that exist now; they start when a kernel first needs them."""
    return int(_native().started())


@functools.cache
def ensure_pool() -> None:
    """Gives the pool its initial size; linking a kernel calls it."""
    wanted = knobs.num_threads()
    _native().configure(min(available_cores() if wanted is None else wanted, MAX_THREADS))


def available_cores() -> int:
    """Physical cores this process may use, at least 1.

    Within its affinity, and within its cgroup's quota (rounded up).
    """
    cores = _physical_cores(_affinity(), _CPU_FOLDER)
    quota = cgroup_quota(_process_cgroups(), _CGROUP_ROOT)
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def cgroup_quota(memberships: str, root: Path) -> float | None:
    """CPUs that cgroups v1 and v2 grant, the least over the group and its ancestors; None without a limit.

    `memberships` is the text of /proc/self/cgroup (`id:controllers:path` lines), `root` where cgroup file systems are
    mounted.
    """
    quotas: list[float] = []
    for line in memberships.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            quotas += _quotas_v2(root, path)
            quotas += _quotas_v2(root / "unified", path)
        elif "cpu" in controllers.split(","):
            for folder in {controllers, "cpu"}:
                quotas += _quotas_v1(root / folder, path)
    return min(quotas, default=None)


def _quotas_v2(root: Path, path: str) -> Iterator[float]:
    for folder in _upwards(root, path):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)


def _quotas_v1(root: Path, path: str) -> Iterator[float]:
    for folder in _upwards(root, path):
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)


def _upwards(root: Path, path: str) -> Iterator[Path]:
    """The group's folder and its ancestors up to `root`; inside a container only some of them exist."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield root.joinpath(*parts[:length])


def _affinity() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _physical_cores(cpus: frozenset[int], folder: Path) -> int:
    """Distinct cores among logical CPUs; a CPU whose siblings are not known counts as a core."""
    return len({_read(folder / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu) for cpu in cpus})


def _process_cgroups() -> str:
    return _read(Path("/proc/self/cgroup"))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


class _NativePool:
    """The pool's functions as ctypes callables: settings only, never on a call's path."""

    def __init__(self) -> None:
        address = support_library().address
        self.configure: Any = ctypes.CFUNCTYPE(None, ctypes.c_int32)(address("lpx_pool_configure"))
        self.size: Any = ctypes.CFUNCTYPE(ctypes.c_int32)(address("lpx_pool_size"))
        self.started: Any = ctypes.CFUNCTYPE(ctypes.c_int32)(address("lpx_pool_started"))


@functools.cache
def _native() -> _NativePool:
    return _NativePool()
