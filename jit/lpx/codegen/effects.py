"""Statements that change memory or stop the kernel."""

from __future__ import annotations

from lpx.codegen import vectors
from lpx.codegen.atomics import atomic_update
from lpx.codegen.emitter import address_operands
from lpx.codegen.frame import Frame
from lpx.codegen.types import I32, Value, int32, int64, type_of
from lpx.errors import CompileError, InternalError
from lpx.ir import nodes as ir

_COPY_BYTES = 64


def emit_store(frame: Frame, stmt: ir.Store) -> None:
    """The value first, then the address; within a non-temporal loop past the caches."""
    (index,) = stmt.indices
    emitter = frame.emitter
    value = emitter.value(stmt.value)
    mask = None if stmt.mask is None else emitter.value(stmt.mask)
    for operand in address_operands(index):
        emitter.value(operand)
    metadata = f", !nontemporal {frame.kernel.module.metadata('i32 1')}" if stmt.buffer in frame.streamed else ""
    emitter.store(stmt.buffer, index, value, mask, metadata)
    emitter.finish()


def emit_update(frame: Frame, stmt: ir.AtomicUpdate) -> None:
    """Each lane of a vector is an atomic step of its own."""
    (index,) = stmt.indices
    emitter = frame.emitter
    value, pointers = emitter.value(stmt.value), emitter.pointer(stmt.buffer, index)
    atomic_update(frame.b, stmt.op, stmt.buffer.dtype, pointers, value)
    emitter.finish()


def emit_evaluate(frame: Frame, stmt: ir.Evaluate) -> None:
    """An operation whose value nobody wants."""
    frame.scalar(stmt.value)


def emit_check(frame: Frame, stmt: ir.Check) -> None:
    """Stop with the check's status unless the condition holds in every lane."""
    holds = vectors.all_lanes(frame.b, frame.scalar(stmt.cond))
    status = frame.kernel.checks.number(stmt.message, stmt.span)
    frame.fail_when(frame.b.with_int("xor", holds, 1), int32(status))


def emit_copy(frame: Frame, stmt: ir.AsyncCopy) -> None:
    """A CPU copies at once; commits and waits have nothing to do."""
    (to,), (source,) = stmt.target_indices, stmt.source_indices
    size = stmt.target.dtype.itemsize
    pointers = frame.emitter.pointer(stmt.target, to), frame.emitter.pointer(stmt.source, source)
    frame.emitter.finish()
    _copy_bytes(frame, *pointers, stmt.count * size, size)


def emit_nothing(frame: Frame, stmt: ir.Stmt) -> None:
    """Nothing to do on a CPU."""


def emit_barrier(frame: Frame, stmt: ir.Barrier) -> None:
    """Wait for the other threads of the region; a failure of one of them stops this one too."""
    if stmt.scope != "region":
        raise CompileError(f"a {stmt.scope} barrier cannot run on a CPU", span=stmt.span)
    if frame.mode == "alone":
        return
    if frame.thread is None:
        raise CompileError("a region barrier stands outside of a parallel region", span=stmt.span)
    callee = frame.kernel.module.runtime("lpx_barrier")
    frame.fail_with(frame.b.emit(I32, f"call i32 {callee}({frame.thread.region})"))


def emit_call(frame: Frame, stmt: ir.CallFunction) -> None:
    """Another kernel of the module, by the convention of kernels."""
    kernel = frame.kernel
    if stmt.function not in kernel.bound:
        raise InternalError(f"{kernel.function.name} calls {stmt.function}, which is not in the module")
    buffers = (*stmt.buffers, *kernel.bound[stmt.function])
    values = [frame.emitter.memory_of(buffer).pointer for buffer in buffers]
    values += [frame.b.resize(frame.scalar(extent), "i64", signed=True) for extent in stmt.extents]
    callee = kernel.module.callee(stmt.function)
    frame.fail_with(frame.b.emit(I32, f"call i32 {callee}({frame.fill_slots(values)})"))


def _copy_bytes(frame: Frame, target: Value, source: Value, count: int, align: int) -> None:
    whole = count // _COPY_BYTES
    if whole:
        with frame.b.count(int64(0), int64(whole)) as chunk:
            offset = frame.b.with_int("mul nuw nsw", chunk, _COPY_BYTES)
            _move(frame, target, source, offset, _COPY_BYTES, align)
    done = whole * _COPY_BYTES
    while done < count:
        size = 1 << ((count - done).bit_length() - 1)
        _move(frame, target, source, int64(done), size, align)
        done += size


def _move(frame: Frame, target: Value, source: Value, offset: Value, size: int, align: int) -> None:
    moved = frame.b.load(type_of("i8", size), frame.b.element("i8", source, offset), align)
    frame.b.store(moved, frame.b.element("i8", target, offset), align)
