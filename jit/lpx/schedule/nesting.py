"""How loops stand inside each other, and which orders of them are legal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lpx.expr import traverse
from lpx.expr.nodes import Expr
from lpx.ir import nodes
from lpx.ir.nodes import Block, For, Function, Stmt
from lpx.schedule import queries
from lpx.schedule.dependence import Conflict
from lpx.schedule.errors import CoverageError, DependenceError, ExtentError, LoopKindError, NestingError, OptionError
from lpx.schedule.linear import ZERO


def check_over_symbols(function: Function, point: Expr, loop: For) -> None:
    """Refuses an expression that mentions anything but symbolic extents."""
    if point.dtype != ZERO.dtype or not traverse.free_vars(point) <= set(function.symbols):
        raise OptionError(
            "at is not an index expression over symbolic extents", hint="use integers and s.symbol(name)", mark=loop
        )


def check_serial(loop: For) -> None:
    """Refuses a loop that is already parallel, vectorized, unrolled or bound."""
    if loop.kind != "serial":
        raise LoopKindError(
            f"loop {loop.var.name} is {loop.kind}", hint="change the shape of loops before their kind", mark=loop
        )


def check_directly_nested(chain: Sequence[For]) -> None:
    """Refuses loops of which one is not the whole body of the one before."""
    for outer, inner in pairwise(chain):
        if outer.body is not inner:
            found = f"it holds a {_described(outer.body)}"
            raise NestingError(
                f"loop {inner.var.name} is not directly inside loop {outer.var.name}: {found}",
                hint="give loops that are each the whole body of the one before, outermost first",
                mark=outer,
            )


def _described(stmt: Stmt) -> str:
    match stmt:
        case For(var=var):
            return f"loop {var.name}"
        case Block(name=name):
            return f"block {name}"
        case nodes.Seq(stmts=stmts):
            return f"sequence of {len(stmts)} statements"
        case nodes.Alloc(buffer=buffer):
            return f"allocation of {buffer.name}"
        case _:
            return type(stmt).__name__.lower()


def check_rectangular(chain: Sequence[For]) -> None:
    """Refuses loops whose bounds depend on a loop further out in the chain."""
    check_bounds_follow(list(reversed(chain)))


def check_starts_kept(function: Function, chain: Sequence[For]) -> None:
    """Refuses to join a loop of a reduction that may be empty with a loop of other axes.

    An empty reduction starts before its own loops; there would be none left to start before.
    """
    analyzer = queries.analyzer_of(function)
    for block in queries.blocks_within(chain[-1].body):
        kinds = {kind for f in chain for kind in _axis_kinds(block, f)}
        if block.init is None or len(kinds) < 2 or "reduce" not in kinds:
            continue
        for axis in block.axes:
            if axis.kind == "reduce" and not analyzer.prove(axis.extent >= 1):
                raise CoverageError(
                    f"the reduction of {block.name} over {axis.var.name} may be empty, and would not even start",
                    hint="decompose_reduction first, or fuse other loops",
                    mark=block,
                )


def check_starts_once(function: Function, loop: For) -> None:
    """Refuses to cut a loop inside the loops of a reduction that may be empty.

    Two blocks would then begin in these loops, and each waits for a first iteration to start in.
    """
    analyzer = queries.analyzer_of(function)
    for block in queries.blocks_within(loop):
        if block.init is None:
            continue
        around = queries.loops_around(function, block)
        outer = [f for f in around[: around.index(loop)] if "reduce" in _axis_kinds(block, f)]
        if outer and not all(analyzer.prove(a.extent >= 1) for a in block.axes if a.kind == "reduce"):
            raise CoverageError(
                f"the reduction of {block.name} may be empty, and would not start once {loop.var.name} is cut",
                hint=f"decompose_reduction first, or cut {outer[0].var.name}",
                mark=block,
            )


def _axis_kinds(block: Block, loop: For) -> set[str]:
    return {
        axis.kind
        for axis, value in zip(block.axes, block.bindings, strict=True)
        if loop.var in traverse.free_vars(value)
    }


def check_bounds_follow(chain: Sequence[For]) -> None:
    """Refuses an order of loops, outermost first, in which the bounds of one depend on one further in."""
    for position, node in enumerate(chain):
        inside = {f.var for f in chain[position + 1 :]}
        for bound in (node.start, node.extent):
            used = traverse.free_vars(bound) & inside
            if used:
                name = next(iter(used)).name
                raise ExtentError(f"the bounds of loop {node.var.name} depend on loop {name}", mark=node)


def chain_of(function: Function, wanted: Sequence[For]) -> tuple[For, ...]:
    """The loops from the outermost to the innermost of `wanted`. Refuses when anything but loops stands between."""
    paths = {n.var: queries.path_to(function, n) for n in wanted}
    innermost = max(paths.values(), key=len)
    for node in wanted:
        if node not in innermost:
            raise NestingError(
                f"loops {node.var.name} and {innermost[-1].var.name} are not inside each other"
                if isinstance(innermost[-1], For)
                else f"loop {node.var.name} stands alone",
                mark=node,
            )
    start = min(innermost.index(n) for n in wanted)
    chain = innermost[start:]
    loops_only = tuple(s for s in chain if isinstance(s, For))
    if len(loops_only) != len(chain):
        between = next(s for s in chain if not isinstance(s, For))
        raise NestingError(
            f"a {_described(between)} stands between loops {loops_only[0].var.name} and {loops_only[-1].var.name}",
            hint="only loops that are each the whole body of the one before can change places",
            mark=between,
        )
    return loops_only


def check_order_kept(before: Sequence[For], after: Sequence[For], conflicts: Sequence[Conflict]) -> None:
    """Refuses an order that runs two iterations touching the same element the other way round.

    Loops that a conflict pins, and a reduction's own loops, may go anywhere; the rest must keep their order.
    """
    for conflict in conflicts:
        kept = [f for f in before if not conflict.allows(f.var)]
        moved = [f for f in after if not conflict.allows(f.var)]
        if any(a is not b for a, b in zip(kept, moved, strict=True)):
            raise DependenceError(
                f"iterations of loops {', '.join(f.var.name for f in kept)} touch the same elements of "
                f"{conflict.buffer.name}",
                hint="keep these loops in their order",
                mark=conflict.second.path[-1],
            )
