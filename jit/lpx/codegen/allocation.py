"""Where `Alloc`ated buffers live: registers, the stack, or scratch memory of the run time."""

from __future__ import annotations

from lpx.codegen import types
from lpx.codegen.checks import OUT_OF_MEMORY
from lpx.codegen.frame import Frame
from lpx.codegen.storage import Memory, register_slots, static_bytes
from lpx.codegen.types import PTR, Value, int32, int64, memory_element_of
from lpx.errors import CompileError
from lpx.expr.buffer import Buffer
from lpx.ir import nodes as ir

_LARGEST_ON_STACK = 16 << 10
_STACK_OF_FUNCTION = 64 << 10
_SCRATCH_ALIGNMENT = 64


def emit_alloc(frame: Frame, stmt: ir.Alloc) -> None:
    """The buffer, then what uses it. Inside a parallel body this runs on each thread, so each has its own."""
    buffer = stmt.buffer
    if buffer.scope == "shared":
        raise CompileError(f"{buffer.name} is in shared memory, which a CPU does not have", span=stmt.span)
    if buffer.scope == "register":
        _in_registers(frame, stmt)
        return
    size = static_bytes(buffer)
    if size is not None and size <= _LARGEST_ON_STACK and frame.stack_bytes + size <= _STACK_OF_FUNCTION:
        _on_stack(frame, stmt, size)
    else:
        _in_scratch(frame, stmt)


def _in_registers(frame: Frame, stmt: ir.Alloc) -> None:
    places = frame.kernel.registers.get(stmt.buffer, ())
    size = static_bytes(stmt.buffer)
    if places is not None:
        frame.emitter.storage[stmt.buffer] = register_slots(frame.b, stmt.buffer, places)
        frame.emit(frame, stmt.body)
    elif size is not None:
        _on_stack(frame, stmt, size)
    else:
        raise CompileError(
            f"the register buffer {stmt.buffer.name} has a symbolic shape",
            hint="tile it with constant factors, or leave it in local memory",
            span=stmt.span,
        )


def _on_stack(frame: Frame, stmt: ir.Alloc, size: int) -> None:
    buffer = stmt.buffer
    frame.stack_bytes += size
    alignment = max(_power_of_two(buffer.alignment), buffer.dtype.itemsize)
    count = max(1, size // buffer.dtype.itemsize)
    _use(frame, stmt, frame.b.stack(memory_element_of(buffer.dtype), alignment, count), alignment)


def _in_scratch(frame: Frame, stmt: ir.Alloc) -> None:
    b, module = frame.b, frame.kernel.module
    pointer = b.emit(PTR, f"call ptr {module.runtime('lpx_scratch_acquire')}({_bytes(frame, stmt.buffer)})")
    frame.fail_when(b.compare("icmp eq", pointer, types.zero(PTR)), int32(OUT_OF_MEMORY))
    with frame.cleanup(lambda: b.effect(f"call void {module.runtime('lpx_scratch_release')}({pointer})")):
        _use(frame, stmt, pointer, min(_power_of_two(stmt.buffer.alignment), _SCRATCH_ALIGNMENT))


def _use(frame: Frame, stmt: ir.Alloc, pointer: Value, alignment: int) -> None:
    frame.emitter.storage[stmt.buffer] = Memory(pointer, alignment, frame.kernel.scopes.get(stmt.buffer, ""))
    frame.emit(frame, stmt.body)


def _bytes(frame: Frame, buffer: Buffer) -> Value:
    total = int64(buffer.dtype.itemsize)
    for extent in buffer.shape:
        total = frame.b.binary("mul", total, frame.b.resize(frame.scalar(extent), "i64", signed=True))
    return total


def _power_of_two(alignment: int) -> int:
    """The largest power of two that divides `alignment`."""
    return alignment & -alignment
