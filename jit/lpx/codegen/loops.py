"""Control flow: sequences, lets, branches, serial loops and the polls in them."""

from __future__ import annotations

from lpx.codegen import types
from lpx.codegen.checks import INTERRUPTED
from lpx.codegen.frame import Frame
from lpx.codegen.hardware import keeps_tiles
from lpx.codegen.integers import constant_of
from lpx.codegen.streaming import stream_stores, whole_vectors
from lpx.codegen.types import I32, Value, int32, integer
from lpx.ir import nodes as ir
from lpx.ir import traverse


def emit_sequence(frame: Frame, stmt: ir.Seq) -> None:
    """One statement after the other."""
    for child in stmt.stmts:
        frame.emit(frame, child)


def emit_let(frame: Frame, stmt: ir.Stmt) -> None:
    """A chain of lets, without recursion."""
    while isinstance(stmt, ir.Let):
        frame.emitter.variables[stmt.var] = frame.scalar(stmt.value)
        stmt = stmt.body
    frame.emit(frame, stmt)


def emit_if(frame: Frame, stmt: ir.If) -> None:
    """A branch on a scalar condition."""
    b = frame.b
    condition = frame.scalar(stmt.cond)
    then, done = b.new_block("then"), b.new_block("done")
    orelse = b.new_block("else") if stmt.orelse else done
    b.branch_if(condition, then, orelse)
    b.start(then)
    frame.emit(frame, stmt.then)
    b.branch(done)
    if stmt.orelse:
        b.start(orelse)
        frame.emit(frame, stmt.orelse)
    b.start(done)


def emit_while(frame: Frame, stmt: ir.While) -> None:
    """A loop of unknown length; it polls, since it may never end."""
    b = frame.b
    head, body, done = b.new_block("while"), b.new_block("repeat"), b.new_block("done")
    b.start(head)
    emit_poll(frame)
    b.branch_if(frame.scalar(stmt.cond), body, done)
    b.start(body)
    frame.depth += 1
    frame.emit(frame, stmt.body)
    frame.depth -= 1
    b.branch(head)
    b.start(done)


def emit_serial(frame: Frame, stmt: ir.For) -> None:
    """All iterations of a loop."""
    start, extent = frame.scalar(stmt.start), frame.scalar(stmt.extent)
    run_iterations(frame, stmt, start, _sum(frame, start, extent))


def run_iterations(frame: Frame, stmt: ir.For, start: Value, end: Value) -> None:
    """The iterations start <= i < end of a loop, one after another."""
    if stmt.pragmas.get("nontemporal") and not frame.streamed:
        stream_stores(frame, stmt, lambda: _run_vectors(frame, stmt, start, end))
    else:
        _run_vectors(frame, stmt, start, end)


def _run_vectors(frame: Frame, stmt: ir.For, start: Value, end: Value) -> None:
    if stmt.pragmas.get("aligned") and frame.streamed:
        with whole_vectors(frame):
            _run_iterations(frame, stmt, start, end)
    else:
        _run_iterations(frame, stmt, start, end)


def _run_iterations(frame: Frame, stmt: ir.For, start: Value, end: Value) -> None:
    interval = frame.kernel.polling.interval(stmt, outermost=frame.depth == 0)
    if interval is None or interval == 1:
        _iterate(frame, stmt, start, end, poll=interval is not None)
    else:
        _iterate_in_chunks(frame, stmt, start, end, interval)


def emit_poll(frame: Frame) -> None:
    """Stop when the user pressed Ctrl-C."""
    flag = frame.kernel.module.runtime("lpx_interrupted")
    value = frame.b.emit(I32, f"load atomic i32, ptr {flag} monotonic, align 4")
    frame.fail_when(frame.b.compare("icmp ne", value, types.zero(I32)), int32(INTERRUPTED))


def _iterate(frame: Frame, stmt: ir.For, start: Value, end: Value, *, poll: bool) -> None:
    trips = _constant_trips(start, end)
    if trips is not None and trips <= 1:
        if trips == 1:
            _iteration(frame, stmt, start, poll=poll)
        return
    with frame.b.count(start, end, _advice(frame, stmt)) as index:
        frame.depth += 1
        _iteration(frame, stmt, index, poll=poll)
        frame.depth -= 1


def _advice(frame: Frame, stmt: ir.For) -> str:
    """Metadata of a loop. LLVM must not unroll one that keeps sums in tiles: it would move several iterations' tiles
    into each other, and there are but eight, which can be copied through memory only.
    """
    is_innermost = not any(isinstance(s, ir.For | ir.While) for s in traverse.walk(stmt.body))
    if not is_innermost or not keeps_tiles(stmt.body):
        return ""
    module = frame.kernel.module
    rolled = module.metadata('!"llvm.loop.unroll.disable"')
    return f", !llvm.loop {module.distinct(rolled)}"


def _iteration(frame: Frame, stmt: ir.For, index: Value, *, poll: bool) -> None:
    if poll:
        emit_poll(frame)
    frame.emitter.variables[stmt.var] = index
    frame.emit(frame, stmt.body)


def _iterate_in_chunks(frame: Frame, stmt: ir.For, start: Value, end: Value, size: int) -> None:
    """Iterations in chunks of `size`, with a poll before each, so that the loop itself stays free of polls."""
    b, kind = frame.b, start.type
    whole = b.with_int("add", b.binary("sub", end, start), size - 1)
    with b.count(types.zero(kind), b.with_int("sdiv", whole, size)) as chunk:
        emit_poll(frame)
        low = b.binary("add nsw", start, b.with_int("mul nsw", chunk, size))
        high = b.intrinsic("smin", kind, (b.with_int("add nsw", low, size), end))
        _iterate(frame, stmt, low, high, poll=False)


def _constant_trips(start: Value, end: Value) -> int | None:
    first, last = constant_of(start), constant_of(end)
    return None if first is None or last is None else last - first


def _sum(frame: Frame, start: Value, extent: Value) -> Value:
    first, trips = constant_of(start), constant_of(extent)
    if first == 0:
        return extent
    if first is not None and trips is not None:
        return integer(start.type, first + trips)
    return frame.b.binary("add nsw", start, extent)
