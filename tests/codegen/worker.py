"""Runs compiled kernels in a process of its own, which answers pickled requests on its pipes.

Every array lies at the end (or at the beginning) of its pages, next to a page that must not be touched, so that a read
or write out of bounds ends the process.
"""

from __future__ import annotations

import ctypes
import mmap
import pickle
import sys
from dataclasses import dataclass
from typing import Literal

from lpx.runtime.pool import set_num_threads
from lpx.runtime.support import link_kernel, support_library

_PAGE = mmap.PAGESIZE
_POISON = 0xA5


@dataclass(frozen=True, slots=True)
class Request:
    """A call of `entry` in the object `data` on raw buffers and extents."""

    data: bytes
    entry: str
    buffers: tuple[bytes, ...]
    extents: tuple[int, ...]
    threads: int = 2
    guard: Literal["after", "before"] = "after"
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What the kernel returned, and its buffers afterwards."""

    status: int
    buffers: tuple[bytes, ...]


class GuardedBuffer:
    """`content` next to an untouchable page; the bytes on its other side must not change."""

    def __init__(self, content: bytes, guard: Literal["after", "before"]) -> None:
        pages = max(1, -(-len(content) // _PAGE)) + 1
        self._map = mmap.mmap(-1, pages * _PAGE)
        self._map.write(bytes([_POISON]) * (pages * _PAGE))
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        usable = (pages - 1) * _PAGE
        start = usable - len(content) if guard == "after" else _PAGE
        protected = base + usable if guard == "after" else base
        self._span = slice(start, start + len(content))
        self._rest = slice(0, start) if guard == "after" else slice(start + len(content), pages * _PAGE)
        self._map[self._span] = content
        self.address = base + start
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(protected), ctypes.c_size_t(_PAGE), 0):
            raise OSError("mprotect failed")

    def content(self) -> bytes:
        if self._map[self._rest].strip(bytes([_POISON])):
            raise MemoryError("bytes beside a buffer were written")
        return self._map[self._span]


def run(request: Request) -> Answer:
    """Link, call, and read the buffers back."""
    set_num_threads(request.threads)
    code = link_kernel(request.data, (request.entry,))
    buffers = [GuardedBuffer(content, request.guard) for content in request.buffers]
    values = [*(b.address for b in buffers), *request.extents]
    slots = (ctypes.c_int64 * max(1, len(values)))(*values)
    flag = ctypes.c_int32.from_address(support_library().address("lpx_interrupted"))
    flag.value = int(request.interrupted)
    status = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code.address(request.entry))(ctypes.addressof(slots))
    flag.value = 0
    return Answer(status, tuple(b.content() for b in buffers))


def main() -> None:
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            request: Request = pickle.load(source)
        except EOFError:
            return
        pickle.dump(run(request), sink)
        sink.flush()
