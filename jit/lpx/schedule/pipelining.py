"""Pipelines: memory in several versions, and statements of one iteration spread over several."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Axis, Binary, Expr, Load, Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Alloc, Block, For, Function, Seq, Stmt
from lpx.records import record, replace
from lpx.schedule import queries, rewriting
from lpx.schedule.dependence import pinned
from lpx.schedule.errors import AccessError, DependenceError, NestingError, OptionError
from lpx.schedule.handles import LoopHandle
from lpx.schedule.linear import ZERO
from lpx.schedule.nesting import check_serial
from lpx.schedule.primitive import primitive
from lpx.schedule.queries import Access
from lpx.schedule.regions import Strip
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.staging import check_open_place
from lpx.schedule.staging_boxes import touched_strips
from lpx.schedule.storage import check_one_buffer

_SYNCHRONISES = (nodes.Barrier, nodes.AsyncCommit, nodes.AsyncWait)


@primitive
def double_buffer(edit: Edit, block: BlockLike, loop: LoopHandle, count: int = 2) -> None:
    """Keep what `block` computes in `count` versions, one per iteration of `loop` in turn.

    An iteration may then fill its version while another one's is still read: what `software_pipeline` needs. A version
    has room for what one iteration touches.

    requires: the block writes one buffer, which exists inside the serial `loop` only, without strides of its own.
    rewrite (count = 2):
        for k { alloc T[n]; for i in 0..4 { block T { T[vi] = A[vi] } }; block C { ... T[vj] } }
        ->
        alloc T[2, 4]; for k { ... block T(vk = k) { T[vk % 2, vi - vk * 4] = A[vi] }; block C(vk = k) { ... } }
    """
    buffer, node = check_one_buffer(edit.block(block)), edit.loop(loop)
    check_serial(node)
    path = queries.path_to(edit.function, node)
    check_open_place(path)
    if count < 2:
        raise OptionError(f"{count} is no number of versions", hint="give 2 or more")
    check_private(buffer, node)
    found = [a for a in queries.accesses(node.body, path) if a.buffer is buffer]
    box = _box(buffer, touched_strips(edit.function, (*path, node.body), found, buffer.rank))
    versions = replace(buffer, shape=(build.const(count), *(extent for _, extent in box)))
    turning = _Versions(buffer, versions, node, count, tuple(low for low, _ in box), queries.loops_of(path))
    body = turning.statement(rewriting.remove_alloc(node.body, buffer))
    edit.function = rewriting.replace_statement(edit.function, node, Alloc(versions, replace(node, body=body)))


def _box(buffer: Buffer, strips: Sequence[Strip | None]) -> list[tuple[Expr, Expr]]:
    """First index and number of indices per dimension, of what is touched where that is a constant number."""
    box: list[tuple[Expr, Expr]] = []
    for strip, extent in zip(strips, buffer.shape, strict=True):
        is_small = strip is not None and strip.step == 1 and queries.constant_value(strip.count) is not None
        box.append((strip.low, strip.count) if strip is not None and is_small else (ZERO, extent))
    return box


def check_private(buffer: Buffer, loop: For) -> None:
    """Refuse a buffer that outlives an iteration of `loop`, or is laid out by hand."""
    if buffer not in queries.allocated_within(loop):
        raise AccessError(
            f"{buffer.name} outlives an iteration of loop {loop.var.name}",
            mark=loop,
            hint="compute_at puts a tensor into a loop",
        )
    if buffer.strides is not None or buffer.layout is not None:
        raise AccessError(f"{buffer.name} has strides of its own", hint="double_buffer first")


@record
class _Versions:
    """Accesses to `old` become accesses to the version of `new` that belongs to an iteration of `loop`.

    `lows` are the first indices touched in an iteration, over the loops `around`, of which `loop` is the last.
    """

    old: Buffer
    new: Buffer
    loop: For
    count: int
    lows: tuple[Expr, ...]
    around: tuple[For, ...]

    def statement(self, stmt: Stmt) -> Stmt:
        """`stmt`, whose blocks get axes for the iteration where they touch the buffer."""
        if isinstance(stmt, Block):
            return self._block(stmt)
        if not traverse.substatements(stmt):
            return self._accesses(stmt, {})
        return traverse.map_children(stmt, self.statement, lambda e: e)

    def _block(self, block: Block) -> Block:
        if self.old not in traverse.read_buffers(block) | traverse.written_buffers(block):
            return block
        if len(queries.blocks_within(block)) > 1:
            raise NestingError(f"block {block.name} holds other blocks", mark=block)
        seen = {v for low in self.lows for v in expr_traverse.free_vars(low)} | {self.loop.var}
        around = [f for f in self.around if f.var in seen]
        axes = tuple(Axis(build.var(f"v{f.var.name}"), _end(f), "sequential") for f in around)
        values: dict[Var, Expr] = {f.var: a.var for f, a in zip(around, axes, strict=True)}
        return replace(
            block,
            axes=(*axes, *block.axes),
            bindings=(*(f.var for f in around), *block.bindings),
            init=None if block.init is None else self._accesses(block.init, values),
            body=self._accesses(block.body, values),
        )

    def _accesses(self, stmt: Stmt, values: dict[Var, Expr]) -> Stmt:
        number = self.loop.var - self.loop.start if queries.constant_value(self.loop.start) != 0 else self.loop.var
        version, *lows = (expr_traverse.substitute(e, values) for e in (number % self.count, *self.lows))
        memo: dict[Expr, Expr] = {}

        def moved(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
            own = (i if queries.constant_value(low) == 0 else i - low for i, low in zip(indices, lows, strict=True))
            return (version, *own)

        def on_node(expr: Expr) -> Expr | None:
            if isinstance(expr, Load | AddressOf) and expr.buffer is self.old:
                return replace(expr, buffer=self.new, indices=moved(expr.indices))
            return None

        def on_stmt(node: Stmt) -> Stmt | None:
            match node:
                case nodes.Store(buffer=b, indices=i) | nodes.AtomicUpdate(buffer=b, indices=i) if b is self.old:
                    return replace(node, buffer=self.new, indices=moved(i))
                case nodes.AsyncCopy(target=b, target_indices=i) if b is self.old:
                    return replace(node, target=self.new, target_indices=moved(i))
                case _:
                    return None

        return traverse.transform(stmt, on_stmt, lambda e: expr_traverse.transform(e, on_node, memo))


def _end(loop: For) -> Expr:
    return loop.extent if queries.constant_value(loop.start) == 0 else loop.start + loop.extent


@primitive
def software_pipeline(edit: Edit, loop: LoopHandle, stages: Sequence[int], order: Sequence[int] | None = None) -> None:
    """Note on a loop that its statements may run in a pipeline; results stay those of the loop as it is written.

    Statement k of iteration i runs in step i + stages[k]; within a step statements run by `order` (default: as they
    stand). A target without pipelines runs the loop as it is.

    requires: a serial loop around a sequence; a statement that needs another of its iteration has a later stage, or the
        same stage and a later order; no iteration overwrites, in this schedule, what an earlier one still reads.
    rewrite: for k { copy; compute } -> for k pipeline((0, 0), (1, 1)) { copy; compute }
    """
    node = edit.loop(loop)
    check_serial(node)
    body = node.body
    if not isinstance(body, Seq):
        raise NestingError(
            f"loop {node.var.name} does not hold a sequence of statements",
            mark=node,
            hint="double_buffer takes memory out of the loop",
        )
    places = check_places(len(body.stmts), stages, order)
    check_pipeline(edit.function, node, body.stmts, places)
    edit.function = rewriting.replace_statement(edit.function, node, replace(node, stages=places))


def check_places(count: int, stages: Sequence[int], order: Sequence[int] | None) -> tuple[tuple[int, int], ...]:
    """Stage and order of each statement. Refuses numbers that are not one stage and one place per statement."""
    ranks = range(count) if order is None else order
    if len(stages) != count or sorted(ranks) != list(range(count)) or min(stages) != 0:
        raise OptionError(
            f"stages {tuple(stages)} in order {tuple(ranks)} do not fit {count} statements",
            hint="give each a stage from 0 on, and a place of its own in the order",
        )
    return tuple(zip(stages, ranks, strict=True))


def check_pipeline(function: Function, loop: For, stmts: Sequence[Stmt], places: Sequence[tuple[int, int]]) -> None:
    """Refuse places at which a statement would run before another one that it has to wait for."""
    prefix = queries.path_to(function, loop)
    accesses = [queries.accesses(s, (*prefix, loop.body)) for s in stmts]
    for a, first in enumerate(stmts):
        for b, second in enumerate(stmts[a + 1 :], a + 1):
            meetings = _meetings(function, loop, accesses[a], accesses[b])
            if isinstance(first, _SYNCHRONISES) or isinstance(second, _SYNCHRONISES) or meetings:
                _check_waits(loop, second, places[a], places[b], 0)
            for distance in meetings:
                if distance is not None:
                    _check_waits(loop, first, places[b], places[a], distance)


def _check_waits(loop: For, later: Stmt, before: tuple[int, int], after: tuple[int, int], distance: int) -> None:
    """Refuse where what runs at `after`, `distance` iterations later, would not come after what runs at `before`."""
    if (before[0], before[1]) < (after[0] + distance, after[1]):
        return
    what = "its own iteration" if distance == 0 else f"the iteration {distance} before"
    raise DependenceError(
        f"in this pipeline a statement of loop {loop.var.name} would run before one of {what} that it waits for",
        mark=later,
        hint="give it a later stage" if distance == 0 else "double_buffer with more versions",
    )


def _meetings(function: Function, loop: For, first: Sequence[Access], second: Sequence[Access]) -> list[int | None]:
    """For each pair of accesses that touch one element: how many iterations apart at least, None for none."""
    found: list[int | None] = []
    outside = queries.loops_around(function, loop)
    for one in first:
        for other in second:
            if one.buffer is other.buffer and (one.is_write or other.is_write):
                is_same = loop.var in pinned(function, one, other, outside)
                found.append(None if is_same else _distance(loop, one, other))
    return found


def _distance(loop: For, one: Access, other: Access) -> int:
    """How far apart, at least, two iterations are that use one version of a buffer; 1 without versions."""
    versions = {_version(loop.var, indices) for access in (one, other) for indices in _places(access)}
    return versions.pop()[0] if len(versions) == 1 else 1


def _places(access: Access) -> list[tuple[Expr, ...]]:
    """The indices of an access over the loops; where a row or an address is handed over, those of its beginning."""
    if access.indices is not None:
        return [access.indices]
    stmt = access.path[-1]
    found = [
        e.indices
        for root in traverse.expressions(stmt)
        for e in expr_traverse.walk(root)
        if isinstance(e, AddressOf) and e.buffer is access.buffer
    ]
    if isinstance(stmt, nodes.AsyncCopy):
        found.append(stmt.target_indices if access.is_write else stmt.source_indices)
    return [tuple(queries.bound_along(access.path, i) for i in indices) for indices in found]


def _version(var: Var, indices: Sequence[Expr]) -> tuple[int, int]:
    """n and the dimension in which the index is `var % n`, as `double_buffer` makes it; 1 where there is none."""
    return max([(1, 0), *((_divisor(var, i), d) for d, i in enumerate(indices))])


def _divisor(var: Var, index: Expr) -> int:
    """n for an index `var % n`, or `(var - start) % n`; 0 for any other."""
    if not isinstance(index, Binary) or index.op != "floormod":
        return 0
    dividend = index.a
    if isinstance(dividend, Binary) and dividend.op == "sub":
        dividend = dividend.a
    return (queries.constant_value(index.b) or 0) if dividend is var else 0
