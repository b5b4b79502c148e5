"""rfactor, cross_thread_reduce: a reduction in parts that do not wait for each other, and that of the parts."""

from __future__ import annotations

from collections.abc import Sequence

from lpx import dtypes
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer, Scope
from lpx.expr.nodes import Axis, Expr, Var
from lpx.ir import traverse
from lpx.ir.nodes import Block, For, Function, Stmt, Store, ThreadAxis
from lpx.records import record, replace
from lpx.schedule import blocks, kinds, queries, rewriting
from lpx.schedule.errors import CoverageError, DependenceError, ExtentError, OptionError
from lpx.schedule.handles import BlockHandle, LoopHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.reduction import check_loop_above, check_reduces_inside, spatial_nest
from lpx.schedule.reduction_forms import Accumulation, Operation, check_any_accumulation, neutral_firsts
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.staging import allocate_beside, check_open_place, loops_binding, widest_without


@primitive
def rfactor(edit: Edit, block: BlockLike, loop: LoopHandle) -> BlockHandle:
    """Make an accumulation in as many parts as `loop` has iterations, then combine the parts.

    The part is a new last dimension. The block keeps its loops and accumulates parts; the returned block combines them,
    after it. Changes the order of combination, which must be associative and commutative.

    requires: the body is `C[..] = C[..] op value` for add, mul, min, max, and, or, xor, or the reduction of a tuple of
        values; `loop` has a constant extent and only reduce axes are bound to it; every part of a tuple gets a value,
        unless what the tuple starts from is seen to change no value; what the init reads outlives the parts.
    rewrite:
        for i, ro, ri: block C { init { C[i] = 0 } C[i] = C[i] + A[i, ro * 4 + ri] }
        ->
        for i, ro, ri: block C { init { C_parts[i, ri] = 0 } C_parts[i, ri] = C_parts[i, ri] + A[i, ro * 4 + ri] }
        for i, p: block C_combine { init { C[i] = 0 } C[i] = C[i] + C_parts[i, p] }
    """
    return factor(edit, block, loop, None)


@primitive
def cross_thread_reduce(
    edit: Edit, block: BlockLike, loop: LoopHandle, thread: ThreadAxis = "threadIdx.x"
) -> BlockHandle:
    """Make an accumulation in one part per thread of a GPU's block, then combine the parts; returns the block for that.

    As `rfactor`, with the parts in shared memory and `loop` bound to `thread`: when it ends, all threads have met.

    requires: what `rfactor` and `bind` require.
    rewrite (loop = ri):
        for ro, ri: block C { C[0] = C[0] + A[ro * 32 + ri] }
        ->
        for ro, ri bind(threadIdx.x): block C { C_parts[0, ri] = C_parts[0, ri] + A[ro * 32 + ri] }
        for p: block C_combine { C[0] = C[0] + C_parts[0, p] }
    """
    combine = factor(edit, block, loop, "shared")
    kinds.bind.function(edit, loop, thread)
    return combine


def factor(edit: Edit, block: BlockLike, loop: LoopHandle, scope: Scope | None) -> BlockHandle:
    """`rfactor` with the parts in memory of a kind, None for that of the result."""
    reduction = edit.block(block)
    factored = edit.loop(loop)
    accumulation = check_any_accumulation(reduction)
    around = queries.loops_around(edit.function, reduction)
    check_loop_above(reduction, factored, around)
    check_reduce_loop(edit.function, reduction, factored)
    blocks.check_only_writer(edit.function, reduction)
    targets = set(accumulation.targets)
    anchor = widest_without(edit.function, reduction, lambda s: bool(targets & _touched(s)))
    path = queries.path_to(edit.function, anchor)
    check_open_place(path)
    check_reduces_inside(reduction, queries.loops_of(path[:-1]))
    blocks.check_in_scope(edit.function, replace(reduction, init=None, body=accumulation.start), path)
    parts = _Parts(accumulation, factored, tuple(_part_buffer(t, factored.extent, scope) for t in accumulation.targets))
    partial = _partial_block(edit.function, reduction, parts, around)
    name = rewriting.unique_name(f"{reduction.name}_combine", rewriting.block_names(edit.function))
    combine = _combining_nest(reduction, parts, name, queries.loops_within(anchor))
    moved = traverse.transform(anchor, lambda s: partial if s is reduction else None)
    edit.function = rewriting.replace_statement(edit.function, anchor, traverse.sequence([moved, combine]))
    for target, buffer in zip(accumulation.targets, parts.buffers, strict=True):
        edit.function = allocate_beside(edit.function, buffer, target)
    return BlockHandle(name)


@record
class _Parts:
    """An accumulation that is to be made in one part per iteration of `loop`, in `buffers`."""

    accumulation: Accumulation
    loop: For
    buffers: tuple[Buffer, ...]


def _part_buffer(target: Buffer, count: Expr, scope: Scope | None) -> Buffer:
    return Buffer(f"{target.name}_parts", target.dtype, (*target.shape, count), scope=scope or target.scope)


def _touched(stmt: Stmt) -> set[Buffer]:
    return traverse.read_buffers(stmt) | traverse.written_buffers(stmt)


def check_reduce_loop(function: Function, block: Block, loop: For) -> None:
    """Refuse a loop that is not of the block's reduction alone, or has no constant extent."""
    if queries.constant_value(loop.extent) is None or queries.constant_value(loop.start) != 0:
        raise ExtentError(
            f"{loop.var.name} does not run over a constant range from 0", mark=loop, hint="split it first"
        )
    used_by = {
        axis.kind
        for axis, value in zip(block.axes, block.bindings, strict=True)
        if loop.var in expr_traverse.free_vars(value)
    }
    if used_by != {"reduce"}:
        raise OptionError(
            f"{loop.var.name} is not a loop of the reduction of {block.name} alone",
            hint="take a loop that only reduce axes are bound to",
            mark=loop,
        )
    for other in loops_binding(block, queries.loops_around(function, block), ("reduce",)):
        for bound in (other.start, other.extent):
            if not expr_traverse.free_vars(bound) <= set(function.symbols):
                raise ExtentError(f"the bounds of {other.var.name} depend on another loop", mark=other)


def _partial_block(function: Function, block: Block, parts: _Parts, around: Sequence[For]) -> Block:
    """`block` accumulating parts, the factored loop being a spatial axis and each other reduce loop an axis."""
    accumulation = parts.accumulation
    part = Axis(build.var(f"v{parts.loop.var.name}"), parts.loop.extent)
    loops = [f for f in loops_binding(block, around, ("reduce",)) if f is not parts.loop]
    rest = [Axis(build.var(f"v{f.var.name}"), f.extent, "reduce") for f in loops]
    inner: dict[Var, Expr] = {parts.loop.var: part.var}
    inner |= {f.var: _from(f, a.var) for f, a in zip(loops, rest, strict=True)}
    kept = [(a, v) for a, v in zip(block.axes, block.bindings, strict=True) if a.kind != "reduce"]
    replaced = {
        axis.var: expr_traverse.substitute(value, inner)
        for axis, value in zip(block.axes, block.bindings, strict=True)
        if axis.kind == "reduce"
    }
    always, sometimes = _split_predicate(block, inner)
    values = [expr_traverse.substitute(v, replaced) for v in accumulation.values]
    index = (*accumulation.indices, part.var)
    made = replace(
        block,
        axes=(*(a for a, _ in kept), part, *rest),
        bindings=(*(v for _, v in kept), parts.loop.var, *(_to(f) for f in loops)),
    )
    starts = _starts(accumulation)
    if not starts:
        _check_first_runs(function, block, parts, part, rest, sometimes)
        body = _from_first(parts, index, values, [a.var for a in rest])
        return replace(made, init=None, body=body)
    if sometimes:  # a part may have no run that the condition lets through, and must be started all the same
        condition = rewriting.conjunction(sometimes)
        values = [build.select(condition, v, start) for v, start in zip(values, starts, strict=True)]
    made = replace(made, predicate=rewriting.conjunction(always))
    if not rest:  # each part is one value
        stores = [Store(b, index, v, span=block.span) for b, v in zip(parts.buffers, values, strict=True)]
        return replace(made, init=None, body=traverse.sequence(stores))
    init = traverse.sequence([Store(b, index, start) for b, start in zip(parts.buffers, starts, strict=True)])
    return replace(made, init=init, body=accumulation.update(parts.buffers, index, values))


def _starts(accumulation: Accumulation) -> Sequence[Expr]:
    """Values that change nothing when they are combined, one per component; none where no such values are known."""
    if isinstance(accumulation, Operation):
        return [build.const(_identity(accumulation), accumulation.targets[0].dtype)]
    return neutral_firsts(accumulation)


def _from(loop: For, axis: Var) -> Expr:
    return axis if queries.constant_value(loop.start) == 0 else loop.start + axis


def _to(loop: For) -> Expr:
    return loop.var if queries.constant_value(loop.start) == 0 else loop.var - loop.start


def _from_first(parts: _Parts, index: tuple[Expr, ...], values: Sequence[Expr], rest: Sequence[Var]) -> Stmt:
    """Each part begins as its first value, where nothing is known that changes no value."""
    accumulation = parts.accumulation
    if not rest:
        return accumulation.assign(parts.buffers, index, values, lambda ins: ins)
    olds = [build.load(b, index) for b in parts.buffers]
    is_first = rewriting.conjunction([build.compare("eq", v, 0) for v in rest])

    def result(ins: Sequence[Expr]) -> Sequence[Expr]:
        combined = accumulation.combine(olds, ins)
        return [build.select(is_first, value, new) for value, new in zip(ins, combined, strict=True)]

    return accumulation.assign(parts.buffers, index, values, result)


def _check_first_runs(
    function: Function, block: Block, parts: _Parts, part: Axis, rest: Sequence[Axis], conditions: Sequence[Expr]
) -> None:
    """Refuse where a part may have no value at all."""
    analyzer = queries.analyzer_of(function).with_axis(part)
    first: dict[Var, Expr] = {a.var: build.const(0, dtypes.index) for a in rest}
    holds = [analyzer.prove(expr_traverse.substitute(c, first)) for c in conditions]
    if not all(holds) or not all(analyzer.prove(a.extent >= 1) for a in rest):
        raise CoverageError(
            f"some of the {parts.loop.extent} parts of {block.name} may get no value",
            mark=parts.loop,
            hint="factor a loop of which every iteration has work",
        )


def _split_predicate(block: Block, inner: dict[Var, Expr]) -> tuple[list[Expr], list[Expr]]:
    """The conditions of `block` that do not mention the loops of `inner`, and those that mention only them, over the
    axes that `inner` gives for them.
    """
    always: list[Expr] = []
    sometimes: list[Expr] = []
    bound = {v for value in block.bindings for v in expr_traverse.free_vars(value)}
    for condition in rewriting.conjuncts(block.predicate):
        mentioned = expr_traverse.free_vars(condition)
        if not mentioned & inner.keys():
            always.append(condition)
        elif mentioned & bound - inner.keys() - _symbols_in(block):
            raise DependenceError(
                f"a condition of {block.name} joins loops of the reduction with others",
                mark=block,
                hint="factor before splitting or fusing them",
            )
        else:
            sometimes.append(expr_traverse.substitute(condition, inner))
    return always, sometimes


def _symbols_in(block: Block) -> set[Var]:
    """Symbolic extents that the block's axes mention: no loops."""
    return {v for axis in block.axes for v in expr_traverse.free_vars(axis.extent)}


def _identity(accumulation: Operation) -> int | float | bool:
    """The value that changes nothing when it is combined."""
    dtype = accumulation.targets[0].dtype
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


def _combining_nest(block: Block, parts: _Parts, name: str, inside: Sequence[For]) -> Stmt:
    """The block that combines the parts, in fresh copies of the spatial loops and a loop over the parts."""
    accumulation = parts.accumulation
    loop_var = build.var("p")
    part = Axis(build.var("vp"), parts.loop.extent, "reduce")
    outer = [a.var for a in block.axes if a.kind != "reduce"]

    def complete(stmt: Stmt) -> Stmt | None:
        if not isinstance(stmt, Block):
            return None
        renamed: dict[Var, Expr] = {old: new.var for old, new in zip(outer, stmt.axes, strict=True)}
        index = tuple(expr_traverse.substitute(i, renamed) for i in accumulation.indices)
        made = [build.load(b, (*index, part.var)) for b in parts.buffers]
        combining = replace(
            stmt,
            axes=(*stmt.axes, part),
            bindings=(*stmt.bindings, loop_var),
            init=stmt.body,
            body=accumulation.update(accumulation.targets, index, made),
        )
        return For(loop_var, build.const(0, dtypes.index), parts.loop.extent, combining)

    return traverse.transform(spatial_nest(block, inside, name, accumulation.start), complete)
