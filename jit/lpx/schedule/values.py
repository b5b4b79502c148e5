"""Arguments and results of primitives as a trace stores them: JSON, and Python source.

A handle or a sampled value is stored as the name of the instruction result it came from, so that a replay with another
decision carries through. Everything else is stored as itself: numbers, strings, lists, index expressions over the
function's symbols, and index maps such as `lambda i, j: (i // 4, j, i % 4)`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from lpx import dtypes
from lpx.errors import TraceError
from lpx.expr import build, traverse
from lpx.expr.nodes import Binary, Const, Expr, Var
from lpx.records import record
from lpx.schedule.errors import OptionError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%"}


class SampledInt(int):
    """An int drawn by a `sample_*` primitive. Passed on as it is, the trace remembers where it came from."""

    def __repr__(self) -> str:
        return int.__repr__(self)


class SampledStr(str):
    """A str drawn by a `sample_*` primitive. Passed on as it is, the trace remembers where it came from."""

    __slots__ = ()


@record(eq=False)
class IndexMap:
    """A function of indices as data: `targets` are expressions over `variables`. Call it to apply it."""

    variables: tuple[Var, ...]
    targets: tuple[Expr, ...]

    @staticmethod
    def of(function: Callable[..., object]) -> IndexMap:
        """The map that a Python function of index expressions computes; an IndexMap is taken as it is.

        Raises: OptionError when the function has variadic parameters or does not return index expressions.
        """
        if isinstance(function, IndexMap):
            return function
        parameters = inspect.signature(function).parameters.values()
        if any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
            raise OptionError("an index map takes one plain parameter per axis", hint="lambda i, j: (j, i)")
        variables = tuple(build.var(p.name) for p in parameters)
        result = function(*variables)
        targets = cast("Sequence[object]", result) if isinstance(result, tuple | list) else (result,)
        return IndexMap(variables, tuple(build.as_expr(t, dtypes.index) for t in targets))

    def __call__(self, *indices: Expr) -> tuple[Expr, ...]:
        values = dict(zip(self.variables, indices, strict=True))
        return tuple(traverse.substitute(t, values) for t in self.targets)


def as_tuple(value: object) -> tuple[object, ...] | None:
    """The items of a tuple or list, None for anything else."""
    return tuple(cast("Sequence[object]", value)) if isinstance(value, tuple | list) else None


def reference(name: str) -> Json:
    """The stored form of the result `name` of an earlier instruction."""
    return {"ref": name}


def to_json(value: object, name_of: Callable[[object], str | None]) -> Json:
    """`value` as JSON; values that `name_of` knows are stored by name.

    Raises: OptionError for a value that a trace cannot store.
    """
    name = name_of(value)
    if name is not None:
        return reference(name)
    match value:
        case None | bool() | int() | float() | str():
            return int(value) if isinstance(value, SampledInt) else value
        case Expr():
            return {"expr": _expr_to_json(value)}
        case IndexMap(variables=variables, targets=targets):
            return {"map": [[v.name for v in variables], [_expr_to_json(t) for t in targets]]}
        case tuple() | list():
            return [to_json(v, name_of) for v in cast("Sequence[object]", value)]
        case _:
            raise OptionError(
                f"{value!r} cannot be an argument of a primitive",
                hint="pass handles, tensors, block names, numbers, strings, index expressions or lists of them",
            )


def from_json(value: Json, refs: Mapping[str, object], symbols: Mapping[str, Var]) -> object:
    """The argument that was stored, with results of earlier instructions looked up in `refs`.

    Raises: TraceError for a name that is not known.
    """
    match value:
        case {"ref": str(name)}:
            return _look_up(name, refs, "result of an earlier instruction")
        case {"expr": stored}:
            return _expr_from_json(stored, symbols)
        case {"map": [list(names), list(targets)]}:
            variables = {str(n): build.var(str(n)) for n in names}
            return IndexMap(
                tuple(variables.values()), tuple(_expr_from_json(t, {**symbols, **variables}) for t in targets)
            )
        case list(values):
            return tuple(from_json(v, refs, symbols) for v in values)
        case dict():
            raise TraceError(f"{value!r} is not an argument that traces store")
        case _:
            return value


def to_python(value: Json) -> str:
    """A stored value as Python source in which `s` is the schedule."""
    match value:
        case {"ref": str(name)}:
            return name
        case {"expr": stored}:
            return _expr_to_python(stored, ())
        case {"map": [list(names), list(targets)]}:
            own = tuple(str(n) for n in names)
            return f"lambda {', '.join(own)}: {_tuple([_expr_to_python(t, own) for t in targets])}"
        case list(values):
            return _tuple([to_python(v) for v in values])
        case float() if not math.isfinite(value):
            return f'float("{value}")'
        case dict():
            raise TraceError(f"{value!r} is not an argument that traces store")
        case _:
            return repr(value)


def _tuple(items: Sequence[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _expr_to_json(expr: Expr) -> Json:
    match expr:
        case Const(value=int(value)):
            return int(value)
        case Var(name=name):
            return name
        case Binary(op=op, a=a, b=b) if op in _OPERATORS:
            return [op, _expr_to_json(a), _expr_to_json(b)]
        case _:
            raise OptionError(
                f"a {type(expr).__name__} expression cannot be an argument of a primitive",
                hint="use integers, symbolic extents and + - * // %",
            )


def _expr_from_json(stored: Json, variables: Mapping[str, Var]) -> Expr:
    match stored:
        case int(value):
            return build.const(value, dtypes.index)
        case str(name):
            return cast("Var", _look_up(name, variables, "symbolic extent"))
        case [str(op), left, right] if op in _OPERATORS:
            return build.binary(cast("Any", op), _expr_from_json(left, variables), _expr_from_json(right, variables))
        case _:
            raise TraceError(f"{stored!r} is not an index expression")


def _expr_to_python(stored: Json, own: Sequence[str]) -> str:
    match stored:
        case int():
            return str(stored)
        case str():
            return stored if stored in own else f's.symbol("{stored}")'
        case [str(op), left, right] if op in _OPERATORS:
            return f"({_expr_to_python(left, own)} {_OPERATORS[op]} {_expr_to_python(right, own)})"
        case _:
            raise TraceError(f"{stored!r} is not an index expression")


def _look_up(name: str, known: Mapping[str, object], what: str) -> object:
    if name not in known:
        raise TraceError(f"{name} is not a {what}", hint=f"known are {', '.join(known) or 'none'}")
    return known[name]
