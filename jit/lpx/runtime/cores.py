"""How many cores this process may use: affinity, hyper-threads, and cgroup quotas."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_CPU_FOLDER = Path("/sys/devices/system/cpu")


def available_cores() -> int:
    """Physical cores this process may use, at least 1.

    Within its affinity, and within its cgroup's quota (rounded up).
    """
    cores = physical_cores(_affinity(), _CPU_FOLDER)
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


def physical_cores(cpus: frozenset[int], folder: Path) -> int:
    """Distinct cores among logical CPUs; a CPU whose siblings are not known counts as a core."""
    return len({_read(folder / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu) for cpu in cpus})


def _process_cgroups() -> str:
    return _read(Path("/proc/self/cgroup"))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
