"""What is known of the machine this process runs on: LLVM's name and features, caches, cores, pages.

LLVM answers for the processor, Linux's sysfs for caches and cores. Everything is asked once.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from lpx.target.machine import Cache

_CPUS = Path("/sys/devices/system/cpu")
_HUGE_PAGE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA = 158, 0x1023, 18  # of Linux on x86-64: asm/unistd_64.h, asm/prctl.h
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


class Processor(NamedTuple):
    """LLVM's view of the host: triple, processor name, features present, and the complete feature string."""

    triple: str
    name: str
    features: frozenset[str]
    feature_string: str


@lru_cache(maxsize=1)
def processor() -> Processor:
    """Asks LLVM about the host."""
    from llvmlite import binding

    features: dict[str, bool] = dict(binding.get_host_cpu_features())
    if features.get("amx-tile") and not may_use_tiles():
        features = {name: present and not name.startswith("amx-") for name, present in features.items()}
    return Processor(
        str(binding.get_process_triple()),
        str(binding.get_host_cpu_name()),
        frozenset(name for name, present in features.items() if present),
        ",".join(("+" if present else "-") + name for name, present in sorted(features.items())),
    )


@lru_cache(maxsize=1)
def may_use_tiles() -> bool:
    """Asks the system to keep the tile registers of AMX for every thread of this process, present and future.

    Linux grants them on request only, since they are 8 KB for each thread; code that used them without would be
    stopped. What this gives is remembered: the request stands for the whole process and those it forks.
    """
    if not sys.platform.startswith("linux"):
        return True
    if os.uname().machine != "x86_64":
        return False
    system = ctypes.CDLL(None)
    return bool(system.syscall(_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA) == 0)


class Topology(NamedTuple):
    """Physical cores this process may use, and hardware threads on each."""

    cores: int
    threads_per_core: int


@lru_cache(maxsize=1)
def topology() -> Topology:
    """Cores by the affinity mask, the sharing of cores between threads, and the control group's quota."""
    cpus = _allowed_cpus()
    siblings = {_read(_CPUS / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu) for cpu in cpus}
    threads = max(len(_parse_cpu_list(text)) for text in siblings)
    quota = _cpu_quota()
    cores = len(siblings) if quota is None else min(len(siblings), max(1, math.ceil(quota)))
    return Topology(cores, threads)


@lru_cache(maxsize=1)
def data_caches() -> dict[int, Cache]:
    """Level -> data or unified cache of the first core this process may use; empty where the system does not tell."""
    found: dict[int, Cache] = {}
    threads = topology().threads_per_core
    for folder in sorted((_CPUS / f"cpu{min(_allowed_cpus())}/cache").glob("index*")):
        size, line = _parse_size(_read(folder / "size")), _read(folder / "coherency_line_size")
        if size and line and _read(folder / "type") in ("Data", "Unified"):
            sharing = len(_parse_cpu_list(_read(folder / "shared_cpu_list") or "0"))
            ways = int(_read(folder / "ways_of_associativity") or 0)
            found[int(_read(folder / "level"))] = Cache(size, ways or 8, int(line), max(1, sharing // threads))
    return found


def page_bytes() -> int:
    """Bytes of an ordinary page of memory."""
    return mmap.PAGESIZE


def huge_page_bytes() -> int:
    """Bytes of a transparent huge page."""
    return int(_read(_HUGE_PAGE) or 2 << 20)


def _allowed_cpus() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _cpu_quota() -> float | None:
    """Processors' worth of time this control group (v2) may use."""
    match _read(_QUOTA).split():
        case [limit, period] if limit.isdigit():
            return int(limit) / int(period)
        case _:
            return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _parse_size(text: str) -> int:
    """Bytes of "48K", "2M" or "4096"; 0 of an empty text."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text or 0)


def _parse_cpu_list(text: str) -> frozenset[int]:
    """The numbers of "0-3,8"."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)
