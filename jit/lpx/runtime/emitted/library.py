"""The two libraries: what kernels link against, and what CPython calls."""

from __future__ import annotations

from lpx.runtime.emitted.emit import Unit
from lpx.runtime.emitted.entry import EntryEmitter
from lpx.runtime.emitted.interrupt import emit_interrupt
from lpx.runtime.emitted.memory import emit_memory
from lpx.runtime.emitted.object_type import emit_type
from lpx.runtime.emitted.pool import PoolEmitter


def emit_support(triple: str) -> Unit:
    """The support library for a target triple.

    Needs libc and POSIX threads only, so ahead-of-time code links it too.
    """
    unit = Unit("lpx_support", triple)
    PoolEmitter(unit)
    emit_memory(unit)
    emit_interrupt(unit)
    return unit


def emit_entry(triple: str, tuple_items: int) -> Unit:
    """The call path for a CPython whose tuples hold their first item at byte `tuple_items`."""
    unit = Unit("lpx_entry", triple)
    emit_type(EntryEmitter(unit, tuple_items))
    return unit
