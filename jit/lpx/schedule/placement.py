"""Where a tensor is computed: compute_at, compute_root, reverse_compute_at.

Moving a producer under a loop of its consumer computes, in each iteration, what that iteration needs: the region is
inferred from the reads, with symbolic extents, and clipped to the tensor by predicates. Moving a consumer under a loop
of its producer runs, in each iteration, the part whose inputs that iteration made. Either is refused where an element
would be left out, read too early, or (where that matters) computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lpx.arith.analyzer import Analyzer
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, Expr, Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Alloc, Block, For, Function, Stmt
from lpx.records import replace
from lpx.schedule import blocks, inlining, moving, queries, regions, rewriting
from lpx.schedule.consumers import place_behind
from lpx.schedule.errors import (
    ConsumerError,
    DependenceError,
    RefusedError,
)
from lpx.schedule.handles import LoopHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.queries import Access, Path
from lpx.schedule.regions import AxisRange, Strip
from lpx.schedule.session import BlockLike, Edit

ROOT = "root"
INLINE = "inline"


@primitive
def compute_at(edit: Edit, block: BlockLike, location: LoopHandle | str) -> None:
    """Compute a tensor inside a loop of its consumers: in each iteration, the elements that iteration reads.

    `location` may also be "root" or "inline", as `sample_location` gives them. The tensor becomes private to an
    iteration, so that the loop can still be made parallel. New loops run over the region; elements that several
    iterations read are computed in each.

    requires: the block alone writes the tensor, which is no output and is read inside the loop only; what the block
        reads is complete there and not overwritten before; its predicate, if any, only keeps axes in range.
    rewrite:
        for i { block B(vi = i) }; for i { for j in 0..3 { block C(... reads B[vi + vj]) } }
        -> for i { for i_1 in 0..3 { block B(vi = i + i_1) }; for j in 0..3 { block C } }
    """
    node = edit.block(block)
    if location == INLINE:
        edit.function = inlining.inline_block(edit.function, node)
        edit.ended(node.name, "was inlined into its consumers")
    elif location == ROOT:
        edit.function = place_at_root(edit.function, node)
    else:
        loop = edit.loop(location)
        _note_regeneration(edit, node, f"at loop {loop.var.name}")
        edit.function = place_at(edit.function, node, loop)


@primitive
def compute_root(edit: Edit, block: BlockLike) -> None:
    """Compute a tensor in full, in a fresh nest before everything that reads it; the inverse of `compute_at`.

    Loops that step through a scan stay around it. A reduction's loops are back in their first order.

    requires: the block alone writes the tensor; nothing it reads is written in the nest it leaves.
    rewrite: for i { for i_1 { block B }; block C } -> for i { block B }; for i { block C }
    """
    node = edit.block(block)
    _note_regeneration(edit, node, "at the root")
    edit.function = place_at_root(edit.function, node)


@primitive
def reverse_compute_at(edit: Edit, block: BlockLike, loop: LoopHandle) -> None:
    """Run a consumer inside a loop of its producer: in each iteration, on the elements that iteration completed.

    requires: the producer completes disjoint parts of its tensor in the iterations, and each instance of the consumer
        reads one of its elements, so that every instance runs exactly once; the consumer takes all values of its axes;
        whatever else it reads is complete before the loop; nothing between the loop and the consumer touches what it
        reads or writes.
    rewrite:
        for i { block B(vi = i) }; for i { block C(vi = i reads B[vi]) } -> for i { block B(vi = i); block C(vi = i) }
    """
    node, target = edit.block(block), edit.loop(loop)
    _note_regeneration(edit, node, f"at loop {target.var.name}")
    edit.function = place_behind(edit.function, node, target)


def _note_regeneration(edit: Edit, block: Block, where: str) -> None:
    for loop in queries.loops_around(edit.function, block):
        edit.ended(loop.var, f"ended when {block.name} got new loops {where}")


def legal_locations(function: Function, block: Block) -> dict[int, str | For]:
    """Where `compute_at` may put a block: depth in its first consumer's nest -> loop; -1 "root", -2 "inline"."""
    places: dict[int, str | For] = {-1: ROOT}
    if _is_legal(partial(inlining.inline_block, function, block)):
        places[-2] = INLINE
    consumers = queries.consumers(function, block)
    nest = queries.loops_around(function, consumers[0]) if consumers else ()
    places.update((depth, f) for depth, f in enumerate(nest) if _is_legal(partial(place_at, function, block, f)))
    return places


def _is_legal(attempt: Callable[[], Function]) -> bool:
    try:
        attempt()
    except RefusedError:
        return False
    return True


def _legal_loops(function: Function, block: Block) -> str:
    loops = [p.var.name for p in legal_locations(function, block).values() if isinstance(p, For)]
    return (
        f"legal loops are {', '.join(loops)}" if loops else "no loop is legal; compute_root and compute_inline remain"
    )


def place_at(function: Function, block: Block, loop: For) -> Function:
    """`compute_at` on a loop: the new function, after every check."""
    path, target = queries.path_to(function, block), queries.path_to(function, loop)
    blocks.check_temporaries(function, block, "which must be complete when the loop ends")
    blocks.check_only_writer(function, block)
    blocks.check_plain_domain(function, block)
    moving.check_open_path(path, target)
    reads = check_read_inside(function, block, loop)
    anchor = _first_reader(loop, reads, block)
    moving.check_before(function, block, path, (*target, anchor))
    moving.check_unchanged(block, path, (*target, anchor))
    allocated = set(blocks.outputs_of(block))
    blocks.check_in_scope(function, block, (*target, *moving.allocations_of(loop)))
    kept = moving.kept_bindings(block, path, target)
    ranges = required_ranges(function, block, loop, reads, kept, path, target)
    nest = regions.nest(block, ranges, kept)
    moved = rewriting.insert_before(function, anchor, nest)
    moved = rewriting.replace_statement(moved, block, None)
    return sink_allocations(moved, allocated, loop.var)


def check_read_inside(function: Function, block: Block, loop: For) -> list[Access]:
    """The reads of what `block` writes by others. Refuses reads outside `loop`, and a tensor nobody reads."""
    outputs = set(blocks.outputs_of(block))
    for buffer in outputs:
        blocks.check_plain_access(function, buffer)
    reads = [
        a for a in queries.accesses(function.body) if a.buffer in outputs and not a.is_write and block not in a.path
    ]
    names = " and ".join(sorted(b.name for b in outputs))
    if not reads:
        raise ConsumerError(f"nothing reads {names}", mark=block)
    for access in reads:
        if loop not in access.path:
            reader = access.block.name if access.block is not None else "a statement"
            raise ConsumerError(
                f"{reader} reads {access.buffer.name} outside loop {loop.var.name}",
                hint=lambda: _legal_loops(function, block),
                mark=access.block,
            )
    return reads


def _first_reader(loop: For, reads: Sequence[Access], block: Block) -> Stmt:
    """The first statement of the loop's body that reads the tensor."""
    reading = {s for a in reads for s in a.path}
    return next(s for s in queries.body_statements(loop) if s in reading)


def required_ranges(
    function: Function,
    block: Block,
    loop: For,
    reads: Sequence[Access],
    kept: dict[Var, Expr],
    path: Path,
    target: Path,
) -> dict[Var, AxisRange]:
    """The values of each axis that one iteration of `loop` needs.

    Refuses values that the block takes in another iteration of a loop around both places.
    """
    needed: dict[Var, Strip | None] = {}
    analyzer = queries.analyzer_of(function, {f.var: f for a in reads for f in queries.loops_of(a.path)}.values())
    for buffer in blocks.outputs_of(block):
        indices = blocks.store_indices(block, buffer)
        strips = _region(analyzer, loop, [a for a in reads if a.buffer is buffer], len(indices))
        for index, strip in zip(indices, strips, strict=True):
            unit = regions.unit_axis(analyzer, block, index)
            if unit is None:
                continue
            axis, offset = unit
            if strip is None:
                needed[axis.var] = None
                continue
            shifted = replace(strip, low=analyzer.simplify(strip.low - offset))
            before = needed.get(axis.var, shifted)
            needed[axis.var] = None if before is None else regions.union(analyzer, before, shifted)
    around = {f.var: f for f in queries.loops_of(path)}
    homes = moving.home_strips(
        queries.analyzer_of(function, around.values()), block, path, moving.shared_length(path, target)
    )
    ranges: dict[Var, AxisRange] = {}
    for axis in block.axes:
        if axis.var in kept:
            continue
        strip = needed.get(axis.var) if axis.kind == "spatial" else None
        ranges[axis.var] = regions.whole(axis) if strip is None else regions.at_least(analyzer, strip, axis)
        check_at_home(analyzer, block, axis, ranges[axis.var].strip, homes[axis.var])
    return ranges


def check_at_home(analyzer: Analyzer, block: Block, axis: Axis, strip: Strip, home: Strip) -> None:
    """Refuses values of an axis that another iteration of the loops around both places computes."""
    if not regions.is_whole(analyzer, axis, home) and not regions.lies_within(analyzer, strip, home):
        raise DependenceError(
            f"values of axis {axis.var.name} of {block.name} are needed that other iterations compute",
            hint="compute_root takes the block out of the common loops first",
            mark=block,
        )


def _region(analyzer: Analyzer, loop: For, reads: Sequence[Access], rank: int) -> list[Strip | None]:
    """Per dimension, the strip that all reads in one iteration of `loop` stay in; None for the whole dimension."""
    region: list[Strip | None] = [None] * rank
    for position, access in enumerate(reads):
        inner = queries.loops_of(access.path[access.path.index(loop) + 1 :])
        for d, index in enumerate(access.indices or ()):
            strip = regions.strip_of(analyzer, index, inner)
            before = region[d] if position else strip
            region[d] = None if strip is None or before is None else regions.union(analyzer, before, strip)
    return region


def sink_allocations(function: Function, buffers: set[Buffer], loop: Var) -> Function:
    """`function` with temporaries allocated directly inside a loop instead of where they were."""
    body = traverse.transform(function.body, lambda s: s.body if isinstance(s, Alloc) and s.buffer in buffers else None)
    moved = replace(function, body=body)
    node = queries.live_loops(moved)[loop]
    inside = node.body
    for buffer in sorted(buffers, key=lambda b: b.name, reverse=True):
        inside = Alloc(buffer, inside)
    return rewriting.replace_statement(moved, node, replace(node, body=inside))


def place_at_root(function: Function, block: Block) -> Function:
    """`compute_root`: the new function, after every check."""
    path = queries.path_to(function, block)
    blocks.check_only_writer(function, block)
    blocks.check_plain_domain(function, block)
    start = _scan_depth(block, path)
    top = next((s for s in path[start:] if isinstance(s, For)), block)
    target = path[: path.index(top)]
    moving.check_open_path(path, path[: path.index(top) + 1])
    moving.check_unchanged(block, path, (*target, top))
    blocks.check_in_scope(function, block, target)
    kept = moving.kept_bindings(block, path, target)
    analyzer = queries.analyzer_of(function, queries.loops_of(path))
    homes = moving.home_strips(analyzer, block, path, len(target))
    ranges = {a.var: regions.clip(analyzer, homes[a.var], a) for a in block.axes if a.var not in kept}
    nest = regions.nest(block, ranges, kept)
    hoisted = queries.allocated_within(top) & set(blocks.outputs_of(block))
    both = traverse.sequence([nest, _without(top, block, hoisted)])
    for buffer in sorted(hoisted, key=lambda b: b.name, reverse=True):
        both = Alloc(buffer, both)
    return rewriting.replace_statement(function, top, both)


def _without(top: Stmt, block: Block, allocated: set[Buffer]) -> Stmt:
    if top is block:
        return nodes.Seq(())
    left = rewriting.remove_statement(top, block)
    return traverse.transform(left, lambda s: s.body if isinstance(s, Alloc) and s.buffer in allocated else None)


def _scan_depth(block: Block, path: Path) -> int:
    """How much of a path must stay around a block: up to the innermost loop of its sequential axes."""
    sequential: set[Var] = set()
    for axis, value in zip(block.axes, block.bindings, strict=True):
        if axis.kind == "sequential":
            sequential |= expr_traverse.free_vars(value)
    return 1 + max((i for i, s in enumerate(path) if isinstance(s, For) and s.var in sequential), default=-1)
