"""Moving a block from one place to another: what lies between, and what that allows."""

from __future__ import annotations

from lpx.arith.analyzer import Analyzer
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Expr, Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Alloc, Block, For, Function, Stmt
from lpx.schedule import blocks, queries, regions
from lpx.schedule.errors import AccessError, DependenceError, LoopKindError, NestingError, ProducerError
from lpx.schedule.queries import Path
from lpx.schedule.regions import Strip


def check_open_path(path: Path, target: Path) -> None:
    """Refuses where anything but loops, sequences and allocations stands between two places."""
    inside = next((s for s in (*path[:-1], *target) if isinstance(s, Block)), None)
    if inside is not None:
        raise NestingError(f"block {inside.name} holds other blocks, which cannot move", mark=inside)
    for one, other in ((path[:-1], target), (target, path)):
        for stmt in one[shared_length(one, other) :]:
            if not isinstance(stmt, For | nodes.Seq | Alloc):
                raise NestingError(
                    f"a {type(stmt).__name__.lower()} stands between the block and the loop",
                    hint="only blocks in loops move",
                    mark=stmt,
                )
            if isinstance(stmt, For) and one is target and stmt.kind == "vectorized":
                raise LoopKindError(
                    f"loop {stmt.var.name} is vectorized", hint="place blocks before vectorizing", mark=stmt
                )


def shared_length(one: Path, other: Path) -> int:
    """How many statements two paths have in common from the root."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a is not b:
            break
        count += 1
    return count


def allocations_of(loop: For) -> list[Stmt]:
    """The allocations between a loop and the statements of its body."""
    found: list[Stmt] = []
    body = loop.body
    while isinstance(body, Alloc):
        found.append(body)
        body = body.body
    return found


def check_before(function: Function, block: Block, path: Path, target: Path) -> None:
    """Refuses a block that does not run before the statement at the end of `target`."""
    order = list(traverse.walk(function.body))
    if target[-1] not in path and order.index(block) > order.index(target[-1]):
        raise ProducerError(f"{block.name} runs after the loop that reads it", mark=block)


def check_unchanged(block: Block, path: Path, target: Path) -> None:
    """Refuses where a statement run between the old and the new place writes what the block reads."""
    inputs = blocks.inputs_of(block)
    for root in between(path, target):
        for stmt in traverse.walk(root):
            if stmt is block or traverse.substatements(stmt):
                continue
            changed = traverse.written_buffers(stmt) & inputs
            if changed:
                name = next(iter(changed)).name
                raise DependenceError(
                    f"{name}, which {block.name} reads, is written between its old place and the new one", mark=stmt
                )


def between(path: Path, target: Path) -> tuple[Stmt, ...]:
    """The statements that run between two places, with those around either: siblings under the common parent."""
    shared = shared_length(path, target)
    parent = path[shared - 1]
    if not isinstance(parent, nodes.Seq):
        return (parent,)
    positions = sorted(parent.stmts.index(p[shared]) for p in (path, target) if len(p) > shared)
    return parent.stmts[positions[0] : positions[-1] + 1]


def kept_bindings(block: Block, path: Path, target: Path) -> dict[Var, Expr]:
    """The bindings of sequential axes, which stay. Refuses to take a block out of its scan's loop."""
    around = {f.var for f in queries.loops_of(target[: shared_length(path, target)])}
    kept: dict[Var, Expr] = {}
    for axis, value in zip(block.axes, block.bindings, strict=True):
        if axis.kind != "sequential":
            continue
        if not expr_traverse.free_vars(value) & _loop_vars(path) <= around:
            raise ProducerError(
                f"{block.name} cannot leave the loop of its sequential axis {axis.var.name}", mark=block
            )
        kept[axis.var] = value
    return kept


def _loop_vars(path: Path) -> set[Var]:
    return {f.var for f in queries.loops_of(path)}


def home_strips(analyzer: Analyzer, block: Block, path: Path, shared: int) -> dict[Var, Strip]:
    """Per axis, the values it takes in one iteration of the loops that the old and the new place have in common.

    An axis that does not follow those loops takes all its values. Refuses where values have gaps.
    """
    around = {f.var for f in queries.loops_of(path[:shared])}
    inner = queries.loops_of(path[shared:])
    homes: dict[Var, Strip] = {}
    for axis, value in zip(block.axes, block.bindings, strict=True):
        if axis.kind == "sequential" or not expr_traverse.free_vars(value) & around:
            homes[axis.var] = regions.whole(axis).strip
            continue
        strip = regions.strip_of(analyzer, value, inner)
        if strip is None or not strip.is_exact:
            raise AccessError(f"axis {axis.var.name} of {block.name} does not run over a plain range", mark=block)
        homes[axis.var] = strip
    return homes
