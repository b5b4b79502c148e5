"""Running a user's function once on traced arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lpx import te
from lpx.errors import DefinitionError
from lpx.expr.nodes import Var
from lpx.frontends.numpy.arguments import Abstract, ArrayArgument, StaticArgument
from lpx.frontends.numpy.captures import Capture, captures_of
from lpx.frontends.numpy.trace import Trace, TracedArray, is_list
from lpx.graph.nodes import Dim, Graph, Value


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """A traced call.

    `graph.inputs` are the array arguments in order, then the arrays of the variables in `captured`. The first `results`
    outputs are what the function returns (`single`: one bare array, else a tuple), the others the new contents of the
    arguments in `written`.
    """

    graph: Graph
    captured: tuple[Capture, ...]
    written: tuple[str, ...]
    results: int
    single: bool


def trace_function(function: Callable[..., Any], name: str, arguments: Abstract) -> TracedFunction:
    """Run `function` on traced arrays for `arguments` (by keyword where it has names).

    Raises: DefinitionError when it returns something other than arrays; whatever the function itself raises.
    """
    captures = {id(array): c for c in captures_of(function) if (array := c.read_array()) is not None}
    trace = Trace(name, {key: capture.name for key, capture in captures.items()})
    symbols: dict[str, Var] = {}
    passed = {a.name: _enter(trace, a, symbols) for a in arguments}
    entered = {key: a.value for key, a in passed.items() if isinstance(a, TracedArray)}
    returned = function(**passed) if not _positional(function) else function(*passed.values())
    results = _results(trace, returned, name)
    written = tuple(k for k, v in entered.items() if passed[k].value is not v)
    outputs: list[Value] = []
    for value in (*results, *(passed[k].value for k in written)):
        needs_copy = value in trace.builder.sources or any(value is v for v in outputs)
        outputs.append(trace.builder.add("identity", (value,)) if needs_copy else value)
    graph = trace.builder.finish(outputs)
    return TracedFunction(
        graph, tuple(captures[key] for key in trace.bound), written, len(results), isinstance(returned, TracedArray)
    )


def _positional(function: Callable[..., Any]) -> bool:
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    return any(k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL) for k in kinds)


def _enter(trace: Trace, argument: ArrayArgument | StaticArgument, symbols: dict[str, Var]) -> Any:
    if isinstance(argument, StaticArgument):
        return argument.value
    shape: list[Dim] = [
        symbols.setdefault(extent, te.var(extent)) if isinstance(extent, str) else extent for extent in argument.shape
    ]
    weak = {"bool": bool, "int": int, "float": float}.get(argument.weak)
    return trace.argument(argument.dtype, shape, argument.name, weak)


def _results(trace: Trace, returned: object, name: str) -> list[Value]:
    if returned is None:
        return []
    entries: Sequence[object] = returned if is_list(returned) else [returned]
    if not entries or any(e is None or is_list(e) or isinstance(e, str | dict) for e in entries):
        raise DefinitionError(f"{name} returns {returned!r}", hint="return an array or a flat tuple of arrays")
    return [trace.array(entry).value for entry in entries]
