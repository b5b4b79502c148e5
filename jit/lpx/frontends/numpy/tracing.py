"""Running a user's function once on traced arrays, and what a call's arguments mean to it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx import dtypes, te
from lpx.errors import DefinitionError, LpxError
from lpx.expr.nodes import Var
from lpx.frontends.numpy.trace import Number, Trace, TracedArray
from lpx.graph.nodes import Dim, Graph, Value
from lpx.runtime.foreign import to_numpy

Dynamic = Mapping[str, Mapping[int, str]]
"""For each argument, the names of its symbolic dimensions: `{"x": {0: "n"}}`."""


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An argument that is an array at run time. `weak` names the Python type of a number."""

    name: str
    dtype: dtypes.DType
    shape: tuple[int | str, ...]
    weak: str = ""


@dataclass(frozen=True, slots=True)
class StaticArgument:
    """An argument whose value is part of the compiled code."""

    name: str
    value: object


Abstract = tuple[ArrayArgument | StaticArgument, ...]
"""What a call is compiled for, as a hashable key."""


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """A traced call.

    `graph.inputs` are the array arguments in order, then the captured arrays named in `captured`. The first `results`
    outputs are what the function returns (`single`: one bare array, else a tuple), the others the new contents of the
    arguments in `written`.
    """

    graph: Graph
    captured: tuple[str, ...]
    written: tuple[str, ...]
    results: int
    single: bool


def abstract_arguments(
    names: Sequence[str], values: Sequence[Any], static: Sequence[str], dynamic: Dynamic
) -> tuple[Abstract, list[NDArray[Any]]]:
    """What the arguments are to the compiler, and the arrays among them.

    Raises: DefinitionError when a static argument cannot be hashed.
    """
    kinds: list[ArrayArgument | StaticArgument] = []
    arrays: list[NDArray[Any]] = []
    for name, value in zip(names, values, strict=True):
        if name in static or value is None or isinstance(value, str | tuple | np.dtype | type):
            kinds.append(StaticArgument(name, _hashable(name, value)))
            continue
        array = np.asarray(value) if isinstance(value, Number) else to_numpy(value, name)
        symbolic = dynamic.get(name, {})
        shape = tuple(symbolic.get(axis, extent) for axis, extent in enumerate(array.shape))
        weak = type(value).__name__ if isinstance(value, Number) else ""
        kinds.append(ArrayArgument(name, dtypes.parse(array.dtype), shape, weak))
        arrays.append(array)
    return tuple(kinds), arrays


def _hashable(name: str, value: object) -> object:
    try:
        hash(value)
    except TypeError:
        raise DefinitionError(f"the static argument {name} is {value!r}, which cannot be hashed") from None
    return value


def trace_function(function: Callable[..., Any], name: str, arguments: Abstract) -> TracedFunction:
    """Run `function` on traced arrays for `arguments` (by keyword where it has names).

    Raises: DefinitionError when it returns something other than arrays; whatever the function itself raises.
    """
    trace = Trace(name, {id(array): key for key, array in captured_arrays(function).items()})
    symbols: dict[str, Var] = {}
    passed = {a.name: _enter(trace, a, symbols) for a in arguments}
    entered = {key: a.value for key, a in passed.items() if isinstance(a, TracedArray)}
    returned = function(**passed) if not _positional(function) else function(*passed.values())
    results, single = _results(trace, returned, name)
    written = tuple(k for k, v in entered.items() if passed[k].value is not v)
    outputs = [*results, *(passed[k].value for k in written)]
    copied: list[Value] = []
    for value in outputs:
        needs_copy = value in trace.builder.sources or any(value is v for v in copied)
        copied.append(trace.add("identity", value).value if needs_copy else value)
    graph = trace.builder.finish(copied)
    return TracedFunction(graph, tuple(trace.bound), written, len(results), single)


def _positional(function: Callable[..., Any]) -> bool:
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    return any(k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL) for k in kinds)


def _enter(trace: Trace, argument: ArrayArgument | StaticArgument, symbols: dict[str, Var]) -> Any:
    if isinstance(argument, StaticArgument):
        return argument.value
    shape: list[Dim] = []
    for extent in argument.shape:
        shape.append(symbols.setdefault(extent, te.var(extent)) if isinstance(extent, str) else extent)
    weak = {"bool": bool, "int": int, "float": float}.get(argument.weak)
    return trace.argument(argument.dtype, shape, argument.name, weak)


def _results(trace: Trace, returned: Any, name: str) -> tuple[list[Value], bool]:
    single = not isinstance(returned, tuple | list)
    entries = [returned] if single else list(returned)
    if not entries or any(e is None for e in entries):
        if returned is None:
            return [], False
        raise DefinitionError(f"{name} returns {returned!r}", hint="return an array or a tuple of arrays")
    try:
        return [trace.array(entry).value for entry in entries], single
    except LpxError:
        raise
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{name} returns {returned!r}", hint="return an array or a tuple of arrays") from error


def captured_arrays(function: Callable[..., Any]) -> dict[str, NDArray[Any]]:
    """Writable arrays that a function refers to by a global or closure name; read-only ones are constants."""
    if not isinstance(function, FunctionType):
        return {}
    scope = inspect.getclosurevars(function)
    named = {**scope.globals, **scope.nonlocals}
    return {k: v for k, v in named.items() if isinstance(v, np.ndarray) and v.flags.writeable and v.ndim}
