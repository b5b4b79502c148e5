"""Moving a consumer into a loop of its producer: the region it runs on, and why it may run there."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.arith.analyzer import Analyzer
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, Expr, Var
from lpx.ir import traverse
from lpx.ir.nodes import Alloc, Block, For, Function, Stmt
from lpx.records import record, replace
from lpx.schedule import blocks, kinds, moving, queries, regions, rewriting
from lpx.schedule.dependence import pinned
from lpx.schedule.errors import AccessError, ConsumerError, CoverageError, DependenceError, ProducerError
from lpx.schedule.queries import Access, Path
from lpx.schedule.regions import AxisRange, Strip


def place_behind(function: Function, block: Block, loop: For) -> Function:
    """`reverse_compute_at`: the new function, after every check."""
    path, target = queries.path_to(function, block), queries.path_to(function, loop)
    check_after(function, block, path, loop)
    moving.check_open_path(path, target)
    blocks.check_plain_domain(function, block)
    made = _writes_inside(loop, target)
    check_untouched(block, path, target, {a.buffer for a in made})
    _check_outputs_in_scope(function, block, (*target, *moving.allocations_of(loop)))
    blocks.check_in_scope(function, block, (*target, *moving.allocations_of(loop)))
    kept = moving.kept_bindings(block, path, target)
    ranges = completed_ranges(function, block, path, loop, target, made, kept)
    nest = regions.nest(block, ranges, kept)
    last = queries.body_statements(loop)[-1]
    moved = rewriting.replace_statement(rewriting.insert_after(function, last, nest), block, None)
    kinds.recheck(moved, [f.var for f in queries.loops_of(target)])
    return moved


def check_after(function: Function, block: Block, path: Path, loop: For) -> None:
    """Refuses a block that does not run after the loop."""
    if loop in path:
        raise ConsumerError(f"{block.name} is inside loop {loop.var.name} already", mark=block)
    order = list(traverse.walk(function.body))
    if order.index(block) < order.index(loop):
        raise ConsumerError(f"{block.name} runs before loop {loop.var.name}", hint="use compute_at", mark=block)


def _writes_inside(loop: For, target: Path) -> list[Access]:
    return [a for a in queries.accesses(loop, target[:-1]) if a.is_write]


def check_untouched(block: Block, path: Path, target: Path, made: set[Buffer]) -> None:
    """Refuses where a statement between the loop and the block touches what it writes, or writes what it reads.

    Tensors that the loop itself writes (`made`) are looked at by `completed_ranges`.
    """
    outputs, inputs = set(blocks.outputs_of(block)), blocks.inputs_of(block) - made
    for root in moving.between(path, target):
        for stmt in traverse.walk(root):
            if stmt is block or traverse.substatements(stmt) or _is_within(stmt, block):
                continue
            touched = (traverse.read_buffers(stmt) | traverse.written_buffers(stmt)) & outputs
            found = touched or traverse.written_buffers(stmt) & inputs
            if found:
                name = next(iter(found)).name
                raise DependenceError(
                    f"{name}, which {block.name} uses, is used between the loop and the block", mark=stmt
                )


def _is_within(stmt: Stmt, block: Block) -> bool:
    return any(s is stmt for s in traverse.walk(block))


def _check_outputs_in_scope(function: Function, block: Block, where: Path) -> None:
    at_hand = {s.buffer for s in where if isinstance(s, Alloc)} | set(queries.param_buffers(function))
    for buffer in blocks.outputs_of(block):
        if buffer not in at_hand:
            raise ConsumerError(f"{buffer.name} exists only around the present place of {block.name}", mark=block)


@record(eq=False)
class _Made:
    """One dimension of a tensor: what an iteration of the loop completes of it, and what all iterations do."""

    index: Expr
    part: Strip
    all: Strip
    is_split: bool


def completed_ranges(
    function: Function,
    block: Block,
    path: Path,
    loop: For,
    target: Path,
    made: Sequence[Access],
    kept: dict[Var, Expr],
) -> dict[Var, AxisRange]:
    """The values of each axis of `block` whose inputs one iteration of `loop` completes.

    Refuses unless every instance runs in exactly one iteration, after all that it reads.
    """
    shared = moving.shared_length(path, target)
    outer = queries.loops_of(target[shared:])
    analyzer = queries.analyzer_of(function, _loops_of_accesses(made, path))
    strips: dict[Var, tuple[Axis, Strip]] = {}
    homes = moving.home_strips(analyzer, block, path, shared)
    check_takes_all(analyzer, block, path, shared)
    reads = [a for a in queries.accesses(block, path[:-1]) if not a.is_write and a.buffer in {w.buffer for w in made}]
    if not reads:
        raise ConsumerError(f"{block.name} reads nothing that loop {loop.var.name} makes", mark=block)
    for buffer in dict.fromkeys(a.buffer for a in reads):
        dimensions = _completed(function, analyzer, buffer, loop, outer, made)
        for load in queries.loads_of(block, buffer):
            for dimension, index in zip(dimensions, load.indices, strict=True):
                _restrict(analyzer, block, dimension, index, strips, homes)
    _check_one_axis_per_loop(block, [strip for _, strip in strips.values()], {f.var for f in outer})
    ranges: dict[Var, AxisRange] = {}
    for axis in block.axes:
        if axis.var in kept:
            continue
        found = strips.get(axis.var)
        if found is not None and axis.kind == "reduce":
            check_reduction_order(analyzer, block, axis, found[1], outer)
        ranges[axis.var] = regions.clip(analyzer, homes[axis.var] if found is None else found[1], axis)
    return ranges


def check_takes_all(analyzer: Analyzer, block: Block, path: Path, shared: int) -> None:
    """Refuses a block of which other blocks are parts, by tail='peel' or partition: new loops would run those, too."""
    around = {f.var for f in queries.loops_of(path[:shared])}
    inner = queries.loops_of(path[shared:])
    for axis, value in zip(block.axes, block.bindings, strict=True):
        if axis.kind == "sequential" or expr_traverse.free_vars(value) & around:
            continue
        strip = regions.strip_of(analyzer, value, inner)
        is_whole = (
            strip is not None and analyzer.prove(strip.low <= 0) and analyzer.prove(strip.high >= axis.extent - 1)
        )
        if not is_whole:
            raise CoverageError(
                f"{block.name} takes a part of the values of its axis {axis.var.name} only",
                hint="do this before peeling or partitioning its loops",
                mark=block,
            )


def _check_one_axis_per_loop(block: Block, strips: Sequence[Strip], moved: set[Var]) -> None:
    """Refuses a block of which one loop would restrict two axes, as in `B[vi] + B[vj]`: only a diagonal would run."""
    used: set[Var] = set()
    for strip in strips:
        variables = expr_traverse.free_vars(strip.low) & moved
        if variables & used:
            name = next(iter(variables & used)).name
            raise ProducerError(
                f"{block.name} reads elements that different iterations of loop {name} make", mark=block
            )
        used |= variables


def _loops_of_accesses(accesses: Sequence[Access], path: Path) -> list[For]:
    loops = {f.var: f for a in accesses for f in queries.loops_of(a.path)}
    return [*loops.values(), *(f for f in queries.loops_of(path) if f.var not in loops)]


def _completed(
    function: Function, analyzer: Analyzer, buffer: Buffer, loop: For, outer: Sequence[For], made: Sequence[Access]
) -> list[_Made]:
    """Per dimension of a tensor made in `loop`: the part that one iteration completes.

    Refuses a producer that is not the only one, or whose reduction goes on outside the loop, or whose iterations write
    overlapping parts, or parts with gaps.
    """
    write = next(a for a in made if a.buffer is buffer)
    producer = write.block
    if producer is None or write.indices is None:
        raise ProducerError(f"{buffer.name} is not made by a block", mark=write.path[-1])
    blocks.check_only_writer(function, producer)
    blocks.check_plain_domain(function, producer)
    moved = {f.var for f in outer}
    for axis, value in zip(producer.axes, producer.bindings, strict=True):
        if axis.kind == "reduce" and expr_traverse.free_vars(value) & moved:
            raise ProducerError(
                f"{producer.name} adds up over {axis.var.name} outside loop {loop.var.name}",
                hint="take a loop that has all reduce loops of the producer inside it",
                mark=producer,
            )
    outside = queries.loops_of(write.path[: write.path.index(outer[0])])
    if not moved <= pinned(function, write, write, outside):
        raise CoverageError(f"iterations of loop {loop.var.name} write the same elements of {buffer.name}", mark=loop)
    inner = queries.loops_of(write.path[write.path.index(loop) + 1 :])
    found: list[_Made] = []
    for index in write.indices:
        part = regions.strip_of(analyzer, index, inner)
        every = regions.strip_of(analyzer, index, (*outer, *inner))
        if part is None or every is None or not part.is_exact or not every.is_exact:
            raise AccessError(
                f"the part of {buffer.name} that one iteration of loop {loop.var.name} makes is not a plain range",
                mark=producer,
            )
        found.append(_Made(index, part, every, bool(expr_traverse.free_vars(index) & moved)))
    _check_independent_dimensions(found, moved, buffer, loop)
    return found


def _check_independent_dimensions(found: Sequence[_Made], moved: set[Var], buffer: Buffer, loop: For) -> None:
    used: set[Var] = set()
    for dimension in found:
        variables = expr_traverse.free_vars(dimension.index) & moved
        if variables & used:
            raise AccessError(f"one loop runs over two dimensions of {buffer.name}", mark=loop)
        used |= variables


def _restrict(
    analyzer: Analyzer,
    block: Block,
    dimension: _Made,
    index: Expr,
    strips: dict[Var, tuple[Axis, Strip]],
    homes: dict[Var, Strip],
) -> None:
    """Enter what a read at `index` of a dimension says about the block's axes."""
    if not dimension.is_split:
        return
    unit = regions.unit_axis(analyzer, block, index)
    if unit is None:
        raise AccessError(
            f"{block.name} does not read one element per instance along a split dimension",
            hint="the index must be an axis, or an axis plus a constant",
            mark=block,
        )
    axis, offset = unit
    part = replace(dimension.part, low=analyzer.simplify(dimension.part.low - offset))
    every = replace(dimension.all, low=analyzer.simplify(dimension.all.low - offset))
    before = strips.get(axis.var)
    if before is not None and not _same(analyzer, before[1], part):
        raise ProducerError(
            f"{block.name} reads elements that different iterations make",
            hint="compute the producer at a loop of the consumer instead (compute_at)",
            mark=block,
        )
    home = homes[axis.var]
    if not regions.lies_within(analyzer, home, every):
        raise CoverageError(f"some values of axis {axis.var.name} of {block.name} would never run", mark=block)
    if not regions.is_whole(analyzer, axis, home) and not regions.lies_within(analyzer, every, home):
        raise CoverageError(f"values of axis {axis.var.name} of {block.name} belong to other iterations", mark=block)
    strips[axis.var] = (axis, part)


def _same(analyzer: Analyzer, a: Strip, b: Strip) -> bool:
    return a.step == b.step and analyzer.equal(a.low, b.low) and analyzer.equal(a.count, b.count)


def check_reduction_order(analyzer: Analyzer, block: Block, axis: Axis, strip: Strip, outer: Sequence[For]) -> None:
    """Refuses a reduction that the iterations would add up in another order."""
    stepping = [f for f in outer if f.var in expr_traverse.free_vars(strip.low)]
    ahead = analyzer.with_range(stepping[0].var, None, None) if len(stepping) == 1 else analyzer
    if len(stepping) != 1:
        raise CoverageError(f"{block.name} would add up over {axis.var.name} in another order", mark=block)
    further = expr_traverse.substitute(strip.low, {stepping[0].var: stepping[0].var + 1})
    if not ahead.prove(further > strip.low):
        raise CoverageError(f"{block.name} would add up over {axis.var.name} in another order", mark=block)
