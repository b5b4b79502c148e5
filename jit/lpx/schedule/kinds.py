"""Kinds of loops: vectorize, unroll, parallel, bind, pragma.

A loop may run its iterations at once (as lanes, on threads) only where no iteration touches what another writes. That
is decided from the accesses themselves (`lpx.schedule.dependence`), not from what blocks say of their axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import For, ForKind, Function, Stmt, ThreadAxis
from lpx.records import replace
from lpx.schedule import queries, rewriting
from lpx.schedule.dependence import Conflict, axis_kinds, conflicts_within
from lpx.schedule.errors import DependenceError, ExtentError, LoopKindError, NestingError, OptionError
from lpx.schedule.handles import LoopHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.session import Edit

_THREAD_AXES: tuple[str, ...] = get_args(ThreadAxis)


@primitive
def vectorize(edit: Edit, loop: LoopHandle) -> None:
    """Run the iterations of a loop as the lanes of vectors.

    requires: a serial loop of constant extent, with no other vectorized, parallel or bound loop inside and none
        vectorized around; no iteration touches what another writes; bounds of loops inside do not depend on it.
    rewrite: for i in 0..8 { S } -> for i in 0..8 vectorize { S }
    """
    node = edit.loop(loop)
    check_kind_free(node)
    check_constant_extent(node)
    check_vectorizable(edit.function, node)
    check_independent(edit.function, node, "lanes")
    edit.function = _with_kind(edit.function, node, "vectorized")


@primitive
def unroll(edit: Edit, loop: LoopHandle) -> None:
    """Copy out the iterations of a loop, in order.

    requires: a serial loop of constant extent.
    rewrite: for i in 0..4 { S } -> for i in 0..4 unroll { S }
    """
    node = edit.loop(loop)
    check_kind_free(node)
    check_constant_extent(node)
    edit.function = _with_kind(edit.function, node, "unrolled")


@primitive
def parallel(edit: Edit, loop: LoopHandle) -> None:
    """Share the iterations of a loop among threads.

    requires: a serial loop, not inside a vectorized one; no iteration touches what another writes.
    rewrite: for i in 0..n { S } -> for i in 0..n parallel { S }
    """
    node = edit.loop(loop)
    check_kind_free(node)
    check_not_within(edit.function, node, ("vectorized",))
    check_independent(edit.function, node, "threads")
    edit.function = _with_kind(edit.function, node, "parallel")


@primitive
def bind(edit: Edit, loop: LoopHandle, thread: ThreadAxis) -> None:
    """Run the iterations of a loop on a hardware axis: "blockIdx.x", "threadIdx.y", "vthread", "warp", ...

    requires: a serial loop, not inside a vectorized one nor one bound to the same axis; no iteration touches what
        another writes.
    rewrite: for i in 0..n { S } -> for i in 0..n bind(threadIdx.x) { S }
    """
    node = edit.loop(loop)
    check_kind_free(node)
    if thread not in _THREAD_AXES:
        raise OptionError(f"thread axis {thread!r} is unknown", hint=f"use one of {', '.join(_THREAD_AXES)}")
    check_not_within(edit.function, node, ("vectorized",))
    check_axis_unused(edit.function, node, thread)
    check_independent(edit.function, node, "threads")
    bound = replace(node, kind="bound", thread=thread)
    edit.function = rewriting.replace_statement(edit.function, node, bound)


@primitive
def pragma(edit: Edit, loop: LoopHandle, key: str, value: bool | int | float | str = True) -> None:
    """Leave a note on a loop for a pass to read; it never changes a result.

    requires: nothing.
    rewrite: for i { S } -> for i pragma(key=value) { S }
    """
    node = edit.loop(loop)
    noted = replace(node, pragmas={**node.pragmas, key: value})
    edit.function = rewriting.replace_statement(edit.function, node, noted)


def _with_kind(function: Function, loop: For, kind: ForKind) -> Function:
    return rewriting.replace_statement(function, loop, replace(loop, kind=kind))


def recheck(function: Function, loops: Sequence[Var]) -> None:
    """Refuses when a loop among `loops` that runs its iterations at once may no longer do so where it stands now."""
    live = queries.live_loops(function)
    for var in loops:
        node = live[var]
        if node.kind == "vectorized":
            check_vectorizable(function, node)
        if node.kind in ("vectorized", "parallel", "bound"):
            check_independent(function, node, "lanes" if node.kind == "vectorized" else "threads")


def check_kind_free(loop: For) -> None:
    """Refuses a loop that already has a kind other than serial."""
    if loop.kind != "serial":
        raise LoopKindError(
            f"loop {loop.var.name} is already {loop.kind}",
            hint="a loop has one kind: split it and give its parts one each",
            mark=loop,
        )


def check_constant_extent(loop: For) -> None:
    """Refuses a loop whose extent is not a constant."""
    if queries.constant_value(loop.extent) is None:
        raise ExtentError(
            f"loop {loop.var.name} has a symbolic extent", hint="split it by a constant factor first", mark=loop
        )


def check_vectorizable(function: Function, loop: For) -> None:
    """Refuses a loop whose body cannot stand in lanes."""
    check_not_within(function, loop, ("vectorized",))
    for stmt in traverse.walk(loop.body):
        if isinstance(stmt, For) and stmt.kind in ("vectorized", "parallel", "bound"):
            raise LoopKindError(
                f"loop {stmt.var.name} inside loop {loop.var.name} is {stmt.kind}",
                hint="vectorize the innermost of them only",
                mark=stmt,
            )
        if _control_depends(stmt, loop.var):
            raise NestingError(
                f"lanes of loop {loop.var.name} would run different iterations of the statement below",
                hint="move the loop inside it",
                mark=stmt,
            )


def _control_depends(stmt: Stmt, var: Var) -> bool:
    if not isinstance(stmt, For | nodes.While):
        return False
    return any(var in expr_traverse.free_vars(e) for e in traverse.expressions(stmt))


def check_not_within(function: Function, loop: For, kinds: Sequence[ForKind]) -> None:
    """Refuses a loop inside another of one of the kinds."""
    for outer in queries.loops_around(function, loop):
        if outer.kind in kinds:
            raise LoopKindError(
                f"loop {loop.var.name} is inside loop {outer.var.name}, which is {outer.kind}", mark=outer
            )


def check_axis_unused(function: Function, loop: For, thread: ThreadAxis) -> None:
    """Refuses a hardware axis that a loop around or inside is bound to already."""
    nested = (*queries.loops_around(function, loop), *queries.loops_within(loop.body))
    for other in nested:
        if other.thread == thread and thread != "vthread":
            raise LoopKindError(f"loop {other.var.name} is bound to {thread} already", mark=other)


def check_independent(function: Function, loop: For, at_once: str) -> None:
    """Refuses a loop of which one iteration touches what another writes."""
    for conflict in conflicts_within(function, loop):
        if loop.var not in conflict.pinned:
            raise DependenceError(
                f"iterations of loop {loop.var.name} cannot be {at_once}: {_reason(conflict, loop.var)}",
                hint=_remedy(conflict, loop.var),
                mark=conflict.second.path[-1],
            )


def _reason(conflict: Conflict, loop: Var) -> str:
    first, second = conflict.first.block, conflict.second.block
    if conflict.is_accumulation and first is not None and conflict.allows(loop):
        return f"it is a reduction loop of block {first.name}, which adds up in {conflict.buffer.name}"
    if first is not None and "sequential" in axis_kinds(first, conflict.first.path, loop):
        return f"it is a sequential loop of block {first.name}: each step reads what earlier ones wrote"
    names = sorted({b.name for b in (first, second) if b is not None})
    where = f" (block{'s' if len(names) > 1 else ''} {' and '.join(names)})" if names else ""
    return f"several touch the same element of {conflict.buffer.name}{where}"


def _remedy(conflict: Conflict, loop: Var) -> str:
    if conflict.is_accumulation and conflict.allows(loop):
        return "use a spatial loop, or rfactor the reduction first"
    return "use a loop whose iterations write different elements and read none of another's"
