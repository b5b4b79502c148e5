"""Reduction primitives: where an accumulation starts, and the lanes of a vector as its last steps.

`cross_lane_reduce` changes the order in which values are combined, and with it the rounding of floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Expr, Var
from lpx.ir import traverse
from lpx.ir.nodes import Alloc, Block, For, Function, Stmt, Store
from lpx.records import replace
from lpx.schedule import queries, rewriting
from lpx.schedule.errors import BlockFormError, DependenceError, ExtentError, NestingError
from lpx.schedule.handles import BlockHandle, LoopHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.reduction_forms import Accumulation, Operation, check_any_accumulation
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.staging import check_open_place, loops_binding


@primitive
def decompose_reduction(edit: Edit, block: BlockLike, loop: LoopHandle) -> BlockHandle:
    """Start an accumulation in a block of its own before `loop`; returns that block.

    Where the sum runs over loops around `loop` as well, the start has the condition that they are in their first
    iteration.

    requires: the block has an init; loops of its reduce axes outside of `loop` are serial, run at least once, and are
        bound to no other axis; nothing else in `loop` touches what the block writes, nor writes what its init reads.
    rewrite (loop = r):
        for i: for r: block C { init { C[i] = 0 } C[i] = C[i] + A[i, r] }
        ->
        for i: block C_init { C[i] = 0 }
               for r: block C { C[i] = C[i] + A[i, r] }
    rewrite (loop = r_i):
        for r_o: for i: for r_i: block C { init { C[i] = 0 } C[i] = C[i] + A[i, r_o * 4 + r_i] }
        ->
        for r_o: for i: block C_init where r_o == 0 { C[i] = 0 }
                        for r_i: block C { C[i] = C[i] + A[i, r_o * 4 + r_i] }
    """
    reduction = edit.block(block)
    outer = edit.loop(loop)
    if reduction.init is None:
        raise BlockFormError(f"{reduction.name} has no init", mark=reduction, hint="it may be decomposed already")
    around = queries.loops_around(edit.function, reduction)
    inside = check_loop_above(reduction, outer, around)
    check_open_place(queries.path_to(edit.function, outer))
    parts = check_first_parts(edit.function, reduction, [f for f in around if f not in inside])
    single = [f for f in around if f in inside or f in parts or queries.constant_value(f.extent) == 1]
    check_begins(edit.function, reduction, single)
    check_start_may_move(reduction, reduction.init, outer)
    name = rewriting.unique_name(f"{reduction.name}_init", rewriting.block_names(edit.function))
    nest = spatial_nest(reduction, inside, name, reduction.init, [build.compare("eq", f.var, f.start) for f in parts])
    edit.function = rewriting.replace_block(edit.function, reduction.name, lambda b: replace(b, init=None))
    edit.function = rewriting.insert_before(edit.function, edit.loop(loop), nest)
    return BlockHandle(name)


@primitive
def cross_lane_reduce(edit: Edit, block: BlockLike, loop: LoopHandle) -> None:
    """Combine all iterations of a reduction's innermost `loop` at once, as the lanes of one vector.

    The lanes are combined pairwise in halving steps: a new order of combination.

    requires: the body is `C[..] = C[..] op value` over scalars, or the reduction of a tuple of them; the block stands
        directly in `loop`, whose extent is constant and whose variable is bound to a reduce axis of the block, and to
        it alone.
    rewrite (loop = p, of extent 8):
        for p: block C { init { C[i] = 0 } C[i] = C[i] + parts[i, vp] }
        ->
        block C { C[i] = 0 + reduce_add(parts[i, ramp(0, 1, 8)]) }
    """
    reduction = edit.block(block)
    lanes_loop = edit.loop(loop)
    accumulation = check_any_accumulation(reduction)
    lanes = queries.constant_value(lanes_loop.extent)
    position = next((k for k, v in enumerate(reduction.bindings) if v is lanes_loop.var), None)
    if lanes_loop.body is not reduction or position is None or reduction.axes[position].kind != "reduce":
        raise NestingError(f"{reduction.name} does not stand directly in {lanes_loop.var.name}", mark=lanes_loop)
    if lanes is None or lanes < 1:
        raise ExtentError(f"the extent of {lanes_loop.var.name} is not a constant", mark=lanes_loop)
    for k, value in enumerate(reduction.bindings):
        if k != position and lanes_loop.var in expr_traverse.free_vars(value):
            raise DependenceError(f"{lanes_loop.var.name} is bound to another axis as well", mark=reduction)
    if reduction.predicate is not None and lanes_loop.var in expr_traverse.free_vars(reduction.predicate):
        raise BlockFormError(f"{reduction.name} runs for some values of {lanes_loop.var.name} only", mark=reduction)
    check_begins(edit.function, reduction, queries.loops_around(edit.function, reduction))
    if not accumulation.firsts:
        raise BlockFormError(f"the init of {reduction.name} does more than store values", mark=reduction)
    if any(e.lanes > 1 for value in accumulation.values for e in expr_traverse.walk(value)):
        raise BlockFormError(f"{reduction.name} adds up vectors already", mark=reduction)
    edit.ended(lanes_loop.var, "became the lanes of a vector")
    widened = _with_lanes(reduction, accumulation, position, lanes_loop.start, lanes)
    edit.function = rewriting.replace_statement(edit.function, lanes_loop, widened)


def check_loop_above(block: Block, loop: For, around: Sequence[For]) -> list[For]:
    """The loops around `block` from `loop` on inwards; `loop` must be one of them."""
    positions = [k for k, f in enumerate(around) if f is loop]
    if not positions:
        raise NestingError(f"{loop.var.name} is not a loop around {block.name}", mark=loop)
    return list(around[positions[0] :])


def check_reduces_inside(block: Block, outside: Sequence[For]) -> None:
    """Refuse a reduction that goes on over several iterations of the loops `outside`."""
    several = [f for f in outside if queries.constant_value(f.start) != 0 or queries.constant_value(f.extent) != 1]
    for loop in loops_binding(block, several, ("reduce",)):
        raise DependenceError(
            f"the reduction of {block.name} runs over {loop.var.name} as well, which is further out",
            mark=loop,
            hint=f"take {loop.var.name} or a loop around it",
        )


def check_first_parts(function: Function, block: Block, outside: Sequence[For]) -> list[For]:
    """The loops among `outside` over which a reduction goes on; refuses those whose first iteration is no first part.

    A loop that runs not even once would leave the result without a start.
    """
    several = [f for f in outside if queries.constant_value(f.start) != 0 or queries.constant_value(f.extent) != 1]
    parts = loops_binding(block, several, ("reduce",))
    others = loops_binding(block, parts, ("spatial", "sequential"))
    for loop in parts:
        analyzer = queries.analyzer_of(function, outside[: outside.index(loop)])  # inside of it, it certainly runs
        if loop.kind != "serial" or loop in others or not analyzer.prove(loop.extent > 0):
            raise DependenceError(
                f"the reduction of {block.name} runs over {loop.var.name} as well, which is further out",
                mark=loop,
                hint=f"take {loop.var.name} or a loop around it",
            )
    return parts


def check_begins(function: Function, block: Block, loops: Sequence[For]) -> None:
    """Refuse a reduction that goes on with what another block began, as a peeled tail may."""
    starts: dict[Var, Expr] = {f.var: f.start for f in loops}
    analyzer = queries.analyzer_of(function, loops)
    for axis, value in zip(block.axes, block.bindings, strict=True):
        if axis.kind == "reduce" and not analyzer.equal(expr_traverse.substitute(value, starts), build.const(0)):
            raise DependenceError(
                f"{block.name} may go on with a sum that began elsewhere: {axis.var.name} does not start at 0",
                mark=block,
                hint="decompose before peeling or partitioning the loop",
            )


def check_start_may_move(block: Block, init: Stmt, loop: For) -> None:
    """Refuse to run an init before `loop` where something in the loop would see or spoil that."""
    made = traverse.written_buffers(init)
    for stmt in traverse.walk(loop):
        if isinstance(stmt, Alloc) and stmt.buffer in made:
            raise DependenceError(f"{stmt.buffer.name} exists only inside {loop.var.name}", mark=stmt)
    for other in queries.blocks_within(loop):
        touched = made & traverse.read_buffers(other) | (made | traverse.read_buffers(init)) & traverse.written_buffers(
            other
        )
        if other is not block and touched:
            name = min(b.name for b in touched)
            raise DependenceError(
                f"{other.name} in the same loop touches {name}",
                mark=other,
                hint="take a loop that holds the block alone",
            )


def _with_lanes(block: Block, accumulation: Accumulation, position: int, start: Expr, lanes: int) -> Block:
    """`block` without its axis at `position`, whose values become lanes; without an init where no other reduce axis is
    left.
    """
    axes = tuple(a for k, a in enumerate(block.axes) if k != position)
    bindings = tuple(v for k, v in enumerate(block.bindings) if k != position)
    ramp: dict[Var, Expr] = {block.axes[position].var: build.ramp(start, 1, lanes)}
    vectors = [build.broadcast(expr_traverse.substitute(v, ramp), lanes) for v in accumulation.values]
    goes_on = any(a.kind == "reduce" for a in axes)
    loads = [build.load(t, accumulation.indices) for t in accumulation.targets]
    body = _combined(accumulation, loads if goes_on else accumulation.firsts, vectors, block)
    return replace(block, axes=axes, bindings=bindings, init=block.init if goes_on else None, body=body)


def _combined(accumulation: Accumulation, olds: Sequence[Expr], vectors: Sequence[Expr], block: Block) -> Stmt:
    """The statement that combines accumulated values `olds` with all lanes of `vectors`."""
    targets, indices = accumulation.targets, accumulation.indices
    if isinstance(accumulation, Operation):
        value = build.binary(accumulation.op, olds[0], build.horizontal_reduce(accumulation.op, vectors[0]))
        return Store(targets[0], indices, value, span=block.span)

    def result(ins: Sequence[Expr]) -> Sequence[Expr]:
        return accumulation.combine(olds, _reduce_lanes(accumulation, ins))

    return accumulation.assign(targets, indices, vectors, result)


def _reduce_lanes(accumulation: Accumulation, vectors: Sequence[Expr]) -> Sequence[Expr]:
    """All lanes of a tuple of vectors combined, in the order of `HorizontalReduce`."""
    while vectors[0].lanes > 1:
        half, odd = divmod(vectors[0].lanes, 2)
        low = [build.shuffle([v], range(half)) for v in vectors]
        high = [build.shuffle([v], range(half, 2 * half)) for v in vectors]
        combined = accumulation.combine(low, high)
        if odd:
            last = [build.shuffle([v], [2 * half]) for v in vectors]
            combined = tuple(build.shuffle(pair, range(half + 1)) for pair in zip(combined, last, strict=True))
        vectors = combined
    return vectors


def spatial_nest(block: Block, inside: Sequence[For], name: str, body: Stmt, conditions: Sequence[Expr] = ()) -> Stmt:
    """The block `name` running `body` at each spatial place of `block` that the loops `inside` visit, in loops of the
    same kinds, under further `conditions`.
    """
    loops = loops_binding(block, inside, ("spatial", "sequential"))
    fresh: dict[Var, Expr] = {loop.var: build.var(loop.var.name) for loop in loops}
    kept = [k for k, axis in enumerate(block.axes) if axis.kind != "reduce"]
    axes = tuple(replace(block.axes[k], var=build.var(block.axes[k].var.name)) for k in kept)
    renamed: dict[Var, Expr] = {block.axes[k].var: a.var for k, a in zip(kept, axes, strict=True)}
    bindings = tuple(expr_traverse.substitute(block.bindings[k], fresh) for k in kept)
    predicate = rewriting.conjunction([*_spatial_conditions(block, inside, fresh), *conditions])
    stmt: Stmt = Block(name, axes, bindings, predicate, None, traverse.substitute(body, renamed), span=block.span)
    for loop in reversed(loops):
        start, extent = (expr_traverse.substitute(e, fresh) for e in (loop.start, loop.extent))
        stmt = replace(loop, var=cast("Var", fresh[loop.var]), start=start, extent=extent, body=stmt, stages=None)
    return stmt


def _spatial_conditions(block: Block, inside: Sequence[For], fresh: dict[Var, Expr]) -> list[Expr]:
    """The conditions of `block` on its spatial loops; those on reduce loops alone do not matter for a start."""
    reduce_vars = {loop.var for loop in inside if loop.var not in fresh}
    kept: list[Expr] = []
    for condition in rewriting.conjuncts(block.predicate):
        mentioned = expr_traverse.free_vars(condition)
        if not mentioned & reduce_vars:
            kept.append(expr_traverse.substitute(condition, fresh))
        elif mentioned & fresh.keys():
            raise DependenceError(
                f"a condition of {block.name} joins loops of the reduction with others",
                mark=block,
                hint="decompose before splitting or fusing them",
            )
    return kept
