"""Running a user's function once on traced arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from lpx import te
from lpx.dtypes import DType
from lpx.errors import DefinitionError, LpxError, UnsupportedError
from lpx.expr.nodes import Var
from lpx.frontends.numpy import functions, ufuncs
from lpx.frontends.numpy.arguments import Abstract, ArrayArgument, StaticArgument
from lpx.frontends.numpy.captures import Capture, captures_of
from lpx.frontends.numpy.trace import Trace, TracedArray, is_list
from lpx.graph import shapes
from lpx.graph.nodes import Dim, Graph, Value
from lpx.records import record

TABLES = (functions, ufuncs)
"""The modules whose import fills the tables of what tracing accepts."""


@record
class TracedFunction:
    """A traced call.

    `graph.inputs` are the array arguments in order, then the arrays of the variables in `captured`. The first `results`
    outputs are what the function returns (`single`: one bare array, else a tuple), the others the new contents of the
    arguments in `written`. Each Python integer named in `narrowed` must fit the dtype there.
    """

    graph: Graph
    captured: tuple[Capture, ...]
    written: tuple[str, ...]
    narrowed: tuple[tuple[str, DType], ...]
    results: int
    single: bool


def trace_function(function: Callable[..., Any], name: str, arguments: Abstract) -> TracedFunction:
    """Run `function` on traced arrays for `arguments`.

    Raises: DefinitionError when it returns something other than arrays; whatever the function itself raises.
    """
    captures = {id(array): c for c in captures_of(function) if (array := c.read_array()) is not None}
    trace = Trace(name, {key: capture.name for key, capture in captures.items()})
    symbols: dict[str, Var] = {}
    passed = {a.name: _enter(trace, a, symbols) for a in arguments}
    entered = {key: a.value for key, a in passed.items() if isinstance(a, TracedArray)}
    returned = _run(function, passed)
    results = _results(trace, returned, name)
    written = tuple(k for k, v in entered.items() if passed[k].value is not v)
    outputs: list[Value] = []
    for value in (*results, *(passed[k].value for k in written)):
        needs_copy = value in trace.builder.sources or any(value is v for v in outputs)
        outputs.append(trace.builder.add("identity", (value,)) if needs_copy else value)
    if not outputs:
        raise DefinitionError(
            f"{name} returns nothing and changes none of its arguments", hint="return an array or a tuple of arrays"
        )
    graph = trace.builder.finish(outputs)
    _check_extents(outputs, name)
    captured = tuple(captures[key] for key in trace.bound)
    return TracedFunction(graph, captured, written, tuple(trace.narrowed), len(results), not is_list(returned))


def _run(function: Callable[..., Any], passed: dict[str, Any]) -> object:
    parameters = inspect.signature(function).parameters.values()
    by_name = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    try:
        return function(
            *(value for name, value in passed.items() if name not in by_name),
            **{name: value for name, value in passed.items() if name in by_name},
        )
    except (TypeError, ValueError) as error:
        if isinstance(error.__cause__, LpxError):  # NumPy asked a traced array for its elements
            raise error.__cause__ from None
        raise


def _check_extents(outputs: Sequence[Value], name: str) -> None:
    for value in outputs:
        if not all(isinstance(d, int | Var) for d in value.shape):
            raise UnsupportedError(
                f"{name} returns an array of shape {shapes.shape_text(value.shape)}, computed from dynamic dimensions",
                hint="return arrays whose dimensions are numbers or those of the arguments, or make these static",
            )


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
