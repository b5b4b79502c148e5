"""Storage primitives: staging copies of a buffer, and where and how a buffer is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from lpx.expr import build
from lpx.expr.buffer import Buffer, Scope
from lpx.expr.nodes import Axis, Expr, Var
from lpx.ir import traverse
from lpx.ir.nodes import Block, Stmt, Store
from lpx.schedule import queries, rewriting
from lpx.schedule.errors import AccessError, BlockFormError, OptionError, OutputError
from lpx.schedule.handles import BlockHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.staging import (
    BufferLike,
    allocate,
    buffer_name,
    nest_over,
    reads_or_writes,
    redirect_loads,
    resolve_buffer,
    widest_without,
)


@primitive
def cache_read(edit: Edit, block: BlockLike, buffer: BufferLike, scope: Scope = "global") -> BlockHandle:
    """Copy a buffer into a new one that `block` reads instead; returns the copying block, for `compute_at`.

    requires: `block` reads the buffer by plain loads and does not write it.

    rewrite:
        for i: block C { C[i] = A[i] + 1 }
        ->
        for a: block A_local { A_local[a] = A[a] }
        for i: block C { C[i] = A_local[i] + 1 }
    """
    reader = edit.block(block)
    edit.canonical["buffer"] = buffer_name(buffer)
    check_scope(scope)
    source = resolve_buffer(edit, buffer, traverse.read_buffers(reader))
    check_plain_reads(reader, source)
    name = rewriting.unique_name(f"{source.name}_{scope}", rewriting.block_names(edit.function))
    copy = Buffer(name, source.dtype, source.shape, scope=scope)
    writes = {b.name for b in queries.writers(edit.function, source)}
    anchor = widest_without(edit.function, reader, lambda s: isinstance(s, Block) and s.name in writes)
    changed = rewriting.replace_statement(
        edit.function, anchor, traverse.sequence([copy_nest(name, source, copy), _reading(anchor, reader, source, copy)])
    )
    edit.function = allocate(changed, copy)
    return BlockHandle(name)


@primitive
def cache_write(edit: Edit, block: BlockLike, scope: Scope = "local") -> BlockHandle:
    """Let `block` work on a new buffer, copied to the old one afterwards; returns the copying block, for
    `reverse_compute_at`.

    requires: `block` writes one buffer, by plain stores, and is the only block that writes it.

    rewrite:
        for i, r: block C { C[i] = C[i] + A[i, r] }
        ->
        for i, r: block C { C_local[i] = C_local[i] + A[i, r] }
        for a: block C_write { C[a] = C_local[a] }
    """
    writer = edit.block(block)
    check_scope(scope)
    target = check_single_output(edit, writer)
    name = rewriting.unique_name(f"{target.name}_write", rewriting.block_names(edit.function))
    copy = Buffer(f"{target.name}_{scope}", target.dtype, target.shape, scope=scope)
    anchor = widest_without(edit.function, writer, reads_or_writes(target))
    moved = traverse.transform(
        anchor, lambda s: traverse.replace_buffers(s, {target: copy}) if _is(s, writer.name) else None
    )
    changed = rewriting.replace_statement(
        edit.function, anchor, traverse.sequence([moved, copy_nest(name, copy, target)])
    )
    edit.function = allocate(changed, copy)
    return BlockHandle(name)


@primitive
def set_scope(edit: Edit, block: BlockLike, scope: Scope) -> None:
    """Keep what `block` computes in another kind of memory.

    requires: the buffer is an intermediate of the program, not the caller's.

    rewrite: Alloc T global -> Alloc T local
    """
    buffer = check_one_buffer(edit.block(block))
    check_scope(scope)
    check_intermediate(edit, buffer)
    _replace_buffer(edit, buffer, replace(buffer, scope=scope))


@primitive
def storage_align(edit: Edit, block: BlockLike, axis: int, factor: int, offset: int = 0) -> None:
    """Pad rows so that the stride of `axis` is `offset` modulo `factor` elements, against bank and cache conflicts.

    requires: the buffer is an intermediate of constant shape without strides of its own.

    rewrite: T[64, 32] with strides (32, 1) -> strides (33, 1) for axis 0, factor 32, offset 1
    """
    buffer = check_one_buffer(edit.block(block))
    check_intermediate(edit, buffer)
    extents = [queries.constant_value(e) for e in buffer.shape]
    if buffer.strides is not None or not 0 <= axis < buffer.rank - 1 or factor < 1:
        raise OptionError(
            f"{buffer.name} cannot be aligned on axis {axis}",
            hint=f"give one of the axes 0..{buffer.rank - 2} and a factor of 1 or more, once",
        )
    strides = [1] * buffer.rank
    for k in reversed(range(buffer.rank - 1)):
        extent = extents[k + 1]
        if extent is None:
            raise OptionError(f"{buffer.name} has a symbolic extent", hint="align buffers of constant shape")
        strides[k] = strides[k + 1] * extent
        if k == axis:
            strides[k] += (offset - strides[k]) % factor
    _replace_buffer(edit, buffer, replace(buffer, strides=tuple(build.const(s) for s in strides)))


def check_scope(scope: str) -> None:
    """Refuse a scope that does not exist."""
    if scope not in get_args(Scope):
        raise OptionError(f"{scope!r} is not a scope", hint=f"use one of {', '.join(get_args(Scope))}")


def check_plain_reads(block: Block, buffer: Buffer) -> None:
    """Refuse a block that writes the buffer it would read from a copy, or takes addresses in it."""
    if buffer in traverse.written_buffers(block):
        raise AccessError(f"{block.name} writes {buffer.name} itself", mark=block, hint="use cache_write")
    if queries.has_address(block, buffer):
        raise AccessError(f"{block.name} takes an address in {buffer.name}", mark=block)


def check_one_buffer(block: Block) -> Buffer:
    """The one buffer that `block` writes."""
    written = sorted(traverse.written_buffers(block), key=lambda b: b.name)
    if len(written) != 1:
        names = ", ".join(b.name for b in written) or "nothing"
        raise BlockFormError(f"{block.name} writes {names}", mark=block, hint="the primitive takes blocks of one output")
    return written[0]


def check_single_output(edit: Edit, block: Block) -> Buffer:
    """The one buffer that `block`, and nothing else, writes."""
    written = check_one_buffer(block)
    others = [b for b in queries.writers(edit.function, written) if b is not block]
    if others or queries.has_address(block, written):
        names = ", ".join(b.name for b in others) or "an address"
        raise AccessError(f"{written.name} is written by {names} as well", mark=block)
    return written


def check_intermediate(edit: Edit, buffer: Buffer) -> None:
    """Refuse a buffer whose layout the caller decides."""
    if buffer in queries.param_buffers(edit.function) or buffer in edit.function.constants:
        raise OutputError(
            f"{buffer.name} is the caller's", hint="make a copy to work on with cache_read or cache_write"
        )


def copy_nest(name: str, source: Buffer, target: Buffer) -> Stmt:
    """Loops around the block `name` that copies all of `source`."""

    def block(loops: tuple[Var, ...]) -> Stmt:
        axes = tuple(Axis(build.var(f"v{v.name}"), e) for v, e in zip(loops, source.shape, strict=True))
        index: tuple[Expr, ...] = tuple(a.var for a in axes)
        return Block(name, axes, loops, None, None, Store(target, index, build.load(source, index)))

    return nest_over(source.shape, _axis_names(source.shape), block)


def _axis_names(shape: Sequence[Expr]) -> list[str]:
    return [f"a{k}" for k in range(len(shape))]


def _is(stmt: Stmt, name: str) -> bool:
    return isinstance(stmt, Block) and stmt.name == name


def _reading(anchor: Stmt, reader: Block, old: Buffer, new: Buffer) -> Stmt:
    return traverse.transform(anchor, lambda s: redirect_loads(s, old, new) if _is(s, reader.name) else None)


def _replace_buffer(edit: Edit, old: Buffer, new: Buffer) -> None:
    edit.function = replace(edit.function, body=traverse.replace_buffers(edit.function.body, {old: new}))
