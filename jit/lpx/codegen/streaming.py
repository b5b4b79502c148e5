"""Non-temporal stores: results that are not read again soon go past the caches.

The pragma `nontemporal` of a loop asks for them. They need an alignment that is not known of a caller's arrays, so the
loop is emitted twice and a look at the pointers chooses. Arrays of NumPy begin at a multiple of 16 bytes, seldom of a
whole line: LLVM stores longer vectors in pieces of 16, which the processor joins to lines again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from lpx.codegen import types
from lpx.codegen.frame import Frame
from lpx.codegen.storage import Memory
from lpx.codegen.types import I64
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Call, Expr
from lpx.ir import nodes as ir
from lpx.ir import traverse
from lpx.ir.hardware import LINE_OFFSET
from lpx.records import replace

PIECE = 16
"""Bytes to which the address of a non-temporal store is a multiple."""


def stream_stores(frame: Frame, loop: ir.For, run: Callable[[], None]) -> None:
    """Emit the loop by `run`, with non-temporal stores where all buffers that it only writes are aligned."""
    written = traverse.written_buffers(loop.body) - traverse.read_buffers(_without_offsets(loop.body))
    places = {
        buffer: place
        for buffer, place in frame.emitter.storage.items()
        if buffer in written and buffer.scope == "global" and isinstance(place, Memory)
    }
    if not places:
        run()
        return
    b = frame.b
    then, orelse, done = b.new_block("aligned"), b.new_block("unaligned"), b.new_block("done")
    b.branch_if(_all_aligned(frame, places), then, orelse)
    b.start(then)
    frame.emitter.storage.update({buffer: replace(place, alignment=PIECE) for buffer, place in places.items()})
    frame.streamed = frozenset(places)
    run()
    drain_stores(frame)
    frame.streamed = frozenset()
    frame.emitter.storage.update(places)
    b.branch(done)
    b.start(orelse)
    run()
    b.start(done)


@contextmanager
def whole_vectors(frame: Frame) -> Generator[None]:
    """Vectors that are stored past the caches within begin at multiples of their length."""
    places = {b: frame.emitter.storage[b] for b in frame.streamed}
    memories = {b: replace(p, is_in_vectors=True) for b, p in places.items() if isinstance(p, Memory)}
    frame.emitter.storage.update(memories)
    yield
    frame.emitter.storage.update(places)


def _without_offsets(stmt: ir.Stmt) -> ir.Stmt:
    """`stmt` without looks at where arrays begin, which read nothing."""

    def visit(expr: Expr) -> Expr | None:
        is_offset = isinstance(expr, Call) and expr.op == LINE_OFFSET
        return build.const(0) if is_offset else None

    return traverse.transform(stmt, None, lambda e: expr_traverse.transform(e, visit))


def drain_stores(frame: Frame) -> None:
    """Wait for non-temporal stores: x86 orders them by a fence only, and other threads look once the loop is done."""
    if frame.kernel.capabilities.arch == "x86_64":
        frame.b.call_void("llvm.x86.sse.sfence", ())


def _all_aligned(frame: Frame, places: dict[Buffer, Memory]) -> types.Value:
    b = frame.b
    bits = types.int64(0)
    for place in places.values():
        bits = b.binary("or", bits, b.emit(I64, f"ptrtoint {place.pointer} to i64"))
    return b.compare("icmp eq", b.with_int("and", bits, PIECE - 1), types.int64(0))
