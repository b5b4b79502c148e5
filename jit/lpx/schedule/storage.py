"""Storage primitives: staging copies of a buffer, and where and how a buffer is kept."""

from __future__ import annotations

from typing import get_args

from lpx.expr import build
from lpx.expr.buffer import Buffer, Scope
from lpx.ir import traverse
from lpx.ir.nodes import Block, Function
from lpx.records import replace
from lpx.schedule import blocks, queries, rewriting
from lpx.schedule.errors import AccessError, BlockFormError, OptionError, OutputError
from lpx.schedule.handles import BlockHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.staging import (
    BufferLike,
    allocate,
    buffer_name,
    innermost_loop,
    reads_or_writes,
    redirect_loads,
    resolve_buffer,
    widest_without,
)
from lpx.schedule.staging_boxes import box_read, box_written, check_without_gaps, copy_nest, reading_place


@primitive
def cache_read(edit: Edit, block: BlockLike, buffer: BufferLike, scope: Scope = "global") -> BlockHandle:
    """Copy a buffer into a new one that `block` reads instead; returns the copying block, for `compute_at`.

    The copy is made before the outermost loop around `block` in which nothing writes the buffer. Where that is inside
    other loops, it holds the box of elements that one iteration reads.

    requires: `block` reads the buffer by plain loads and does not write it; its layout leaves no gaps, which a copy
        would read though nothing was written there.
    rewrite:
        for i: block C { C[i] = A[i] + 1 }
        ->
        for a: block A_local { A_local[a] = A[a] }
        for i: block C { C[i] = A_local[i] + 1 }
    """
    reader = edit.block(block)
    edit.canonical["buffer"] = buffer_name(buffer)
    source = resolve_buffer(edit, buffer, traverse.read_buffers(reader))
    return BlockHandle(stage_reads(edit, reader, source, scope).name)


@primitive
def cache_write(edit: Edit, block: BlockLike, scope: Scope = "local") -> BlockHandle:
    """Let `block` work on a new buffer, copied to the old one afterwards; returns the copying block, for
    `reverse_compute_at`.

    requires: `block` writes one buffer, by plain stores, reads of it only what it wrote itself, and is the only block
        that writes it; the elements it writes form a box.
    rewrite:
        for i, r: block C { C[i] = C[i] + A[i, r] }
        ->
        for i, r: block C { C_local[i] = C_local[i] + A[i, r] }
        for a: block C_write { C[a] = C_local[a] }
    """
    writer = edit.block(block)
    check_scope(scope)
    target = check_single_output(edit.function, writer)
    check_starts_fresh(writer, target)
    name = rewriting.unique_name(f"{target.name}_write", rewriting.block_names(edit.function))
    copy = Buffer(f"{target.name}_{scope}", target.dtype, target.shape, scope=scope)
    path = queries.path_to(edit.function, widest_without(edit.function, writer, reads_or_writes(target)))
    nest = copy_nest(name, copy, target, box_written(edit.function, path, writer, target))
    anchor = path[-1]
    moved = rewriting.map_blocks(
        anchor, lambda b: traverse.replace_buffers(b, {target: copy}) if b.name == writer.name else None
    )
    changed = rewriting.replace_statement(edit.function, anchor, traverse.sequence([moved, nest]))
    edit.function = allocate(changed, copy, innermost_loop(path))
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
    if buffer.strides is not None or buffer.layout is not None:
        raise OptionError(f"{buffer.name} has strides already", hint="align a buffer once")
    if not 0 <= axis < buffer.rank - 1:
        raise OptionError(f"{buffer.name} cannot be aligned on axis {axis}", hint="its last axis must stay dense")
    if factor < 1:
        raise OptionError(f"{factor} is no alignment", hint="give a factor of 1 or more")
    extents = [queries.constant_value(e) for e in buffer.shape]
    strides = [1] * buffer.rank
    for k in reversed(range(buffer.rank - 1)):
        extent = extents[k + 1]
        if extent is None:
            raise OptionError(f"{buffer.name} has a symbolic extent", hint="align buffers of constant shape")
        strides[k] = strides[k + 1] * extent
        if k == axis:
            strides[k] += (offset - strides[k]) % factor
    _replace_buffer(edit, buffer, replace(buffer, strides=tuple(build.const(s) for s in strides)))


def stage_reads(edit: Edit, reader: Block, source: Buffer, scope: Scope) -> Block:
    """`cache_read` on resolved arguments; the copying block."""
    check_scope(scope)
    check_plain_reads(reader, source)
    check_without_gaps(edit.function, source)
    name = rewriting.unique_name(f"{source.name}_{scope}", rewriting.block_names(edit.function))
    copy = Buffer(name, source.dtype, source.shape, scope=scope)
    path = reading_place(edit.function, reader, source)
    nest = copy_nest(name, source, copy, box_read(edit.function, path, reader, source))
    anchor = path[-1]
    staged = rewriting.map_blocks(anchor, lambda b: redirect_loads(b, source, copy) if b.name == reader.name else None)
    changed = rewriting.replace_statement(edit.function, anchor, traverse.sequence([nest, staged]))
    edit.function = allocate(changed, copy, innermost_loop(path))
    return queries.live_blocks(edit.function)[name]


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
        raise BlockFormError(
            f"{block.name} writes {names}", mark=block, hint="the primitive takes blocks of one output"
        )
    return written[0]


def check_single_output(function: Function, block: Block) -> Buffer:
    """The one buffer that `block`, and nothing else, writes by index."""
    buffer = check_one_buffer(block)
    blocks.check_only_writer(function, block)
    blocks.check_plain_access(function, buffer)
    return buffer


def check_starts_fresh(block: Block, buffer: Buffer) -> None:
    """Refuse a block whose result depends on what was in `buffer` before."""
    start = block.body if block.init is None else block.init
    if buffer in traverse.read_buffers(start):
        raise BlockFormError(
            f"{block.name} reads what {buffer.name} held before",
            mark=block,
            hint="the primitive takes blocks that write every element before they read it",
        )


def check_intermediate(edit: Edit, buffer: Buffer) -> None:
    """Refuse a buffer whose layout the caller decides."""
    if buffer in queries.param_buffers(edit.function) or buffer in edit.function.constants:
        raise OutputError(
            f"{buffer.name} is the caller's", hint="make a copy to work on with cache_read or cache_write"
        )


def _replace_buffer(edit: Edit, old: Buffer, new: Buffer) -> None:
    edit.function = replace(edit.function, body=traverse.replace_buffers(edit.function.body, {old: new}))
