"""Boxes of a buffer: what a block reads or writes of it at one place, and the loops that copy that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from lpx.arith.analyzer import Analyzer
from lpx.arith.iteration import read_index_map
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, Expr, Var
from lpx.ir import traverse
from lpx.ir.nodes import AsyncCopy, Block, For, Function, Stmt, Store
from lpx.schedule import blocks, queries, regions
from lpx.schedule.errors import AccessError, CoverageError
from lpx.schedule.queries import Access, Path
from lpx.schedule.reduction import check_reduces_inside
from lpx.schedule.regions import AxisRange, Strip
from lpx.schedule.staging import check_open_place, innermost_loop, widest_without

Box: TypeAlias = "tuple[AxisRange | None, ...]"
"""Per dimension of a buffer the indices, None for all."""


def reading_place(function: Function, reader: Block, source: Buffer) -> Path:
    """The path to the outermost statement around `reader` in which nothing writes `source`."""
    anchor = widest_without(function, reader, lambda s: source in traverse.written_buffers(s))
    path = queries.path_to(function, anchor)
    check_open_place(path)
    return path


def box_read(function: Function, path: Path, reader: Block, source: Buffer) -> Box:
    """The indices of `source` that `reader` reads while the last statement of `path` runs once, per dimension.

    Outside all loops, all of the buffer: it is complete there.
    """
    if innermost_loop(path) is None:
        return (None,) * source.rank
    found = [
        a for a in queries.accesses(path[-1], path[:-1])
        if a.buffer is source and not a.is_write and any(s is reader for s in a.path)
    ]  # fmt: skip
    return _ranges(function, path, source, touched_strips(function, path, found, source.rank))


def box_written(function: Function, path: Path, writer: Block, target: Buffer) -> Box:
    """The indices of `target` that `writer` writes while the last statement of `path` runs once, per dimension.

    Raises: AccessError where they are not certainly a box of which every element is written.
    """
    check_open_place(path)
    check_reduces_inside(writer, queries.loops_of(path[:-1]))
    blocks.check_plain_domain(function, writer)
    check_every_step(function, writer, queries.loops_of(path[:-1]))
    inner = queries.loops_of(queries.path_to(function, writer)[len(path) - 1 :])
    indices = blocks.store_indices(writer, target)
    values = [expr_traverse.substitute(i, queries.axis_values(writer)) for i in indices]
    if innermost_loop(path) is None and _fills(function, values, inner, target):
        return (None,) * target.rank
    found = [a for a in queries.accesses(path[-1], path[:-1]) if a.buffer is target and a.is_write]
    strips = touched_strips(function, path, found, target.rank)
    used = [v for value in values for v in expr_traverse.free_vars(value) & {f.var for f in inner}]
    is_guarded = writer.predicate is not None and not _is_domain(writer, indices, target)
    if is_guarded or len(used) > len(set(used)) or any(s is None or not s.is_exact for s in strips):
        raise AccessError(
            f"the elements of {target.name} that {writer.name} writes are not seen to form a box",
            mark=writer,
            hint="do this before splitting, fusing or moving the block",
        )
    return _ranges(function, path, target, strips)


def _is_domain(block: Block, indices: Sequence[Expr], buffer: Buffer) -> bool:
    """Whether the indices are axes over all of the buffer: what keeps axes in range then keeps the box inside."""
    extents = {a.var: a.extent for a in block.axes}
    analyzer = Analyzer()
    return all(
        isinstance(i, Var) and i in extents and analyzer.equal(extents[i], e)
        for i, e in zip(indices, buffer.shape, strict=True)
    )


def check_every_step(function: Function, block: Block, around: Sequence[For]) -> None:
    """Refuse a block that some iterations of the loops `around` leave out, as in the tail of a loop over steps."""
    guarded: frozenset[Var] = frozenset() if block.predicate is None else expr_traverse.free_vars(block.predicate)
    analyzer = queries.analyzer_of(function, around)
    for axis, value in zip(block.axes, block.bindings, strict=True):
        if axis.kind != "sequential" or analyzer.prove(value < axis.extent):
            continue
        if {f.var for f in around} & expr_traverse.free_vars(value) & guarded:
            raise AccessError(
                f"{block.name} does not run in every iteration of the loops of its axis {axis.var.name}",
                mark=block,
                hint="do this before splitting the loop over steps, or split it with tail='peel'",
            )


def _fills(function: Function, values: Sequence[Expr], loops: Sequence[For], buffer: Buffer) -> bool:
    """Whether `values`, over loops from 0, take every index of a buffer."""
    if any(queries.constant_value(f.start) != 0 for f in loops):
        return False
    return _takes_all(function, values, {f.var: f.extent for f in loops}, buffer)


def _takes_all(function: Function, values: Sequence[Expr], extents: Mapping[Var, Expr], buffer: Buffer) -> bool:
    """Whether `values` take every index of a buffer while their variables run from 0 to their extents."""
    used = {v for value in values for v in expr_traverse.free_vars(value)}
    analyzer = queries.analyzer_of(function)
    places = read_index_map(values, {v: e for v, e in extents.items() if v in used}, analyzer)
    if places is None or not places.is_onto:
        return False
    return all(analyzer.equal(a, b) for a, b in zip(places.extents, buffer.shape, strict=True))


def check_without_gaps(function: Function, buffer: Buffer) -> None:
    """Refuse to copy a buffer with places that no block writes, as changed layouts and versions may leave them."""
    analyzer = queries.analyzer_of(function)
    for block in queries.writers(function, buffer):
        extents = {a.var: a.extent for a in block.axes}
        for indices in _stored_indices(block, buffer):
            is_plain = all(
                not expr_traverse.free_vars(i) & extents.keys() or regions.unit_axis(analyzer, block, i) is not None
                for i in indices
            )
            if not is_plain and not _takes_all(function, indices, extents, buffer):
                raise CoverageError(
                    f"{block.name} may leave gaps in {buffer.name}",
                    mark=block,
                    hint="make the copy before the layout is transformed",
                )


def _stored_indices(block: Block, buffer: Buffer) -> list[tuple[Expr, ...]]:
    stores = [s.indices for s in traverse.walk(block) if isinstance(s, Store) and s.buffer is buffer]
    copies = [s.target_indices for s in traverse.walk(block) if isinstance(s, AsyncCopy) and s.target is buffer]
    return stores + copies


def _ranges(function: Function, path: Path, buffer: Buffer, strips: Sequence[Strip | None]) -> Box:
    """Strips clipped to the buffer. Raises: AccessError where one is not known."""
    analyzer = queries.analyzer_of(function, queries.loops_of(path))
    ranges: list[AxisRange | None] = []
    for strip, extent in zip(strips, buffer.shape, strict=True):
        if strip is None:
            raise AccessError(
                f"which elements of {buffer.name} are accessed in one iteration is not known",
                mark=path[-1],
                hint="compute_root its producer first",
            )
        clipped = regions.clip(analyzer, strip, Axis(build.var("whole"), extent))
        ranges.append(None if regions.is_whole(analyzer, Axis(build.var("whole"), extent), clipped.strip) else clipped)
    return tuple(ranges)


def copy_nest(name: str, source: Buffer, target: Buffer, ranges: Box) -> Stmt:
    """Loops around the block `name` that copies the box `ranges` of `source`."""
    axes = tuple(Axis(build.var(f"va{k}"), e) for k, e in enumerate(source.shape))
    index: tuple[Expr, ...] = tuple(a.var for a in axes)
    block = Block(name, axes, index, None, None, Store(target, index, build.load(source, index)))
    return regions.nest(block, {a.var: r or regions.whole(a) for a, r in zip(axes, ranges, strict=True)}, {})


def touched_strips(function: Function, path: queries.Path, accesses: Sequence[Access], rank: int) -> list[Strip | None]:
    """Per dimension of a buffer, the indices that `accesses` take while the last statement of `path` runs once.

    They are in terms of the loops around that statement. None: not known.
    """
    loops = {f.var: f for access in accesses for f in queries.loops_of(access.path)}
    analyzer = queries.analyzer_of(function, loops.values())
    found: list[list[Strip | None]] = [[] for _ in range(rank)]
    for access in accesses:
        inner = queries.loops_of(access.path[len(path) - 1 :])
        for dimension, strips in enumerate(found):
            index = None if access.indices is None else access.indices[dimension]
            strips.append(None if index is None else regions.strip_of(analyzer, index, inner))
    return [_union(analyzer, strips) for strips in found]


def _union(analyzer: Analyzer, strips: Sequence[Strip | None]) -> Strip | None:
    known = [s for s in strips if s is not None]
    if not known or len(known) < len(strips):
        return None
    result = known[0]
    for strip in known[1:]:
        result = regions.union(analyzer, result, strip)
    return result
