"""Number of threads that parallel loops run on.

One native pool serves the process (see `emitted.pool`). Its size is `LPX_NUM_THREADS`, else one thread per physical
core this process may use, counting affinity and cgroup quotas; `set_num_threads` changes it.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from lpx.errors import ArgumentError
from lpx.runtime.emitted.layout import MAX_THREADS
from lpx.runtime.support import spin_time, support_library


def set_num_threads(count: int) -> None:
    """Makes parallel loops run on at most `count` threads, the calling one included, from the next kernel on.

    Raises ArgumentError unless 1 <= count <= 256.
    """
    if not 1 <= count <= MAX_THREADS:
        raise ArgumentError(f"cannot run on {count} threads", hint=f"choose from 1 to {MAX_THREADS}")
    _native().configure(count, spin_time(count))


def get_num_threads() -> int:
    """Threads that parallel loops run on at most, the calling one included."""
    return int(_native().size())


def started_workers() -> int:
    """Worker threads that exist now; they start when a kernel first needs them."""
    return int(_native().started())


class _NativePool:
    """The pool's functions as ctypes callables: settings only, never on a call's path."""

    def __init__(self) -> None:
        address = support_library().address
        self.configure: Any = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int64)(address("lpx_pool_configure"))
        self.size: Any = ctypes.CFUNCTYPE(ctypes.c_int32)(address("lpx_pool_size"))
        self.started: Any = ctypes.CFUNCTYPE(ctypes.c_int32)(address("lpx_pool_started"))


@functools.cache
def _native() -> _NativePool:
    return _NativePool()
