"""Keys of compiled code: everything that its bytes depend on."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import lpx
from lpx.runtime.cache import digest
from lpx.runtime.objects import versions
from lpx.target import Target


@functools.cache
def sources() -> str:
    """A digest of lpx's own source files by name, size and time, so that an edited compiler misses its old results."""
    root = Path(lpx.__file__).parent
    state = hashlib.blake2b(digest_size=16)
    for path in sorted(root.rglob("*.py")):
        status = path.stat()
        state.update(f"{path.relative_to(root)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return state.hexdigest()


def key_of(kind: str, program: str, target: Target) -> str:
    """The cache key of a program given as text, for a target, as this version of lpx compiles it."""
    return digest(kind, program, str(target), sources(), *versions())
