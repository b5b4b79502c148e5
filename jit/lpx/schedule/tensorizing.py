"""tensorize: a loop nest that computes what a machine operation computes becomes that operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, Binary, Cast, Expr, Load, Unary, Var
from lpx.ir.nodes import Block, For, Function, Stmt, Store
from lpx.records import record, replace
from lpx.schedule import queries, rewriting
from lpx.schedule.errors import AccessError, BlockFormError, ExtentError, MatchError, NestingError, OptionError
from lpx.schedule.handles import BlockHandle, LoopHandle
from lpx.schedule.intrinsics import INTRINSICS, Intrinsic, Tile
from lpx.schedule.linear import linear
from lpx.schedule.primitive import primitive
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.staging import check_open_place


@primitive
def tensorize(edit: Edit, block: BlockLike, loop: LoopHandle, intrinsic: str) -> BlockHandle:
    """Compute what the nest of `loop` computes by one machine operation (`lpx.schedule.intrinsics` lists them).

    The order of a reduction and the rounding of its sums become the operation's. Whether the target has the operation
    is seen when it compiles.

    requires: `loop` and the loops inside it hold `block` alone and have the extents of the intrinsic's description, in
        its order; the block does what the description's does, with indices that follow these loops linearly, in every
        iteration, and does not start its reduction (see `decompose_reduction`).
    rewrite:
        for j in 0..16, k in 0..4: block C { C[vj] = C[vj] + int32(A[vk]) * int32(B[vj, vk]) }
        ->
        block C { C[ramp(vj, 1, 16)] = x86.vpdpbusd(C[ramp(vj, 1, 16)], ...) }
    """
    node, outer = edit.block(block), edit.loop(loop)
    found = INTRINSICS.get(intrinsic)
    if found is None:
        raise OptionError(f"there is no intrinsic {intrinsic!r}", hint=f"there are {', '.join(sorted(INTRINSICS))}")
    check_open_place(queries.path_to(edit.function, outer))
    nest = check_nest(outer, node)
    pattern = _Pattern.of(found)
    check_extents(nest, pattern)
    check_whole(node, nest)
    tiles = match(edit.function, node, nest, pattern)
    for f in nest:
        edit.ended(f.var, f"became part of {intrinsic}")
    edit.function = rewriting.replace_statement(edit.function, outer, _operation(node, nest, found, tiles))
    return BlockHandle(node.name)


@record
class _Pattern:
    """A description taken apart: its loops, and its store over these loops."""

    name: str
    loops: tuple[For, ...]
    store: Store
    axes: tuple[Axis, ...]

    @staticmethod
    def of(intrinsic: Intrinsic) -> _Pattern:
        """The pattern of an intrinsic, whose axes are bound to its loops one by one."""
        description = intrinsic.description()
        block = queries.blocks_within(description.body)[0]
        loops = queries.loops_around(description, block)
        return _Pattern(intrinsic.name, loops, cast("Store", block.body), block.axes)


def check_nest(outer: For, block: Block) -> tuple[For, ...]:
    """The loops from `outer` to `block`, which must hold nothing else."""
    nest: list[For] = []
    stmt: Stmt = outer
    while isinstance(stmt, For):
        if stmt.kind not in ("serial", "unrolled"):
            raise NestingError(f"loop {stmt.var.name} is {stmt.kind}", mark=stmt)
        nest.append(stmt)
        stmt = stmt.body
    if stmt is not block:
        raise NestingError(f"{outer.var.name} holds more than loops around {block.name}", mark=outer)
    return tuple(nest)


def check_extents(nest: Sequence[For], pattern: _Pattern) -> None:
    """Refuse loops of other extents than the description has."""
    wanted = [queries.constant_value(f.extent) for f in pattern.loops]
    got = [queries.constant_value(f.extent) for f in nest]
    if got != wanted:
        found = " x ".join(str(f.extent) for f in nest)
        raise ExtentError(
            f"{pattern.name} takes loops of {' x '.join(map(str, wanted))} iterations, not {found}",
            mark=nest[0],
            hint="split and reorder the loops of the block",
        )


def check_whole(block: Block, nest: Sequence[For]) -> None:
    """Refuse a block that starts its reduction, or that leaves out some iterations of the nest."""
    if block.init is not None:
        raise BlockFormError(
            f"{block.name} starts its reduction inside the operation", mark=block, hint="decompose_reduction first"
        )
    for loop in nest:
        if block.predicate is not None and loop.var in expr_traverse.free_vars(block.predicate):
            raise ExtentError(
                f"loop {loop.var.name} has a tail, where the operation would do too much",
                mark=block,
                hint="split by a divisor of the extent, split with tail='peel', or pad the tensors",
            )


def match(function: Function, block: Block, nest: Sequence[For], pattern: _Pattern) -> dict[str, Tile]:
    """The tiles of the description's tensors, by name.

    Raises: MatchError where the block does something else; AccessError where indices do not follow the loops linearly.
    """
    body = block.body
    if not isinstance(body, Store) or body.mask is not None:
        raise MatchError(f"{block.name} is not a single store, as {pattern.name} is", mark=block)
    kinds = [axis_kinds_of(block, f.var) for f in nest]
    if kinds != [{a.kind} for a in pattern.axes]:
        raise MatchError(
            f"the loops of {block.name} are not {', '.join(a.kind for a in pattern.axes)} ones in this order",
            mark=nest[0],
            hint="reorder them",
        )
    matcher = _Matcher(function, block, nest, pattern)
    if not (matcher.same_value(pattern.store.value, body.value) and matcher.bind(pattern.store, body)):
        raise MatchError(
            f"{block.name} does not compute what {pattern.name} computes",
            mark=block,
            hint=f"it computes {pattern.store}",
        )
    return matcher.tiles


def axis_kinds_of(block: Block, loop: Var) -> set[str]:
    """The kinds of the axes of `block` that are bound to `loop`."""
    return {
        axis.kind
        for axis, value in zip(block.axes, block.bindings, strict=True)
        if loop in expr_traverse.free_vars(value)
    }


class _Matcher:
    """Matches expressions of a description with those of a block, and learns which tensor stands for which."""

    def __init__(self, function: Function, block: Block, nest: Sequence[For], pattern: _Pattern) -> None:
        self._block, self._nest, self._pattern = block, nest, pattern
        self._analyzer = queries.analyzer_of(function, (*queries.loops_around(function, block),))
        self.tiles: dict[str, Tile] = {}

    def same_value(self, want: Expr, have: Expr) -> bool:
        """Whether `have` computes what `want` does; factors and terms may be the other way round."""
        if type(want) is not type(have) or want.dtype != have.dtype:
            return False
        match want, have:
            case Load(), Load():
                return self.bind(want, have)
            case Binary(op=op, a=a, b=b), Binary(op=other, a=c, b=d):
                return op == other and (self._both(a, b, c, d) or (op in ("add", "mul") and self._both(a, b, d, c)))
            case Unary(op=op, a=a), Unary(op=other, a=b):
                return op == other and self.same_value(a, b)
            case Cast(value=a), Cast(value=b):
                return self.same_value(a, b)
            case _:
                return expr_traverse.structural_equal(want, have)

    def _both(self, a: Expr, b: Expr, c: Expr, d: Expr) -> bool:
        before = dict(self.tiles)
        if self.same_value(a, c) and self.same_value(b, d):
            return True
        self.tiles = before
        return False

    def bind(self, want: Load | Store, have: Load | Store) -> bool:
        """Whether an access of the description stands for an access of the block: it moves with the same loops."""
        tile = Tile(have.buffer, have.indices, tuple(self._steps(have.buffer, i) for i in have.indices))
        used = {v for index in want.indices for v in expr_traverse.free_vars(index)}
        for position, axis in enumerate(self._pattern.axes):
            moves = any(steps[position] for steps in tile.steps)
            if moves != (axis.var in used) and (moves or isinstance(want, Store)):
                return False
        known = self.tiles.setdefault(want.buffer.name, tile)
        return known.buffer is tile.buffer and all(
            expr_traverse.structural_equal(a, b) for a, b in zip(known.indices, tile.indices, strict=True)
        )

    def _steps(self, buffer: Buffer, index: Expr) -> tuple[int, ...]:
        """By how much an index grows with each loop of the nest."""
        variables = [f.var for f in self._nest]
        bound = expr_traverse.substitute(index, queries.axis_values(self._block))
        form = linear(self._analyzer, bound, variables)
        steps = dict.fromkeys(variables, 0)
        for term in () if form is None else form.terms:
            step = queries.constant_value(term.coefficient)
            if not isinstance(term.atom, Var) or step is None:
                form = None
                break
            steps[term.atom] = step
        if form is None:
            raise AccessError(
                f"an index of {buffer.name} does not follow the loops linearly: {index}", mark=self._block
            )
        return tuple(steps[v] for v in variables)


def _operation(block: Block, nest: Sequence[For], intrinsic: Intrinsic, tiles: dict[str, Tile]) -> Stmt:
    """The block that runs the implementation once per iteration of the loops around the nest.

    Its axes stand for the first element of the tile, where they stood for each element in turn.
    """
    first: dict[Var, Expr] = {f.var: f.start for f in nest}
    bindings = tuple(expr_traverse.substitute(v, first) for v in block.bindings)
    if not intrinsic.per_warp:
        body = intrinsic.implementation(tiles, build.const(0))
        return replace(block, bindings=bindings, body=body)
    lane = Axis(build.var("vlane"), build.const(32))
    loop = build.var("lane")
    body = intrinsic.implementation(tiles, lane.var)
    whole = replace(block, axes=(*block.axes, lane), bindings=(*bindings, loop), body=body)
    return For(loop, build.const(0), lane.extent, whole, kind="bound", thread="lane")
