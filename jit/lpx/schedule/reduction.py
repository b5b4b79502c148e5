"""Reduction primitives: where an accumulation starts, and in how many parts it is made.

`rfactor` and `cross_lane_reduce` change the order in which values are combined, and with it the rounding of floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from lpx import dtypes
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, Binary, BinaryOp, Expr, Load, Var
from lpx.ir import traverse
from lpx.ir.nodes import Block, For, Stmt, Store
from lpx.schedule import queries, rewriting
from lpx.schedule.errors import BlockFormError, DependenceError, ExtentError, NestingError, OptionError
from lpx.schedule.handles import BlockHandle, LoopHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.staging import allocate, loops_binding, reads_or_writes, widest_without

_REDUCERS: tuple[BinaryOp, ...] = ("add", "mul", "min", "max", "bitand", "bitor", "bitxor")


@dataclass(frozen=True, slots=True)
class Accumulation:
    """A block's body `target[indices] = target[indices] op value`, and the value it starts from."""

    target: Buffer
    indices: tuple[Expr, ...]
    op: BinaryOp
    value: Expr
    start: Store


@primitive
def decompose_reduction(edit: Edit, block: BlockLike, loop: LoopHandle) -> BlockHandle:
    """Start an accumulation in a block of its own before `loop`; returns that block.

    requires: the block has an init; every loop of its reduce axes is `loop` or inside it.

    rewrite (loop = r):
        for i: for r: block C { init { C[i] = 0 } C[i] = C[i] + A[i, r] }
        ->
        for i: block C_init { C[i] = 0 }
               for r: block C { C[i] = C[i] + A[i, r] }
    """
    reduction = edit.block(block)
    outer = edit.loop(loop)
    if reduction.init is None:
        raise BlockFormError(f"{reduction.name} has no init", mark=reduction, hint="it may be decomposed already")
    around = queries.loops_around(edit.function, reduction)
    inside = check_loop_above(reduction, outer, around)
    check_reduce_loops_inside(reduction, inside, around)
    name = rewriting.unique_name(f"{reduction.name}_init", rewriting.block_names(edit.function))
    nest = _spatial_nest(reduction, inside, name, reduction.init)
    edit.function = rewriting.replace_block(edit.function, reduction.name, lambda b: replace(b, init=None))
    edit.function = rewriting.insert_before(edit.function, edit.loop(loop), nest)
    return BlockHandle(name)


@primitive
def rfactor(edit: Edit, block: BlockLike, loop: LoopHandle) -> BlockHandle:
    """Make an accumulation in as many parts as `loop` has iterations, then combine the parts.

    The part is a new last dimension. The block keeps its loops and accumulates parts; the returned block combines them,
    after it. Changes the order of combination.

    requires: the body is `C[..] = C[..] op value` for add, mul, min, max, and, or, xor; `loop` has a constant extent
    and only reduce axes are bound to it.

    rewrite (loop = ri):
        for i, ro, ri: block C { init { C[i] = 0 } C[i] = C[i] + A[i, ro * 4 + ri] }
        ->
        for i, ro, ri: block C { init { C_parts[i, ri] = 0 } C_parts[i, ri] = C_parts[i, ri] + A[i, ro * 4 + ri] }
        for i, p: block C_combine { init { C[i] = 0 } C[i] = C[i] + C_parts[i, p] }
    """
    reduction = edit.block(block)
    factored = edit.loop(loop)
    accumulation = check_accumulation(reduction)
    around = queries.loops_around(edit.function, reduction)
    check_loop_above(reduction, factored, around)
    check_reduce_loop(reduction, factored)
    target = accumulation.target
    parts = Buffer(f"{target.name}_parts", target.dtype, (*target.shape, factored.extent))
    name = rewriting.unique_name(f"{reduction.name}_combine", rewriting.block_names(edit.function))
    anchor = widest_without(edit.function, reduction, reads_or_writes(target))
    combine = _combining_nest(reduction, accumulation, factored, parts, name, queries.loops_within(anchor))
    partial = _partial_block(reduction, accumulation, factored, parts, around)
    moved = traverse.transform(anchor, lambda s: partial if s is reduction else None)
    changed = rewriting.replace_statement(edit.function, anchor, traverse.sequence([moved, combine]))
    edit.function = allocate(changed, parts)
    return BlockHandle(name)


@primitive
def cross_lane_reduce(edit: Edit, block: BlockLike, loop: LoopHandle) -> None:
    """Combine all iterations of a reduction's innermost `loop` at once, as the lanes of one vector.

    The lanes are combined pairwise in halving steps: a new order of combination.

    requires: the body is `C[..] = C[..] op value`; the block stands directly in `loop`, whose extent is constant and
    whose variable is bound to a reduce axis of the block, and to it alone.

    rewrite (loop = p, of extent 8):
        for p: block C { C[i] = C[i] + parts[i, vp] }
        ->
        block C { C[i] = C[i] + reduce_add(parts[i, ramp(0, 1, 8)]) }
    """
    reduction = edit.block(block)
    lanes_loop = edit.loop(loop)
    accumulation = check_accumulation(reduction)
    lanes = queries.constant_value(lanes_loop.extent)
    position = next((k for k, v in enumerate(reduction.bindings) if v is lanes_loop.var), None)
    if lanes_loop.body is not reduction or position is None or reduction.axes[position].kind != "reduce":
        raise NestingError(f"{reduction.name} does not stand directly in {lanes_loop.var.name}", mark=lanes_loop)
    if lanes is None or lanes < 1:
        raise ExtentError(f"the extent of {lanes_loop.var.name} is not a constant", mark=lanes_loop)
    axis = reduction.axes[position]
    for k, value in enumerate(reduction.bindings):
        if k != position and lanes_loop.var in expr_traverse.free_vars(value):
            raise DependenceError(f"{lanes_loop.var.name} is bound to another axis as well", mark=reduction)
    if reduction.predicate is not None and lanes_loop.var in expr_traverse.free_vars(reduction.predicate):
        raise BlockFormError(f"{reduction.name} runs for some values of {lanes_loop.var.name} only", mark=reduction)
    vector = expr_traverse.substitute(accumulation.value, {axis.var: build.ramp(lanes_loop.start, 1, lanes)})
    combined = build.horizontal_reduce(accumulation.op, build.broadcast(vector, lanes))
    old = build.load(accumulation.target, accumulation.indices)
    body = Store(
        accumulation.target, accumulation.indices, build.binary(accumulation.op, old, combined), span=reduction.body.span
    )
    rest = tuple(a for k, a in enumerate(reduction.axes) if k != position)
    bindings = tuple(v for k, v in enumerate(reduction.bindings) if k != position)
    edit.ended(lanes_loop.var, "became the lanes of a vector")
    edit.function = rewriting.replace_statement(
        edit.function, lanes_loop, replace(reduction, axes=rest, bindings=bindings, body=body)
    )


def check_accumulation(block: Block) -> Accumulation:
    """The accumulation that a block makes.

    Raises: BlockFormError when its body has another form.
    """
    body, start = block.body, block.init
    hint = "the primitive takes C[..] = C[..] op value with an init, for add, mul, min, max, and, or, xor"
    if not isinstance(body, Store) or not isinstance(start, Store) or body.mask is not None:
        raise BlockFormError(f"{block.name} is not a reduction of one value", mark=block, hint=hint)
    value = body.value
    if not isinstance(value, Binary) or value.op not in _REDUCERS or not _is_old(value.a, body):
        raise BlockFormError(f"{block.name} combines values in another form", mark=block, hint=hint)
    if any(isinstance(e, Load) and e.buffer is body.buffer for e in expr_traverse.walk(value.b)):
        raise BlockFormError(f"{block.name} reads {body.buffer.name} in the value it adds", mark=block, hint=hint)
    return Accumulation(body.buffer, body.indices, value.op, value.b, start)


def _is_old(expr: Expr, body: Store) -> bool:
    return (
        isinstance(expr, Load)
        and expr.buffer is body.buffer
        and all(expr_traverse.structural_equal(a, b) for a, b in zip(expr.indices, body.indices, strict=True))
    )


def check_loop_above(block: Block, loop: For, around: Sequence[For]) -> list[For]:
    """The loops around `block` from `loop` on inwards; `loop` must be one of them."""
    positions = [k for k, f in enumerate(around) if f is loop]
    if not positions:
        raise NestingError(f"{loop.var.name} is not a loop around {block.name}", mark=loop)
    return list(around[positions[0] :])


def check_reduce_loops_inside(block: Block, inside: Sequence[For], around: Sequence[For]) -> None:
    """Refuse when a reduce axis of `block` is bound to a loop outside `inside`."""
    for loop in loops_binding(block, around, ("reduce",)):
        if not any(loop is f for f in inside):
            raise DependenceError(
                f"the reduction of {block.name} runs over {loop.var.name} as well, which is further out",
                mark=loop,
                hint=f"decompose at {loop.var.name} or outside it",
            )


def check_reduce_loop(block: Block, loop: For) -> None:
    """Refuse a loop that is not of the block's reduction alone, or has no constant extent."""
    if queries.constant_value(loop.extent) is None or queries.constant_value(loop.start) != 0:
        raise ExtentError(f"{loop.var.name} does not run over a constant range from 0", mark=loop, hint="split it first")
    kinds = {
        axis.kind
        for axis, value in zip(block.axes, block.bindings, strict=True)
        if loop.var in expr_traverse.free_vars(value)
    }
    if kinds != {"reduce"}:
        raise OptionError(f"{loop.var.name} is not a loop of the reduction of {block.name} alone")


def _spatial_nest(block: Block, inside: Sequence[For], name: str, body: Stmt) -> Stmt:
    """The block `name` running `body` at each spatial place of `block` that the loops `inside` visit."""
    loops = loops_binding(block, inside, ("spatial", "sequential"))
    fresh: dict[Var, Expr] = {loop.var: build.var(loop.var.name) for loop in loops}
    kept = [k for k, axis in enumerate(block.axes) if axis.kind != "reduce"]
    axes = tuple(replace(block.axes[k], var=build.var(block.axes[k].var.name)) for k in kept)
    renamed: dict[Var, Expr] = {block.axes[k].var: a.var for k, a in zip(kept, axes, strict=True)}
    bindings = tuple(expr_traverse.substitute(block.bindings[k], fresh) for k in kept)
    predicate = _spatial_predicate(block, inside, fresh)
    stmt: Stmt = Block(name, axes, bindings, predicate, None, traverse.substitute(body, renamed), span=block.span)
    for loop in reversed(loops):
        stmt = For(cast("Var", fresh[loop.var]), loop.start, loop.extent, stmt, span=loop.span)
    return stmt


def _spatial_predicate(block: Block, inside: Sequence[For], fresh: dict[Var, Expr]) -> Expr | None:
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
    return rewriting.conjunction(kept)


def _partial_block(
    block: Block, accumulation: Accumulation, factored: For, parts: Buffer, around: Sequence[For]
) -> Block:
    """`block` accumulating into `parts`, the factored loop being a spatial axis."""
    part = Axis(build.var(f"v{factored.var.name}"), factored.extent)
    loops = [f for f in loops_binding(block, around, ("reduce",)) if f is not factored]
    rest = [Axis(build.var(f"v{f.var.name}"), f.start + f.extent, "reduce") for f in loops]
    inner: dict[Var, Expr] = {factored.var: part.var}
    inner |= {f.var: a.var for f, a in zip(loops, rest, strict=True)}
    kept = [(a, v) for a, v in zip(block.axes, block.bindings, strict=True) if a.kind != "reduce"]
    replaced: dict[Var, Expr] = {}
    for axis, value in zip(block.axes, block.bindings, strict=True):
        if axis.kind == "reduce":
            replaced[axis.var] = expr_traverse.substitute(value, inner)
    index = (*accumulation.indices, part.var)
    start = build.const(_identity(accumulation), parts.dtype)
    always, sometimes = _split_predicate(block, inner)
    value = expr_traverse.substitute(accumulation.value, replaced)
    if sometimes is not None:  # a part may have no run that the condition lets through, and must be started all the same
        value = build.select(sometimes, value, start)
    axes = (*(a for a, _ in kept), part, *rest)
    bindings = (*(v for _, v in kept), factored.var, *(f.var for f in loops))
    update = build.binary(accumulation.op, build.load(parts, index), value)
    return replace(
        block,
        axes=axes,
        bindings=bindings,
        predicate=always,
        init=Store(parts, index, start, span=accumulation.start.span),
        body=Store(parts, index, update, span=block.body.span),
    )


def _split_predicate(block: Block, inner: dict[Var, Expr]) -> tuple[Expr | None, Expr | None]:
    """The conditions of `block` that do not mention the loops of `inner`, and those that mention only them, over the
    axes that `inner` gives for them.
    """
    always: list[Expr] = []
    sometimes: list[Expr] = []
    for condition in rewriting.conjuncts(block.predicate):
        mentioned = expr_traverse.free_vars(condition) & inner.keys()
        if not mentioned:
            always.append(condition)
            continue
        outside = expr_traverse.free_vars(condition) - mentioned
        bound = {v for value in block.bindings for v in expr_traverse.free_vars(value)}
        if outside & bound:
            raise DependenceError(
                f"a condition of {block.name} joins loops of the reduction with others",
                mark=block,
                hint="factor before splitting or fusing them",
            )
        sometimes.append(expr_traverse.substitute(condition, inner))
    return rewriting.conjunction(always), rewriting.conjunction(sometimes)


def _identity(accumulation: Accumulation) -> int | float | bool:
    """The value that changes nothing when it is combined."""
    dtype = accumulation.target.dtype
    match accumulation.op:
        case "add" | "bitor" | "bitxor":
            # -0.0 is the identity of floating addition: 0.0 would turn a sum of negative zeros into 0.0.
            return -0.0 if dtype.is_float else 0
        case "mul":
            return 1
        case "bitand":
            return True if dtype.is_bool else dtype.wrap(-1)
        case "min":
            return float("inf") if dtype.is_float else dtype.max_value
        case _:
            return float("-inf") if dtype.is_float else dtype.min_value


def _combining_nest(
    block: Block, accumulation: Accumulation, factored: For, parts: Buffer, name: str, inside: Sequence[For]
) -> Stmt:
    """The block that combines the parts, in fresh copies of the spatial loops and a loop over the parts."""
    spatial = _spatial_nest(block, inside, name, accumulation.start)
    loop_var = build.var("p")
    part = Axis(build.var("vp"), factored.extent, "reduce")
    outer = {a.var: a for a in block.axes if a.kind != "reduce"}

    def complete(stmt: Stmt) -> Stmt | None:
        if not isinstance(stmt, Block):
            return None
        renamed: dict[Var, Expr] = {old: new.var for old, new in zip(outer, stmt.axes, strict=True)}
        index = tuple(expr_traverse.substitute(i, renamed) for i in accumulation.indices)
        update = build.binary(
            accumulation.op, build.load(accumulation.target, index), build.load(parts, (*index, part.var))
        )
        combining = replace(
            stmt,
            axes=(*stmt.axes, part),
            bindings=(*stmt.bindings, loop_var),
            init=stmt.body,
            body=Store(accumulation.target, index, update, span=block.body.span),
        )
        return For(loop_var, build.const(0, dtypes.index), factored.extent, combining)

    return traverse.transform(spatial, complete)
