"""Threads that meet at barriers, simulated one step at a time.

A thread's program is a Python generator; it yields a `Request` where it cannot go on alone. A `Team` is all threads
that may meet: those of one GPU block or of one parallel region. When no thread can go on, the team serves the requests
of those that have all arrived; if there are none, some threads wait for others that never come, which is an error.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lpx.errors import MemoryAccessError
from lpx.expr.ops import Op
from lpx.ir.hardware import meaning_of
from lpx.ir.interpreter.storage import Storage
from lpx.ir.nodes import Alloc, Barrier, Stmt
from lpx.records import record

WARP = 32


@record
class PendingCopy:
    """Values on their way to `positions` of `target`."""

    target: Storage
    positions: range
    values: list[Any]

    def finish(self) -> None:
        """Let the values arrive."""
        for position, value in zip(self.positions, self.values, strict=True):
            self.target.values[position] = value


@dataclass(slots=True)
class CopyGroups:
    """Asynchronous copies of one thread that are under way: groups that were committed, and the group being filled."""

    committed: deque[list[PendingCopy]] = field(default_factory=deque[list[PendingCopy]])
    open: list[PendingCopy] = field(default_factory=list[PendingCopy])

    def commit(self) -> None:
        """Close the group being filled."""
        self.committed.append(self.open)
        self.open = []

    def wait(self, pending: int) -> None:
        """Finish the oldest groups until at most `pending` are left."""
        while len(self.committed) > pending:
            for copy in self.committed.popleft():
                copy.finish()


@record
class Thread:
    """One simulated thread. `coordinates` maps each thread axis around it to (value, extent); `number` counts the
    threads of a parallel region.
    """

    coordinates: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    number: int = 0
    team: Team | None = None
    copies: CopyGroups = field(default_factory=CopyGroups)

    def warp(self) -> tuple[int, ...]:
        """What the threads of one warp have in common."""
        if "lane" in self.coordinates:
            return tuple(value for axis, (value, _) in self.coordinates.items() if axis != "lane")
        return (self._linear() // WARP,)

    def lane(self) -> int:
        """Which lane of its warp this thread is."""
        return self.coordinates["lane"][0] if "lane" in self.coordinates else self._linear() % WARP

    def _linear(self) -> int:
        linear, width = 0, 1
        for axis in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
            value, extent = self.coordinates.get(axis, (0, 1))
            linear, width = linear + value * width, width * extent
        return linear


@record
class Fork:
    """Run these threads and go on when all are done."""

    programs: list[tuple[Thread, Steps]]


@record
class Meet:
    """Wait at a barrier for all threads of its scope."""

    barrier: Barrier


@record
class Collective:
    """Compute an operation together with the other lanes of the warp; the answer is this lane's result."""

    stmt: Stmt
    op: Op
    args: list[Any]


Request = Fork | Meet | Collective
Steps = Generator[Request, Any, None]


@dataclass(slots=True, eq=False)
class _Run:
    """A thread on its way through its program: what it asked for last, and what it will be answered."""

    thread: Thread
    steps: Steps
    group: _Group
    request: Request | None = None
    answer: Any = None

    def place(self) -> Stmt | None:
        match self.request:
            case Meet(barrier=barrier):
                return barrier
            case Collective(stmt=stmt):
                return stmt
            case _:
                return None


@dataclass(slots=True, eq=False)
class _Group:
    """Threads that were started together; `parent` goes on when all are done."""

    parent: _Run | None
    runs: list[_Run] = field(default_factory=list[_Run])
    left: int = 0


class Team:
    """Runs threads that can meet each other. `rng` shuffles the order in which they run."""

    def __init__(self, size: int, rng: random.Random | None) -> None:
        self.size = size
        self.shared: dict[Alloc, Storage] = {}
        self._rng = rng
        self._ready: list[_Run] = []
        self._groups: list[_Group] = []

    def run(self, programs: list[tuple[Thread, Steps]]) -> None:
        """Run the threads to their ends. Raises MemoryAccessError when some wait for others in vain."""
        self._start(programs, None)
        while self._groups:
            while self._ready:
                self._advance(self._ready.pop())
            if self._groups:
                self._serve()

    def _start(self, programs: list[tuple[Thread, Steps]], parent: _Run | None) -> None:
        group = _Group(parent, left=len(programs))
        group.runs.extend(_Run(thread, steps, group) for thread, steps in programs)
        self._groups.append(group)
        self._make_ready(group.runs)
        if not programs:
            self._finish(group)

    def _make_ready(self, runs: Sequence[_Run]) -> None:
        chosen = list(reversed(runs))  # popped from the end: the first thread runs first
        if self._rng is not None:
            self._rng.shuffle(chosen)
        self._ready.extend(chosen)

    def _advance(self, run: _Run) -> None:
        answer, run.answer, run.request = run.answer, None, None
        try:
            run.request = run.steps.send(answer)
        except StopIteration:
            run.group.left -= 1
            if run.group.left == 0:
                self._finish(run.group)
            return
        if isinstance(run.request, Fork):
            self._start(run.request.programs, run)

    def _finish(self, group: _Group) -> None:
        self._groups.remove(group)
        if group.parent is not None:
            self._make_ready((group.parent,))

    def _serve(self) -> None:
        """Let go every set of threads that has arrived completely: the whole team, or single warps."""
        leaves = [r for g in self._groups for r in g.runs if not isinstance(r.request, Fork)]
        if _all_at_one_place(leaves) and isinstance(leaves[0].request, Meet):
            served = [leaves]
        else:
            warps: dict[tuple[int, ...], list[_Run]] = {}
            for run in leaves:
                warps.setdefault(run.thread.warp(), []).append(run)
            served = [runs for runs in warps.values() if _all_at_one_place(runs) and not _waits_for_team(runs[0])]
        if not served:
            raise _divergence(leaves)
        for runs in served:
            if isinstance(runs[0].request, Collective):
                _compute(runs[0].request.op, runs)
            self._make_ready(runs)


def _all_at_one_place(runs: list[_Run]) -> bool:
    places = {run.place() for run in runs}
    return len(places) == 1 and None not in places


def _waits_for_team(run: _Run) -> bool:
    return isinstance(run.request, Meet) and run.request.barrier.scope != "warp"


def _compute(op: Op, runs: list[_Run]) -> None:
    lanes = sorted(runs, key=lambda run: run.thread.lane())
    if len(lanes) != WARP:
        raise MemoryAccessError(f"{op.name} needs the {WARP} lanes of a warp, but {len(lanes)} arrived")
    requests = [run.request for run in lanes]
    results = meaning_of(op).apply([r.args for r in requests if isinstance(r, Collective)])
    for run, result in zip(lanes, results, strict=True):
        run.answer = result


def _divergence(leaves: list[_Run]) -> MemoryAccessError:
    places = [run.place() for run in leaves]
    place = next(p for p in places if p is not None)
    return MemoryAccessError(
        f"{sum(p is place for p in places)} thread(s) wait at `{place}`, but others do not arrive there",
        hint="all threads of the scope must reach the same barrier; move it out of divergent control flow",
    )
