"""Keys of compiled code: everything that its bytes depend on."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator

import lpx
from lpx.runtime.cache import digest
from lpx.runtime.objects import versions
from lpx.target import Target


@functools.cache
def sources() -> str:
    """A digest of lpx's own source files by name, size and time, so that an edited compiler misses its old results."""
    state = hashlib.blake2b(digest_size=16)
    for path, size, time in sorted(_files(os.path.dirname(lpx.__file__), "")):
        state.update(f"{path} {size} {time}\n".encode())
    return state.hexdigest()


def _files(folder: str, name: str) -> Iterator[tuple[str, int, int]]:
    """Path below the first folder, size and time of each source file."""
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{name}/{entry.name}"
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield path, status.st_size, status.st_mtime_ns
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path, path)


def key_of(kind: str, program: str, target: Target) -> str:
    """The cache key of a program given as text, for a target, as this version of lpx compiles it."""
    return digest(kind, program, str(target), _machine(target), sources(), *versions())


def _machine(target: Target) -> str:
    """What default schedules go by beyond the target's name: a process may use fewer cores than another did."""
    if target.kind != "cpu":
        return ""
    machine = target.cpu
    return f"{machine.cores} {machine.l1d} {machine.l2} {machine.l3}"
