"""Parallel regions: bodies become functions of their own, which the thread pool calls.

    i32 body(ptr closure, i64 t, i64 nt, ptr region)

`closure` is an array of 64-bit slots with what the body uses from outside. Loops are shared in equal contiguous parts:
7 iterations on 2 threads are 4 and 3.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from lpx.codegen.frame import Frame, Thread
from lpx.codegen.integers import constant_of
from lpx.codegen.loops import emit_serial, run_iterations
from lpx.codegen.module import quoted
from lpx.codegen.streaming import drain_stores
from lpx.codegen.types import I32, I64, PTR, Value, int64
from lpx.errors import InternalError
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Const, Load, Var
from lpx.expr.traverse import walk
from lpx.ir import nodes as ir
from lpx.ir import traverse
from lpx.records import replace

_ANY_NUMBER = 1 << 30  # of threads: the pool caps it


def emit_region(frame: Frame, stmt: ir.ParallelRegion) -> None:
    """A region on all threads; one inside another runs on the thread that meets it."""
    if frame.mode == "outside":
        _fork(frame, stmt.body, int64(_widest_loop(stmt.body)), "lpx_parallel")
        return
    with _alone(frame):
        frame.emit(frame, stmt.body)


def emit_parallel(frame: Frame, stmt: ir.For) -> None:
    """A parallel loop: shared among the threads of its region, or a region of its own; serial inside another."""
    if frame.mode == "alone":
        emit_serial(frame, stmt)
    elif frame.mode == "sharing":
        low, high = _share(frame, stmt)
        with _alone(frame):
            run_iterations(frame, stmt, low, high)
    elif isinstance(stmt.extent, Const) and stmt.extent.value <= 1:
        with _alone(frame):
            emit_serial(frame, stmt)
    else:
        _fork(frame, stmt, frame.b.resize(frame.scalar(stmt.extent), "i64", signed=True), "lpx_share")


@contextmanager
def _alone(frame: Frame) -> Generator[None]:
    """What is emitted within shares nothing more."""
    mode, frame.mode = frame.mode, "alone"
    yield
    frame.mode = mode


def _share(frame: Frame, loop: ir.For) -> tuple[Value, Value]:
    """The first of this thread's iterations of a loop, and the one after its last."""
    b, thread = frame.b, frame.thread
    if thread is None:
        raise InternalError("a shared loop outside of a parallel region")
    start, extent = frame.scalar(loop.start), b.resize(frame.scalar(loop.extent), "i64", signed=True)
    trips = b.intrinsic("smax", I64, (extent, int64(0)))
    each = b.binary("udiv", trips, thread.count)
    rest = b.binary("sub", trips, b.binary("mul", each, thread.count))
    before = b.intrinsic("umin", I64, (thread.number, rest))
    low = b.binary("add nsw", b.binary("mul nsw", thread.number, each), before)
    extra = b.convert("zext", b.compare("icmp ult", thread.number, rest), "i64")
    high = b.binary("add nsw", b.binary("add nsw", low, each), extra)
    first, end = (b.resize(bound, start.type.element, signed=True) for bound in (low, high))
    if constant_of(start) == 0:
        return first, end
    return b.binary("add nsw", start, first), b.binary("add nsw", start, end)


def _fork(frame: Frame, body: ir.Stmt, most: Value, by: str) -> None:
    """Run `body` in at most `most` shares, by a function of the thread pool."""
    kernel, b = frame.kernel, frame.b
    variables, buffers = _captured(body)
    outer = [frame.emitter.memory_of(buffer) for buffer in buffers]
    values = [m.pointer for m in outer] + [frame.emitter.variables[v] for v in variables]
    closure = frame.fill_slots(values)
    thread = Thread(Value(I64, "%t"), Value(I64, "%nt"), Value(PTR, "%region"))
    inner = Frame(kernel, frame.emit, thread)
    inner.streamed = frame.streamed
    slots = [_closure_slot(inner, number, value) for number, value in enumerate(values)]
    for buffer, storage, pointer in zip(buffers, outer, slots, strict=False):
        inner.emitter.storage[buffer] = replace(storage, pointer=pointer)
    inner.emitter.variables.update(zip(variables, slots[len(buffers) :], strict=True))
    name = kernel.body_name()
    signature = f"internal i32 @{quoted(name)}(ptr noalias readonly %closure, i64 %t, i64 %nt, ptr %region)"
    inner.emit(inner, body)
    if inner.streamed:
        drain_stores(inner)
    kernel.module.define(name, signature, inner.finish())
    callee = kernel.module.runtime(by)
    operands = f"ptr @{quoted(name)}, {closure}, {most}"
    frame.fail_with(b.emit(I32, f"call i32 {callee}({operands})"))


def _closure_slot(frame: Frame, number: int, value: Value) -> Value:
    place = frame.b.element("i64", Value(PTR, "%closure"), int64(number))
    return frame.b.load(value.type, place, 8, frame.kernel.module.invariant())


def _captured(body: ir.Stmt) -> tuple[list[Var], list[Buffer]]:
    """Variables and buffers that `body` uses and does not bring itself, in order of first use."""
    variables: dict[Var, None] = {}
    buffers: dict[Buffer, None] = {}
    own: set[Var | Buffer] = set()
    for stmt in traverse.walk(body):
        match stmt:
            case ir.For(var=var) | ir.Let(var=var):
                own.add(var)
            case ir.Alloc(buffer=buffer):
                own.add(buffer)
            case ir.Store(buffer=buffer) | ir.AtomicUpdate(buffer=buffer):
                buffers[buffer] = None
            case ir.AsyncCopy(target=target, source=source):
                buffers.update(dict.fromkeys((target, source)))
            case ir.CallFunction(buffers=given):
                buffers.update(dict.fromkeys(given))
            case _:
                pass
    for expr in _expressions(body):
        if isinstance(expr, Var):
            variables[expr] = None
        elif isinstance(expr, Load | AddressOf):
            buffers[expr.buffer] = None
    return [v for v in variables if v not in own], [b for b in buffers if b not in own]


def _expressions(body: ir.Stmt) -> Generator[Var | Load | AddressOf | object]:
    for stmt in traverse.walk(body):
        for expr in traverse.expressions(stmt):
            yield from walk(expr)
        if isinstance(stmt, ir.Alloc):
            for extent in stmt.buffer.shape:
                yield from walk(extent)


def _widest_loop(body: ir.Stmt) -> int:
    """As many threads as the region can use."""
    extents = [s.extent for s in traverse.walk(body) if isinstance(s, ir.For) and s.kind == "parallel"]
    known = [int(e.value) for e in extents if isinstance(e, Const)]
    return max(known) if known and len(known) == len(extents) else _ANY_NUMBER
