"""Loops one behind the other as one loop: `merge`."""

from __future__ import annotations

from lpx.expr import build
from lpx.ir import nodes, traverse
from lpx.ir.nodes import For, Function, Stmt
from lpx.records import replace
from lpx.schedule import nesting, queries, rewriting
from lpx.schedule.dependence import conflicts_within
from lpx.schedule.errors import DependenceError, ExtentError, NestingError
from lpx.schedule.handles import LoopHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.session import Edit


@primitive
def merge(edit: Edit, first: LoopHandle, second: LoopHandle) -> LoopHandle:
    """Run each iteration of one loop, and right after it the same iteration of the loop behind it; the merged loop.

    requires: serial loops with the same bounds, the second one the statement after the first; where both touch an
        element that one of them writes, they do so in the same iteration.
    rewrite:
        for i in 0..n { S(i) }; for j in 0..n { T(j) }
        -> for i in 0..n { S(i); T(i) }
    """
    before, behind = edit.loop(first), edit.loop(second)
    for loop in (before, behind):
        nesting.check_serial(loop)
    parent = check_adjacent(edit.function, before, behind)
    check_same_bounds(edit.function, before, behind)
    moved = traverse.substitute(behind.body, {behind.var: before.var})
    merged = replace(before, body=traverse.sequence([before.body, moved]))
    place = parent.stmts.index(before)
    stmts = [*parent.stmts[:place], merged, *parent.stmts[place + 2 :]]
    function = rewriting.replace_statement(edit.function, parent, traverse.sequence(stmts))
    check_met_in_one_iteration(function, merged, moved)
    edit.function = function
    edit.ended(behind.var, f"was merged into {before.var.name}")
    return first


def check_adjacent(function: Function, first: For, second: For) -> nodes.Seq:
    """The sequence in which `second` stands right behind `first`; refuses where there is none."""
    path = queries.path_to(function, first)
    parent = path[-2] if len(path) > 1 else None
    if not isinstance(parent, nodes.Seq) or second not in parent.stmts[parent.stmts.index(first) + 1 :][:1]:
        raise NestingError(
            f"loop {second.var.name} is not the statement behind loop {first.var.name}",
            hint="move what stands between them by compute_at or reverse_compute_at",
            mark=second,
        )
    return parent


def check_same_bounds(function: Function, first: For, second: For) -> None:
    """Refuses loops of which one may have an iteration that the other has not."""
    analyzer = queries.analyzer_of(function, queries.loops_around(function, first))
    if not all(
        analyzer.prove(build.compare("eq", a, b))
        for a, b in ((first.start, second.start), (first.extent, second.extent))
    ):
        raise ExtentError(
            f"loops {first.var.name} and {second.var.name} have different bounds",
            hint="split them alike, or partition the longer one",
            mark=second,
        )


def check_met_in_one_iteration(function: Function, loop: For, second: Stmt) -> None:
    """Refuses where the part `second` of a merged loop meets the part before it in another iteration."""
    parts = set(traverse.walk(second))
    for conflict in conflicts_within(function, loop):
        ends = [any(s in parts for s in access.path) for access in (conflict.first, conflict.second)]
        if ends[0] != ends[1] and loop.var not in conflict.pinned:
            raise DependenceError(
                f"{conflict.buffer.name} is touched in one iteration of {loop.var.name} and in another one behind it",
                hint="merge loops whose iterations meet one by one",
                mark=loop,
            )
