"""Traces: what was done to a program, as data that replays.

A trace is a list of instructions. It prints as a Python function of a schedule and stores as JSON. `Trace.apply` does
the same to another schedule: with the recorded decisions of sampling instructions, other given ones, or fresh draws.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from lpx.errors import TraceError
from lpx.expr.nodes import Var
from lpx.records import record, replace
from lpx.schedule.values import Json, from_json, to_python
from lpx.source import Span, capture

VERSION = 1


@record
class Instruction:
    """One application of a primitive, in stored form (`lpx.schedule.values`).

    `inputs` are the positional arguments and `attrs` the named ones. `outputs` names the results: one name, or a tuple
    of names where the primitive returns a tuple. `decision` is what a sampling instruction drew, None for the others.
    `span` is the user's line; it is not stored.
    """

    name: str
    inputs: tuple[Json, ...] = ()
    attrs: Mapping[str, Json] = field(default_factory=dict[str, Json])
    outputs: str | tuple[str, ...] = ()
    decision: Json = None
    span: Span | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Json]:
        """The instruction as JSON data."""
        outputs: Json = self.outputs if isinstance(self.outputs, str) else list(self.outputs)
        return {
            "name": self.name,
            "inputs": list(self.inputs),
            "attrs": dict(self.attrs),
            "outputs": outputs,
            "decision": self.decision,
        }

    def as_python(self) -> str:
        """The instruction as one line of Python in which `s` is the schedule."""
        arguments = [to_python(v) for v in self.inputs]
        arguments += [f"{k}={to_python(v)}" for k, v in self.attrs.items()]
        if self.decision is not None:
            arguments.append(f"decision={to_python(self.decision)}")
        call = f"s.{self.name}({', '.join(arguments)})"
        if not self.outputs:
            return call
        if isinstance(self.outputs, str):
            return f"{self.outputs} = {call}"
        return f"{', '.join(self.outputs)}{',' if len(self.outputs) == 1 else ''} = {call}"


class Replayable(Protocol):
    """What a trace is applied to: a schedule."""

    @property
    def symbols(self) -> Mapping[str, Var]: ...

    def call(
        self, name: str, inputs: Sequence[object], attrs: Mapping[str, object], outputs: str | tuple[str, ...]
    ) -> Mapping[str, object]:
        """Apply a primitive, name its results `outputs`, and give the results by name."""
        ...


@record
class Trace:
    """Instructions in the order they were applied."""

    instructions: tuple[Instruction, ...] = ()

    def __len__(self) -> int:
        return len(self.instructions)

    def append(self, instruction: Instruction) -> Trace:
        """The trace with one more instruction."""
        return Trace((*self.instructions, instruction))

    @property
    def decisions(self) -> tuple[Json, ...]:
        """What the sampling instructions drew, in order."""
        return tuple(i.decision for i in self.instructions if i.decision is not None)

    def with_decisions(self, decisions: Iterable[Json]) -> Trace:
        """The same trace with other decisions, one per sampling instruction.

        Raises: TraceError on a wrong number of decisions.
        """
        given = list(decisions)
        if len(given) != len(self.decisions):
            raise TraceError(f"{len(given)} decisions given for {len(self.decisions)} sampling instructions")
        queue = iter(given)
        return Trace(tuple(i if i.decision is None else replace(i, decision=next(queue)) for i in self.instructions))

    def apply(self, schedule: Replayable, *, resample: bool = False) -> None:
        """Do the same to `schedule`: with the recorded decisions, or, on `resample`, with draws of its own generator.

        Raises: TraceError for a name the program does not have; ScheduleError where a primitive refuses.
        """
        refs: dict[str, object] = {}
        for instruction in self.instructions:
            inputs = [from_json(v, refs, schedule.symbols) for v in instruction.inputs]
            attrs = {k: from_json(v, refs, schedule.symbols) for k, v in instruction.attrs.items()}
            if instruction.decision is not None and not resample:
                attrs["decision"] = from_json(instruction.decision, refs, schedule.symbols)
            refs.update(schedule.call(instruction.name, inputs, attrs, instruction.outputs))

    def to_json(self) -> str:
        """The trace as JSON text."""
        return json.dumps({"version": VERSION, "instructions": [i.to_json() for i in self.instructions]})

    @staticmethod
    def from_json(text: str) -> Trace:
        """The trace that `to_json` wrote. Raises TraceError for any other text."""
        try:
            data = json.loads(text)
            if data["version"] != VERSION:
                raise TraceError(f"trace version {data['version']} is not {VERSION}", hint="record the trace again")
            return Trace(tuple(_instruction_from_json(i) for i in data["instructions"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TraceError(
                f"not a stored trace: {error}", hint="give a text that Trace.to_json wrote", span=capture()
            ) from None

    def as_python(self) -> str:
        """A Python function `apply(s)` that does to schedule `s` what the trace did."""
        lines = [f"    {i.as_python()}" for i in self.instructions] or ["    pass"]
        return "\n".join(["def apply(s):", *lines, ""])


def _instruction_from_json(data: dict[str, Json]) -> Instruction:
    match data:
        case {
            "name": str(name),
            "inputs": list(inputs),
            "attrs": dict(attrs),
            "outputs": str() | list() as outputs,
            "decision": decision,
        }:
            names = outputs if isinstance(outputs, str) else tuple(str(n) for n in outputs)
            return Instruction(name, tuple(inputs), attrs, names, decision)
        case _:
            raise TraceError(f"not an instruction of a trace: {data!r}")
