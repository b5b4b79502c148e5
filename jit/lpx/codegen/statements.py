"""Which function emits which statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lpx.codegen.allocation import emit_alloc
from lpx.codegen.effects import (
    emit_barrier,
    emit_call,
    emit_check,
    emit_copy,
    emit_evaluate,
    emit_nothing,
    emit_store,
    emit_update,
)
from lpx.codegen.frame import Frame
from lpx.codegen.loops import emit_if, emit_let, emit_sequence, emit_serial, emit_while
from lpx.codegen.parallel import emit_parallel, emit_region
from lpx.errors import CompileError, InternalError
from lpx.ir import nodes as ir


def emit_statement(frame: Frame, stmt: ir.Stmt) -> None:
    """Emit any statement of the stage `flat`."""
    emit = _EMITTERS.get(type(stmt))
    if emit is None:
        raise InternalError(f"a {type(stmt).__name__} reached code generation")
    emit(frame, stmt)


def _emit_for(frame: Frame, stmt: ir.For) -> None:
    if stmt.kind == "serial":
        emit_serial(frame, stmt)
    elif stmt.kind == "parallel":
        emit_parallel(frame, stmt)
    elif stmt.kind == "bound":
        raise CompileError(f"loop {stmt.var.name} is bound to {stmt.thread}, which a CPU does not have", span=stmt.span)
    else:
        raise InternalError(f"the {stmt.kind} loop {stmt.var.name} reached code generation")


_EMITTERS: Mapping[type[ir.Stmt], Callable[[Frame, Any], None]] = {
    ir.Seq: emit_sequence,
    ir.For: _emit_for,
    ir.ParallelRegion: emit_region,
    ir.If: emit_if,
    ir.While: emit_while,
    ir.Let: emit_let,
    ir.Store: emit_store,
    ir.AtomicUpdate: emit_update,
    ir.Alloc: emit_alloc,
    ir.Barrier: emit_barrier,
    ir.AsyncCopy: emit_copy,
    ir.AsyncCommit: emit_nothing,
    ir.AsyncWait: emit_nothing,
    ir.Evaluate: emit_evaluate,
    ir.CallFunction: emit_call,
    ir.Check: emit_check,
}
