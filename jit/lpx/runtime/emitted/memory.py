"""Scratch memory for kernels: a small process-wide cache of aligned blocks over libc's allocator.

    ptr lpx_scratch_acquire(i64 bytes)      64-byte aligned, contents undefined, null when out of memory
    void lpx_scratch_release(ptr block)     gives it back (null is fine); the next acquire of a similar size reuses it
    void lpx_scratch_trim()                 frees every block in the cache

A shelf is one atomic pointer. Whoever swaps a block out of a shelf owns it, so there are no locks and no thread-local
storage, and a block may be released by another thread than the one that acquired it.
"""

from __future__ import annotations

from lpx.runtime.emitted.emit import Code, Unit, Value
from lpx.runtime.emitted.record import Record
from lpx.runtime.emitted.types import I32, I64, PTR, VOID, ir

ALIGNMENT = 64
SHELVES = 32
"""Blocks the cache keeps at most."""
LARGEST_KEPT = 256 << 20
"""Bytes; a larger block goes straight back to the system."""

_HUGE_PAGE = 2 << 20
_MADV_HUGEPAGE = 14
_WASTE = 4  # a cached block serves requests down to this fraction of its size
_HEADER = Record(align=ALIGNMENT, size="i64")


def emit_memory(unit: Unit) -> None:
    """Emits the scratch allocator into a unit."""
    shelves = unit.variable("lpx_shelves", ir.ArrayType(PTR, SHELVES), ALIGNMENT)
    allocate = unit.extern("posix_memalign", I32, PTR, I64, I64)
    advise = unit.extern("madvise", I32, PTR, I64, I32)
    free = unit.extern("free", VOID, PTR)

    def shelf(code: Code, index: Value) -> Value:
        return code.symbol(shelves) + index * 8

    def take(code: Code, place: Value) -> Value:
        """The block on a shelf, now ours; null if there is none."""
        return code.atomic("xchg", place, code.null())

    with unit.function("lpx_scratch_allocate", PTR, I64, local=True) as (code, size):
        slot = code.stack(PTR)
        alignment = code.select(size < _HUGE_PAGE, ALIGNMENT, code.i64(_HUGE_PAGE))
        with code.when(code.call(allocate, slot, alignment, size + _HEADER.size).ne(0), likely=False):
            code.ret(code.null())
        block = slot.load(PTR)
        with code.when(size >= _HUGE_PAGE):
            code.call(advise, block, size + _HEADER.size, _MADV_HUGEPAGE)  # advice: a refusal changes nothing
        block.put(_HEADER["size"], size)
        code.ret(block + _HEADER.size)

    with unit.function("lpx_scratch_release", VOID, PTR) as (code, data):
        with code.when(data.eq(0)):
            code.ret()
        block = data + -_HEADER.size
        with code.when(block.get(_HEADER["size"]) <= LARGEST_KEPT), code.count(code.i64(SHELVES)) as index:
            place = shelf(code, index)
            with (
                code.when(code.load_atomic(place, PTR, "monotonic").eq(0)),
                code.when(code.compare_exchange(place, code.null(), block)),
            ):
                code.ret()
        code.call(free, block)
        code.ret()

    with unit.function("lpx_scratch_acquire", PTR, I64) as (code, bytes_):
        with code.when(bytes_ < 0, likely=False):
            code.ret(code.null())
        size = (bytes_ + (ALIGNMENT - 1)) & -ALIGNMENT
        with code.count(code.i64(SHELVES)) as index:
            place = shelf(code, index)
            with code.when(code.load_atomic(place, PTR, "monotonic").ne(0)):
                block = take(code, place)
                with code.when(block.ne(0)):
                    held = block.get(_HEADER["size"])
                    with code.when(held >= size), code.when(held <= size * _WASTE + 4096):
                        code.ret(block + _HEADER.size)
                    with code.when(code.compare_exchange(place, code.null(), block).eq(0)):
                        code.call(free, block)
        code.ret(code.call(unit.named("lpx_scratch_allocate"), size))

    with unit.function("lpx_scratch_trim", VOID) as (code,):
        with code.count(code.i64(SHELVES)) as index:
            code.call(free, take(code, shelf(code, index)))
        code.ret()
