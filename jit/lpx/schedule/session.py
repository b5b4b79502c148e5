"""The state of a schedule, and the transaction in which one primitive changes it.

`Session` holds the present function, the trace and the handles. A primitive works on an `Edit`: it reads the function,
sets a new one, and notes what became of loops. Only when it returns is the edit committed, so a refused primitive
leaves the schedule as it was.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lpx import knobs
from lpx.errors import TraceError
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Var
from lpx.ir import traverse
from lpx.ir.nodes import Block, For, Function
from lpx.ir.verify import verify
from lpx.schedule import queries
from lpx.schedule.errors import OptionError, UnknownNameError
from lpx.schedule.handles import BlockHandle, Death, HandleTable, LoopHandle, identifier
from lpx.schedule.trace import Instruction, Trace
from lpx.schedule.values import Json, SampledInt, SampledStr, as_tuple, to_json
from lpx.source import Span
from lpx.te.tensor import Tensor

BlockLike = BlockHandle | Tensor | Buffer | str
"""How a primitive is told a block: its handle, its name, or the tensor it computes."""


class Session:
    """The present `function`, the `trace` that led to it, and the handles given out.

    `decisions` are taken by sampling instructions in order before any is drawn; draws come from a generator seeded
    with `seed`.
    """

    def __init__(self, function: Function, *, seed: int = 0, decisions: Iterable[Json] = ()) -> None:
        self.function = function
        self.trace = Trace()
        self.handles = HandleTable.empty()
        self.random = random.Random(seed)
        self._decisions = list(decisions)
        self._names: dict[int, str] = {}
        self._named: dict[str, object] = {"s": self}  # `s` is the schedule in a trace printed as Python

    @property
    def symbols(self) -> Mapping[str, Var]:
        """Symbolic extents by name."""
        return queries.symbols_of(self.function)

    def symbol(self, name: str) -> Var:
        """The symbolic extent `name`, for use in arguments. Raises UnknownNameError where there is none."""
        found = self.symbols.get(name)
        if found is None:
            raise UnknownNameError(
                f"no symbol is named {name}", hint=f"the symbols are {', '.join(self.symbols) or 'none'}"
            )
        return found

    def next_decision(self) -> Json:
        """The next decision given from outside, None when there are no more."""
        return self._decisions.pop(0) if self._decisions else None

    def block_of(self, block: BlockLike, function: Function | None = None) -> Block:
        """The block meant by a handle, a name or a tensor; with several writers, the one named like the tensor.

        Looked up in `function`, by default the present one.

        Raises: UnknownNameError, DeadHandleError.
        """
        function = function or self.function
        blocks = queries.live_blocks(function)
        name = block if isinstance(block, str) else block.name
        if isinstance(block, Tensor | Buffer):
            buffer = block.buffer if isinstance(block, Tensor) else block
            found = queries.writers(function, buffer)
            names = [b.name for b in found]
            if len(found) == 1:
                return found[0]
            if found and name not in names:
                raise UnknownNameError(f"{name} is computed by several blocks", hint=f"name one of {', '.join(names)}")
        self.handles.check_block_alive(name, set(blocks))
        return blocks[name]

    def loop_of(self, loop: object, function: Function | None = None) -> For:
        """The loop of a handle, in `function` or the present one.

        Raises: UnknownNameError, DeadHandleError; OptionError for anything but a handle.
        """
        if not isinstance(loop, LoopHandle):
            raise OptionError(f"{loop!r} is not a loop", hint="take loops from s.loops(...)")
        live = queries.live_loops(function or self.function)
        self.handles.check_loop_alive(loop.var, set(live))
        return live[loop.var]

    def name_of(self, value: object) -> str | None:
        """The name under which the trace knows a handle or sampled value, None for any other."""
        if isinstance(value, LoopHandle | SampledInt | SampledStr):
            return self._names.get(id(value))
        return None

    def name_results(self, result: object, names: str | Sequence[str] | None, hint: str = "x") -> str | tuple[str, ...]:
        """Give results names (those given, or made from their own, or from `hint`): the outputs of an instruction."""
        if result is None:
            return ()
        items = as_tuple(result)
        if items is not None:
            given = [None] * len(items) if names is None or isinstance(names, str) else list(names)
            if len(given) != len(items):
                raise TraceError(f"{len(items)} results where the trace has {len(given)}")
            return tuple(self._name(v, n, hint) for v, n in zip(items, given, strict=True))
        return self._name(result, names if isinstance(names, str) else None, hint)

    def _name(self, value: object, name: str | None, hint: str) -> str:
        known = self.name_of(value)
        if known is not None and name is None:
            return known
        if name is None:
            name = identifier(value.name if isinstance(value, LoopHandle | BlockHandle) else hint, self._named)
        self._names[id(value)] = name
        self._named[name] = value  # also keeps the value alive, so that its id stays its own
        return name

    def stored(self, value: object) -> Json:
        """An argument as the trace stores it: blocks by name, handles and sampled values by reference."""
        if isinstance(value, Tensor | Buffer) and not queries.writers(
            self.function, value.buffer if isinstance(value, Tensor) else value
        ):
            return value.name
        if isinstance(value, BlockHandle | Tensor | Buffer):
            return self.block_of(value).name
        if isinstance(value, LoopHandle):
            return to_json(value, lambda _: self._introduce(value))
        items = as_tuple(value)
        if items is not None:
            return [self.stored(v) for v in items]
        return to_json(value, self.name_of)

    def _introduce(self, loop: LoopHandle) -> str:
        """The trace's name of a loop; one it does not know is brought in by an instruction of its own."""
        known = self.name_of(loop)
        if known is not None:
            return known
        self.loop_of(loop)
        live = tuple(queries.live_loops(self.function).values())
        block = _block_under(self.function, loop.var)
        around = live if block is None else queries.loops_around(self.function, block)
        outputs = self.name_results(tuple(self.handles.loop(f.var) for f in around), None)
        attrs: dict[str, Json] = {} if block is None else {"block": block.name}
        self.trace = self.trace.append(Instruction("loops", (), attrs, outputs))
        return self._names[id(loop)]

    def commit(self, edit: Edit, instruction: Instruction) -> None:
        """Take over what a primitive did."""
        before, after = self.function, edit.function
        if after is not before:
            if knobs.verify():
                verify(after)
            edit.note_deaths(before, instruction)
            self.function = after
        self.trace = self.trace.append(instruction)


@dataclass(slots=True)
class Edit:
    """One primitive at work: `function` is the program, to be replaced by the rewritten one.

    `decision` is what a sampling primitive drew. `canonical` replaces arguments in the trace by a form that it can
    store, such as an `IndexMap` for a Python function.
    """

    session: Session
    function: Function
    span: Span | None
    decision: Json = None
    canonical: dict[str, object] = field(default_factory=dict[str, object])
    fates: dict[Var | str, str] = field(default_factory=dict["Var | str", str])

    def loop(self, handle: object) -> For:
        """The loop of a handle, which must be alive."""
        return self.session.loop_of(handle, self.function)

    def block(self, block: BlockLike) -> Block:
        """The block meant by a handle, a name or a tensor."""
        return self.session.block_of(block, self.function)

    def handle(self, var: Var) -> LoopHandle:
        """The handle of the loop over `var`."""
        return self.session.handles.loop(var)

    def handles(self, variables: Iterable[Var]) -> tuple[LoopHandle, ...]:
        """The handles of several loops."""
        return tuple(self.handle(v) for v in variables)

    def ended(self, loop_or_block: Var | str, what: str) -> None:
        """Note what becomes of a loop (its variable) or a block (its name): "was split into i_o, i_i"."""
        self.fates[loop_or_block] = what

    def note_deaths(self, before: Function, instruction: Instruction) -> None:
        """Enter into the handle table every loop and block that `function` no longer has."""
        default = f"was removed by {instruction.name}"
        table = self.session.handles
        loops, blocks = _names_of(self.function)
        for stmt in traverse.walk(before.body):
            if isinstance(stmt, For) and stmt.var not in loops:
                table.dead_loops[stmt.var] = Death(self.fates.get(stmt.var, default), self.span)
            elif isinstance(stmt, Block) and stmt.name not in blocks:
                table.dead_blocks[stmt.name] = Death(self.fates.get(stmt.name, default), self.span)
        for name in blocks:
            table.dead_blocks.pop(name, None)


def _names_of(function: Function) -> tuple[set[Var], set[str]]:
    return set(queries.live_loops(function)), set(queries.live_blocks(function))


def _block_under(function: Function, var: Var) -> Block | None:
    """The first block inside the loop over `var`."""
    return next(iter(queries.blocks_within(queries.live_loops(function)[var])), None)
