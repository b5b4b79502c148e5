"""parallel_region: threads that stay together from one parallel loop to the next."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.expr.buffer import Buffer
from lpx.ir import traverse
from lpx.ir.nodes import Barrier, Block, For, ParallelRegion, Seq, Stmt
from lpx.records import replace
from lpx.schedule import queries, rewriting
from lpx.schedule.errors import LoopKindError, NestingError, OptionError
from lpx.schedule.handles import LoopHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.session import Edit

_BARRIER = Barrier("region")


@primitive
def parallel_region(edit: Edit, *loops: LoopHandle) -> None:
    """Run parallel loops that follow one another in one region: threads start once and meet at barriers.

    A barrier stands where a loop touches what loops since the barrier before wrote, or writes what they read. A serial
    loop whose body is such loops may be given as well: threads then stay together through its iterations.

    requires: `loops` follow one another in one sequence, not inside a parallel loop or another region; each is
        parallel, or serial around nothing but such loops.
    rewrite:
        for i parallel { B[i] = ... }; for j parallel { C[j] = ... B[k] }
        ->
        parallel_region { for i parallel { B[i] = ... }; barrier region; for j parallel { C[j] = ... B[k] } }
    """
    nodes = [edit.loop(loop) for loop in loops]
    if not nodes:
        raise OptionError("a region of no loops", hint="give the loops that it runs")
    path = queries.path_to(edit.function, nodes[0])
    check_outside_threads(path)
    check_follow(path[-2] if len(path) > 1 else None, nodes)
    for node in nodes:
        check_shared(node)
    region = ParallelRegion(traverse.sequence(with_barriers(nodes)))
    if len(nodes) == 1:
        edit.function = rewriting.replace_statement(edit.function, nodes[0], region)
        return
    sequence = next(s for s in reversed(path) if isinstance(s, Seq))
    start = sequence.stmts.index(nodes[0])
    stmts = (*sequence.stmts[:start], region, *sequence.stmts[start + len(nodes) :])
    edit.function = rewriting.replace_statement(edit.function, sequence, traverse.sequence(stmts))


def check_outside_threads(path: queries.Path) -> None:
    """Refuse a place where several threads run already."""
    for stmt in path[:-1]:
        if isinstance(stmt, For) and stmt.kind != "serial":
            raise LoopKindError(f"loop {stmt.var.name} around is {stmt.kind}", mark=stmt)
        if isinstance(stmt, ParallelRegion | Block):
            raise NestingError("a region stands at the top, outside regions and blocks", mark=stmt)


def check_follow(parent: Stmt | None, nodes: Sequence[For]) -> None:
    """Refuse loops that are not one after another in the sequence `parent`."""
    if len(nodes) == 1:
        return
    stmts = parent.stmts if isinstance(parent, Seq) else ()
    start = stmts.index(nodes[0]) if nodes[0] in stmts else 0
    if stmts[start : start + len(nodes)] != tuple(nodes):
        names = ", ".join(f.var.name for f in nodes)
        raise NestingError(
            f"loops {names} do not follow one another", mark=nodes[-1], hint="give neighbours in program order"
        )


def check_shared(loop: For) -> None:
    """Refuse a loop that threads would not share: each would run all of it."""
    if loop.kind == "parallel":
        return
    inner = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    for stmt in inner:
        if loop.kind != "serial" or not isinstance(stmt, For):
            raise LoopKindError(
                f"loop {loop.var.name} is {loop.kind} and holds more than parallel loops",
                mark=loop,
                hint="make it parallel, or all that it holds",
            )
        check_shared(stmt)


def with_barriers(stmts: Sequence[Stmt]) -> list[Stmt]:
    """The statements, with barriers where one may not start before all threads have done the ones before."""
    result: list[Stmt] = []
    read: set[Buffer] = set()
    written: set[Buffer] = set()
    for stmt in stmts:
        reads, writes = traverse.read_buffers(stmt), traverse.written_buffers(stmt)
        if written & (reads | writes) or read & writes:
            result.append(_BARRIER)
            read, written = set(), set()
        result.append(_with_inner_barriers(stmt))
        read |= reads
        written |= writes
    return result


def _with_inner_barriers(stmt: Stmt) -> Stmt:
    """A serial loop gets barriers inside, the last one before its next iteration."""
    if not isinstance(stmt, For) or stmt.kind == "parallel":
        return stmt
    inner = stmt.body.stmts if isinstance(stmt.body, Seq) else (stmt.body,)
    return replace(stmt, body=traverse.sequence([*with_barriers(inner), _BARRIER]))
