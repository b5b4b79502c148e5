"""What makes a function a schedule primitive.

    @primitive
    def add_unit_loop(edit: Edit, block: BlockLike) -> LoopHandle:
        \"\"\"Put a loop of one iteration around a block. requires: ... rewrite: before -> after\"\"\"

The function gets an `Edit` and its arguments; it validates them, runs its `check_*` functions, sets `edit.function` and
returns handles. The decorator gives errors the user's line, commits the edit, records the instruction and registers the
primitive by name, so that traces find it. The result is a method: `Schedule` lists the built-in ones, any other is
called as `name(s, ...)` or `s.name(...)`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from lpx.errors import TraceError
from lpx.ir.nodes import Seq
from lpx.schedule import queries
from lpx.schedule.errors import NestingError, RefusedError
from lpx.schedule.session import Edit, Session
from lpx.schedule.trace import Instruction
from lpx.schedule.values import Json, as_tuple
from lpx.source import capture

P = ParamSpec("P")
R = TypeVar("R")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

REGISTRY: dict[str, Primitive[..., Any]] = {}
"""Every primitive by name."""


class Primitive(Generic[P, R]):
    """A schedule primitive: `p(schedule, ...)`, or `schedule.p(...)` where the class of the schedule lists it."""

    def __init__(self, function: Callable[Concatenate[Edit, P], R]) -> None:
        self.name = function.__name__
        self.function = function
        self.signature = inspect.signature(function)
        functools.update_wrapper(self, function)

    @overload
    def __get__(self, instance: None, owner: type[Session]) -> Self: ...
    @overload
    def __get__(self, instance: Session, owner: type[Session]) -> Callable[P, R]: ...
    def __get__(self, instance: Session | None, owner: type[Session]) -> Self | Callable[P, R]:
        return self if instance is None else self.bind(instance)

    def bind(self, session: Session) -> Callable[P, R]:
        """The primitive as a function of its own arguments."""
        return functools.wraps(self.function)(functools.partial(self, session))

    def __call__(self, session: Session, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.perform(session, None, *args, **kwargs)

    def perform(self, session: Session, names: str | tuple[str, ...] | None, *args: P.args, **kwargs: P.kwargs) -> R:
        """Apply the primitive; `names` are those a replayed trace has for the results."""
        edit = Edit(session, session.function, capture())
        try:
            arguments = self._store(edit, args, kwargs)
            result = self.function(edit, *args, **kwargs)
            check_pipelines_kept(edit)
            arguments.update({k: session.stored(v) for k, v in edit.canonical.items()})
        except RefusedError as error:
            error.locate(self.name, session.function, edit.span)
            raise
        is_query = edit.function is session.function and edit.decision is None
        if is_query and names is None and _all_named(session, result):
            return result
        outputs = session.name_results(result, names, self.name.removeprefix("sample_"))
        inputs, attrs = self._split(arguments)
        session.commit(edit, Instruction(self.name, inputs, attrs, outputs, edit.decision, edit.span))
        return result

    def _store(self, edit: Edit, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, Json]:
        """The given arguments in stored form; a Python function is left to the primitive, which sets `canonical`."""
        bound = self.signature.bind(edit, *args, **kwargs).arguments
        return {
            p.name: None if inspect.isfunction(bound[p.name]) else edit.session.stored(bound[p.name])
            for p in list(self.signature.parameters.values())[1:]
            if p.name in bound and p.name != "decision"
        }

    def _split(self, arguments: dict[str, Json]) -> tuple[tuple[Json, ...], dict[str, Json]]:
        """Stored arguments as an instruction has them: parameters without default as inputs, the others by name."""
        inputs: list[Json] = []
        attrs: dict[str, Json] = {}
        for name, value in arguments.items():
            parameter = self.signature.parameters[name]
            if parameter.kind is parameter.VAR_POSITIONAL and isinstance(value, list):
                inputs.extend(value)
            elif parameter.kind in _POSITIONAL and parameter.default is parameter.empty:
                inputs.append(value)
            else:
                attrs[name] = value
        return tuple(inputs), attrs


def check_pipelines_kept(edit: Edit) -> None:
    """Refuse to add statements to a pipeline, or to take some out: each has its stage."""
    for loop in queries.loops_within(edit.function.body):
        count = len(loop.body.stmts) if isinstance(loop.body, Seq) else 1
        if loop.stages is not None and len(loop.stages) != count:
            raise NestingError(
                f"loop {loop.var.name} is a pipeline of {len(loop.stages)} statements and would have {count}",
                hint="software_pipeline comes last",
            )


def _all_named(session: Session, result: object) -> bool:
    items = as_tuple(result)
    return all(session.name_of(v) is not None for v in ((result,) if items is None else items))


def primitive(function: Callable[Concatenate[Edit, P], R]) -> Primitive[P, R]:
    """Make `function(edit, ...)` a primitive and register it under its name."""
    made: Primitive[P, R] = Primitive(function)
    REGISTRY[made.name] = made
    return made


def find(name: str) -> Primitive[..., Any]:
    """The primitive `name`. Raises TraceError where there is none."""
    if name not in REGISTRY:
        raise TraceError(f"there is no primitive {name}", hint="import the module that defines it")
    return REGISTRY[name]
