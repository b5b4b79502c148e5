"""Statements with statements inside, as Python closures.

So that none is written twice, for plain code and for steps, each is a *plan*: a generator of the codes to run, in
order; two drivers turn a plan into plain code or into steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lpx.errors import MemoryAccessError
from lpx.expr.traverse import free_vars
from lpx.ir import nodes, scalars
from lpx.ir.interpreter.expressions import Action, Env, Lane
from lpx.ir.interpreter.leaves import Call, Code, LeafCompiler, Options, must_step
from lpx.ir.interpreter.storage import fresh
from lpx.ir.interpreter.threads import Fork, Steps, Team, Thread
from lpx.ir.nodes import Stmt
from lpx.ir.traverse import expressions
from lpx.records import replace

Plan = Callable[[Env], Iterator[Code]]


class StatementCompiler(LeafCompiler):
    """Compiles all statements of one function."""

    def __init__(self, options: Options, call: Call) -> None:
        super().__init__(options, call)
        self._shares_work = False

    def compile(self, stmt: Stmt) -> Code:
        """The code of `stmt`."""
        return replace(_COMPILERS[type(stmt)](self, stmt), stmt=stmt)

    def program(self, stmt: Stmt) -> Action:
        """The plain code of a whole function's body."""
        body = self.compile(stmt)
        return self._follow(lambda env: iter((body,)), (body,)).run

    def _follow(self, plan: Plan, codes: Sequence[Code]) -> Code:
        """Code that runs a plan; plain when all its `codes` are."""

        def run(env: Env) -> None:
            code = None
            try:
                for code in plan(env):
                    code.run(env)
            except MemoryAccessError as error:
                self._locate(error, code, env)
                raise

        def steps(env: Env) -> Steps:
            code = None
            try:
                for code in plan(env):
                    if code.steps is None:
                        code.run(env)
                    else:
                        yield from code.steps(env)
            except MemoryAccessError as error:
                self._locate(error, code, env)
                raise

        return Code(run) if all(code.steps is None for code in codes) else Code(must_step, steps)

    def _locate(self, error: MemoryAccessError, code: Code | None, env: Env) -> None:
        """Add the statement and the values of its variables to an error that does not know them yet."""
        if error.hint or code is None or code.stmt is None:
            return
        mentioned = {v for e in expressions(code.stmt) for v in free_vars(e)}
        slots = self.slots.variables()
        values = [f"{v.name} = {env[s]}" for v, s in slots.items() if v in mentioned]
        error.hint = f"in `{_first_line(code.stmt)}`" + (f" at {', '.join(values)}" if values else "")
        error.span = code.stmt.span

    def seq(self, stmt: nodes.Seq) -> Code:
        codes = [self.compile(s) for s in stmt.stmts]
        return self._follow(lambda env: iter(codes), codes)

    def loop(self, stmt: nodes.For) -> Code:
        if stmt.kind == "bound" and stmt.thread is not None and not stmt.thread.startswith("blockIdx"):
            return self._thread_loop(stmt, stmt.thread)
        shared = stmt.kind == "parallel" and self._shares_work
        any_order = stmt.kind in ("parallel", "bound")
        bounds = self._bounds(stmt)
        with_sharing = self._shares_work
        self._shares_work = with_sharing and stmt.kind == "serial"
        body = self.compile(stmt.body)
        self._shares_work = with_sharing
        slot = self.slots.of(stmt.var)

        def plan(env: Env) -> Iterator[Code]:
            values: Sequence[int] = bounds(env)
            if any_order:
                values = self._in_some_order(values, env[0] if shared else None)
            for value in values:
                env[slot] = value
                yield body

        return self._follow(plan, (body,))

    def _in_some_order(self, values: Sequence[int], sharer: Thread | None) -> Sequence[int]:
        """The iterations of a parallel loop, shuffled; when threads share them, those of this thread."""
        if sharer is not None and sharer.team is not None:
            values = values[sharer.number :: sharer.team.size]
        if self.options.rng is None:
            return values
        return self.options.rng.sample(values, len(values))

    def _bounds(self, stmt: nodes.For) -> Callable[[Env], range]:
        compiled = self.expressions((stmt.start, stmt.extent))
        start, extent = compiled.roots

        def bounds(env: Env) -> range:
            compiled.reset(env)
            first = start(env, 0)
            return range(first, first + extent(env, 0))

        return bounds

    def _thread_loop(self, stmt: nodes.For, axis: str) -> Code:
        bounds, slot = self._bounds(stmt), self.slots.of(stmt.var)
        outermost = not self.in_team
        self.in_team = True
        body = _steps_of(self.compile(stmt.body))
        self.in_team = not outermost

        def programs(env: Env) -> list[tuple[Thread, Steps]]:
            parent: Thread = env[0]
            team = Team(1, self.options.rng) if parent.team is None else parent.team
            started: list[tuple[Thread, Steps]] = []
            values = bounds(env)
            for value in values:
                position = (value - values.start, len(values))
                thread = Thread({**parent.coordinates, axis: position}, team=team)
                own = [thread, *env[1:]]
                own[slot] = value
                started.append((thread, body(own)))
            return started

        def run(env: Env) -> None:
            threads = programs(env)
            if threads and threads[0][0].team is not None:
                threads[0][0].team.run(threads)

        def steps(env: Env) -> Steps:
            yield Fork(programs(env))

        return Code(run) if outermost else Code(must_step, steps)

    def region(self, stmt: nodes.ParallelRegion) -> Code:
        in_team, shares = self.in_team, self._shares_work
        self.in_team = self._shares_work = True
        body = _steps_of(self.compile(stmt.body))
        self.in_team, self._shares_work = in_team, shares

        def run(env: Env) -> None:
            team = Team(self.options.threads, self.options.rng)
            threads = [Thread(number=n, team=team) for n in range(team.size)]
            team.run([(thread, body([thread, *env[1:]])) for thread in threads])

        return Code(run)

    def branch(self, stmt: nodes.If) -> Code:
        compiled = self.expressions((stmt.cond,))
        cond = compiled.roots[0]
        then, orelse = self.compile(stmt.then), self.compile(stmt.orelse or nodes.Seq(()))

        def plan(env: Env) -> Iterator[Code]:
            compiled.reset(env)
            yield then if cond(env, 0) else orelse

        return self._follow(plan, (then, orelse))

    def while_loop(self, stmt: nodes.While) -> Code:
        compiled = self.expressions((stmt.cond,))
        cond, body = compiled.roots[0], self.compile(stmt.body)

        def plan(env: Env) -> Iterator[Code]:
            while True:
                compiled.reset(env)
                if not cond(env, 0):
                    return
                yield body

        return self._follow(plan, (body,))

    def let(self, stmt: nodes.Let) -> Code:
        slot, body = self.slots.of(stmt.var), self.compile(stmt.body)

        def bind(env: Env, lanes: list[Any]) -> None:
            env[slot] = lanes[0] if stmt.var.lanes == 1 else lanes

        codes = [self.with_value(stmt, stmt.value, bind), body]
        return self._follow(lambda env: iter(codes), codes)

    def block(self, stmt: nodes.Block) -> Code:
        predicates = () if stmt.predicate is None else (stmt.predicate,)
        compiled = self.expressions((*predicates, *stmt.bindings))
        predicate: Lane = compiled.roots[0] if predicates else lambda env, i: True
        bindings = list(zip(stmt.axes, compiled.roots[len(predicates) :], strict=True))
        slots = [self.slots.of(axis.var) for axis in stmt.axes]
        reduce_slots = [self.slots.of(axis.var) for axis in stmt.axes if axis.kind == "reduce"]
        init, body = self.compile(stmt.init or nodes.Seq(())), self.compile(stmt.body)

        def plan(env: Env) -> Iterator[Code]:
            compiled.reset(env)
            if not predicate(env, 0):
                return
            for slot, (_, binding) in zip(slots, bindings, strict=True):
                env[slot] = binding(env, 0)
            if not any(env[slot] for slot in reduce_slots):
                yield init
            yield body

        return self._follow(plan, (init, body))

    def alloc(self, stmt: nodes.Alloc) -> Code:
        buffer = stmt.buffer
        compiled = self.expressions(buffer.shape)
        slot, body = self.slots.of(buffer), self.compile(stmt.body)
        fill = None if self.options.checked else scalars.zero(buffer.dtype)

        def plan(env: Env) -> Iterator[Code]:
            compiled.reset(env)
            thread: Thread = env[0]
            shape = tuple(max(extent(env, 0), 0) for extent in compiled.roots)
            storage = fresh(buffer.name, buffer.dtype, shape, fill)
            if buffer.scope == "shared" and thread.team is not None:
                storage = thread.team.shared.setdefault(stmt, storage)
            env[slot] = storage
            yield body

        return self._follow(plan, (body,))


_COMPILERS: dict[type[Stmt], Callable[[StatementCompiler, Any], Code]] = {
    nodes.Seq: StatementCompiler.seq,
    nodes.For: StatementCompiler.loop,
    nodes.ParallelRegion: StatementCompiler.region,
    nodes.If: StatementCompiler.branch,
    nodes.While: StatementCompiler.while_loop,
    nodes.Let: StatementCompiler.let,
    nodes.Block: StatementCompiler.block,
    nodes.Store: StatementCompiler.store,
    nodes.AtomicUpdate: StatementCompiler.atomic,
    nodes.Alloc: StatementCompiler.alloc,
    nodes.Barrier: StatementCompiler.barrier,
    nodes.AsyncCopy: StatementCompiler.copy,
    nodes.AsyncCommit: StatementCompiler.commit,
    nodes.AsyncWait: StatementCompiler.wait,
    nodes.Evaluate: StatementCompiler.evaluate,
    nodes.CallFunction: StatementCompiler.call,
    nodes.Check: StatementCompiler.check,
}


def _steps_of(code: Code) -> Callable[[Env], Steps]:
    if code.steps is not None:
        return code.steps

    def steps(env: Env) -> Steps:
        code.run(env)
        yield from ()

    return steps


def _first_line(stmt: Stmt) -> str:
    lines = str(stmt).splitlines()
    return next(line for line in lines if not line.startswith("$"))
