"""Statements without statements inside, as Python closures.

A compiled statement is a `Code`. Plain code runs to its end. Code that may have to wait for other threads is a
generator of requests (`threads.Steps`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from lpx.errors import InternalError, RuntimeCheckError
from lpx.expr import nodes as expr_nodes
from lpx.expr.nodes import Expr
from lpx.ir import nodes, scalars
from lpx.ir.hardware import meaning_of
from lpx.ir.interpreter.expressions import Action, Compiled, Env, Lane, Slots
from lpx.ir.interpreter.storage import Storage
from lpx.ir.interpreter.threads import Collective, Meet, PendingCopy, Steps, Thread
from lpx.ir.nodes import Stmt
from lpx.records import record

Call = Callable[[str, list[Storage], list[int]], None]
"""Runs another function of the module on memory and extents."""


@record
class Options:
    """How to run: `checked` tracks uninitialised memory; `threads` run a parallel region; `rng` shuffles what may run
    in any order.
    """

    checked: bool
    threads: int
    rng: random.Random | None


@record
class Code:
    """`run` is plain code; `steps`, where there are any, must be used instead."""

    run: Action
    steps: Callable[[Env], Steps] | None = None
    stmt: Stmt | None = None


class LeafCompiler:
    """Compiles statements that have no others inside; `call` runs another function of the module."""

    def __init__(self, options: Options, call: Call) -> None:
        self.slots = Slots()
        self.in_team = False
        self._call = call
        self.options = options

    def expressions(self, roots: Sequence[Expr]) -> Compiled:
        """The closures of the expressions of a statement."""
        return Compiled(self.slots, roots)

    def store(self, stmt: nodes.Store) -> Code:
        masks = () if stmt.mask is None else (stmt.mask,)
        compiled = self.expressions((*stmt.indices, *masks))
        places = compiled.roots[: len(stmt.indices)]
        mask = compiled.roots[-1] if masks else None
        slot = self.slots.of(stmt.buffer)

        def write(env: Env, lanes: list[Any]) -> None:
            compiled.reset(env)
            storage: Storage = env[slot]
            active = [i for i in range(len(lanes)) if mask is None or mask(env, i)]
            for indices, i in [([place(env, i) for place in places], i) for i in active]:
                storage.write(indices, lanes[i])

        return self.with_value(stmt, stmt.value, write, None if mask is None else (compiled, mask))

    def with_value(
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
        compiled = self.expressions((value,))
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
        compiled = self.expressions(value.args)
        sizes = compiled.widths

        def steps(env: Env) -> Steps:
            compiled.reset(env)
            args = [[lane(env, i) for i in range(n)] for lane, n in zip(compiled.roots, sizes, strict=True)]
            use(env, (yield Collective(stmt, value.op, args)))

        return Code(must_step, steps)

    def atomic(self, stmt: nodes.AtomicUpdate) -> Code:
        compiled = self.expressions((*stmt.indices, stmt.value))
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

        return Code(must_step, steps) if self.in_team else Code(_nothing)

    def copy(self, stmt: nodes.AsyncCopy) -> Code:
        compiled = self.expressions((*stmt.target_indices, *stmt.source_indices))
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
        return self.with_value(stmt, stmt.value, lambda env, lanes: None)

    def call(self, stmt: nodes.CallFunction) -> Code:
        compiled = self.expressions(stmt.extents)
        slots = [self.slots.of(b) for b in stmt.buffers]

        def run(env: Env) -> None:
            compiled.reset(env)
            self._call(stmt.function, [env[s] for s in slots], [extent(env, 0) for extent in compiled.roots])

        return Code(run)

    def check(self, stmt: nodes.Check) -> Code:
        compiled = self.expressions((stmt.cond,))
        cond, lanes = compiled.roots[0], range(stmt.cond.lanes)

        def run(env: Env) -> None:
            compiled.reset(env)
            if not all(cond(env, i) for i in lanes):
                raise RuntimeCheckError(stmt.message, span=stmt.span)

        return Code(run)


def must_step(env: Env) -> None:
    """The plain code of what has none."""
    raise InternalError("code that waits for other threads was run outside a team")


def _nothing(env: Env) -> None:
    del env


def _consecutive(storage: Storage, indices: Sequence[int], count: int) -> range:
    first = storage.position(indices)
    storage.position([*indices[:-1], indices[-1] + count - 1])
    return range(first, first + count)


def _read_consecutive(storage: Storage, indices: Sequence[int], count: int) -> list[Any]:
    return [storage.read([*indices[:-1], indices[-1] + k]) for k in range(count)]
