"""Statements as Python closures.

A compiled statement is a `Code`. Plain code runs to its end. Code that may have to wait for other threads is a
generator of requests (`threads.Steps`). So that no statement is written twice, one with statements inside is a *plan*:
a generator of the codes to run, in order; two drivers turn a plan into plain code or into steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lpx.errors import InternalError, MemoryAccessError, RuntimeCheckError
from lpx.expr import nodes as expr_nodes
from lpx.expr.nodes import Expr
from lpx.expr.traverse import free_vars
from lpx.ir import nodes, scalars
from lpx.ir.hardware import meaning_of
from lpx.ir.interpreter.expressions import Action, Compiled, Env, Lane, Slots
from lpx.ir.interpreter.storage import Storage, fresh
from lpx.ir.interpreter.threads import Collective, Fork, Meet, PendingCopy, Steps, Team, Thread
from lpx.ir.nodes import Stmt
from lpx.ir.traverse import expressions

Call = Callable[[str, list[Storage], list[int]], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How to run: `checked` tracks uninitialised memory; `threads` run a parallel region; `rng` shuffles what may run
    in any order.
    """

    checked: bool
    threads: int
    rng: random.Random | None


@dataclass(frozen=True, slots=True)
class Code:
    """`run` is plain code; `steps`, where there are any, must be used instead."""

    run: Action
    steps: Callable[[Env], Steps] | None = None
    stmt: Stmt | None = None


Plan = Callable[[Env], Iterator[Code]]


class StatementCompiler:
    """Compiles the statements of one function; `call` runs another function of the module."""

    def __init__(self, options: Options, call: Call) -> None:
        self.slots = Slots()
        self._options = options
        self._call = call
        self._in_team = False
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

        return Code(run) if all(code.steps is None for code in codes) else Code(_must_step, steps)

    def _locate(self, error: MemoryAccessError, code: Code | None, env: Env) -> None:
        """Add the statement and the values of its variables to an error that does not know them yet."""
        if error.hint or code is None or code.stmt is None:
            return
        mentioned = {v for e in expressions(code.stmt) for v in free_vars(e)}
        slots = self.slots.variables()
        values = [f"{v.name} = {env[s]}" for v, s in slots.items() if v in mentioned]
        error.hint = f"in `{_first_line(code.stmt)}`" + (f" at {', '.join(values)}" if values else "")
        error.span = code.stmt.span

    def expressions(self, stmt: Stmt, roots: Sequence[Expr]) -> Compiled:
        """The closures of the expressions of `stmt`."""
        return Compiled(self.slots, roots)

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
        if self._options.rng is None:
            return values
        return self._options.rng.sample(values, len(values))

    def _bounds(self, stmt: nodes.For) -> Callable[[Env], range]:
        compiled = self.expressions(stmt, (stmt.start, stmt.extent))
        start, extent = compiled.roots

        def bounds(env: Env) -> range:
            compiled.reset(env)
            first = start(env, 0)
            return range(first, first + extent(env, 0))

        return bounds

    def _thread_loop(self, stmt: nodes.For, axis: str) -> Code:
        bounds, slot = self._bounds(stmt), self.slots.of(stmt.var)
        outermost = not self._in_team
        self._in_team = True
        body = _steps_of(self.compile(stmt.body))
        self._in_team = not outermost

        def programs(env: Env) -> list[tuple[Thread, Steps]]:
            parent: Thread = env[0]
            team = Team(1, self._options.rng) if parent.team is None else parent.team
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

        return Code(run) if outermost else Code(_must_step, steps)

    def region(self, stmt: nodes.ParallelRegion) -> Code:
        in_team, shares = self._in_team, self._shares_work
        self._in_team = self._shares_work = True
        body = _steps_of(self.compile(stmt.body))
        self._in_team, self._shares_work = in_team, shares

        def run(env: Env) -> None:
            team = Team(self._options.threads, self._options.rng)
            threads = [Thread(number=n, team=team) for n in range(team.size)]
            team.run([(thread, body([thread, *env[1:]])) for thread in threads])

        return Code(run)

    def branch(self, stmt: nodes.If) -> Code:
        compiled = self.expressions(stmt, (stmt.cond,))
        cond = compiled.roots[0]
        then, orelse = self.compile(stmt.then), self.compile(stmt.orelse or nodes.Seq(()))

        def plan(env: Env) -> Iterator[Code]:
            compiled.reset(env)
            yield then if cond(env, 0) else orelse

        return self._follow(plan, (then, orelse))

    def while_loop(self, stmt: nodes.While) -> Code:
        compiled = self.expressions(stmt, (stmt.cond,))
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

        codes = [self._with_value(stmt, stmt.value, bind), body]
        return self._follow(lambda env: iter(codes), codes)

    def block(self, stmt: nodes.Block) -> Code:
        predicates = () if stmt.predicate is None else (stmt.predicate,)
        compiled = self.expressions(stmt, (*predicates, *stmt.bindings))
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
        compiled = self.expressions(stmt, buffer.shape)
        slot, body = self.slots.of(buffer), self.compile(stmt.body)
        fill = None if self._options.checked else scalars.zero(buffer.dtype)

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

    def store(self, stmt: nodes.Store) -> Code:
        masks = () if stmt.mask is None else (stmt.mask,)
        compiled = self.expressions(stmt, (*stmt.indices, *masks))
        places = compiled.roots[: len(stmt.indices)]
        mask = compiled.roots[-1] if masks else None
        slot = self.slots.of(stmt.buffer)

        def write(env: Env, lanes: list[Any]) -> None:
            compiled.reset(env)
            storage: Storage = env[slot]
            active = [i for i in range(len(lanes)) if mask is None or mask(env, i)]
            for indices, i in [([place(env, i) for place in places], i) for i in active]:
                storage.write(indices, lanes[i])

        return self._with_value(stmt, stmt.value, write, None if mask is None else (compiled, mask))

    def _with_value(
        self,
        stmt: Stmt,
        value: Expr,
        use: Callable[[Env, list[Any]], None],
        masked: tuple[Compiled, Lane] | None = None,
    ) -> Code:
        """Code that computes all lanes of `value`, then uses them; an operation of a whole warp waits for the warp.

        Lanes that a mask turns off are not computed.
        """
        if isinstance(value, expr_nodes.Call) and value.op.kind == "hardware" and meaning_of(value.op).per_warp:
            return self._collective(stmt, value, use)
        compiled = self.expressions(stmt, (value,))
        lane, lanes = compiled.roots[0], range(value.lanes)

        def run(env: Env) -> None:
            compiled.reset(env)
            if masked is None:
                use(env, [lane(env, i) for i in lanes])
                return
            mask, on = masked
            mask.reset(env)
            use(env, [lane(env, i) if on(env, i) else None for i in lanes])

        return Code(run)

    def _collective(self, stmt: Stmt, value: expr_nodes.Call, use: Callable[[Env, list[Any]], None]) -> Code:
        compiled = self.expressions(stmt, value.args)
        sizes = compiled.widths

        def steps(env: Env) -> Steps:
            compiled.reset(env)
            args = [[lane(env, i) for i in range(n)] for lane, n in zip(compiled.roots, sizes, strict=True)]
            use(env, (yield Collective(stmt, value.op, args)))

        return Code(_must_step, steps)

    def atomic(self, stmt: nodes.AtomicUpdate) -> Code:
        compiled = self.expressions(stmt, (*stmt.indices, stmt.value))
        *places, value = compiled.roots
        combine, slot = scalars.binary(stmt.op, stmt.buffer.dtype), self.slots.of(stmt.buffer)

        def run(env: Env) -> None:
            compiled.reset(env)
            storage: Storage = env[slot]
            updates = [([place(env, i) for place in places], value(env, i)) for i in range(stmt.value.lanes)]
            for indices, operand in updates:
                storage.write(indices, combine(storage.read(indices), operand))

        return Code(run)

    def barrier(self, stmt: nodes.Barrier) -> Code:
        def steps(env: Env) -> Steps:
            yield Meet(stmt)

        return Code(_must_step, steps) if self._in_team else Code(_nothing)

    def copy(self, stmt: nodes.AsyncCopy) -> Code:
        compiled = self.expressions(stmt, (*stmt.target_indices, *stmt.source_indices))
        rank = len(stmt.target_indices)
        target_slot, source_slot = self.slots.of(stmt.target), self.slots.of(stmt.source)

        def run(env: Env) -> None:
            compiled.reset(env)
            indices = [place(env, 0) for place in compiled.roots]
            target: Storage = env[target_slot]
            positions = _consecutive(target, indices[:rank], stmt.count)
            values = _read_consecutive(env[source_slot], indices[rank:], stmt.count)
            for position in positions:
                target.values[position] = None
            thread: Thread = env[0]
            thread.copies.open.append(PendingCopy(target, positions, values))

        return Code(run)

    def commit(self, stmt: nodes.AsyncCommit) -> Code:
        del stmt
        return Code(lambda env: env[0].copies.commit())

    def wait(self, stmt: nodes.AsyncWait) -> Code:
        return Code(lambda env: env[0].copies.wait(stmt.pending))

    def evaluate(self, stmt: nodes.Evaluate) -> Code:
        return self._with_value(stmt, stmt.value, lambda env, lanes: None)

    def call(self, stmt: nodes.CallFunction) -> Code:
        compiled = self.expressions(stmt, stmt.extents)
        slots = [self.slots.of(b) for b in stmt.buffers]

        def run(env: Env) -> None:
            compiled.reset(env)
            self._call(stmt.function, [env[s] for s in slots], [extent(env, 0) for extent in compiled.roots])

        return Code(run)

    def check(self, stmt: nodes.Check) -> Code:
        compiled = self.expressions(stmt, (stmt.cond,))
        cond, lanes = compiled.roots[0], range(stmt.cond.lanes)

        def run(env: Env) -> None:
            compiled.reset(env)
            if not all(cond(env, i) for i in lanes):
                raise RuntimeCheckError(stmt.message, span=stmt.span)

        return Code(run)


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


def _must_step(env: Env) -> None:
    raise InternalError("code that waits for other threads was run outside a team")


def _nothing(env: Env) -> None:
    del env


def _first_line(stmt: Stmt) -> str:
    lines = str(stmt).splitlines()
    return next(line for line in lines if not line.startswith("$"))


def _consecutive(storage: Storage, indices: Sequence[int], count: int) -> range:
    first = storage.position(indices)
    storage.position([*indices[:-1], indices[-1] + count - 1])
    return range(first, first + count)


def _read_consecutive(storage: Storage, indices: Sequence[int], count: int) -> list[Any]:
    return [storage.read([*indices[:-1], indices[-1] + k]) for k in range(count)]
