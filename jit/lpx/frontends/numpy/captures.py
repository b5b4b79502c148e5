"""Arrays that a function refers to by the names of globals and closure variables, as they are at each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lpx.records import record

_OWN_ROOTS = ("lpx", "lpx_kernels", "numpy")


@record(eq=False)
class Capture:
    """One variable: a global of a module (`scope` is its dictionary) or a closure's cell."""

    name: str
    scope: dict[str, Any] | CellType

    def read(self) -> object:
        """What the variable refers to now; None when nothing."""
        if isinstance(self.scope, dict):
            return self.scope.get(self.name)
        try:
            return cast("object", self.scope.cell_contents)
        except ValueError:  # an empty cell
            return None

    def read_array(self) -> NDArray[Any] | None:
        """The array the variable refers to now, where it is one that may change: read-only ones are constants."""
        value = self.read()
        return cast("NDArray[Any]", value) if isinstance(value, np.ndarray) and value.flags.writeable else None


def captures_of(function: Callable[..., Any]) -> list[Capture]:
    """The variables a function may refer to, and those of the Python functions it refers to."""
    found: list[Capture] = []
    seen: set[FunctionType] = set()
    pending: list[object] = [function]
    while pending:
        current = pending.pop()
        if not isinstance(current, FunctionType) or current in seen or _is_own(current):
            continue
        seen.add(current)
        variables = list(_variables(current))
        found.extend(variables)
        pending.extend(variable.read() for variable in variables)
    return found


def _is_own(function: FunctionType) -> bool:
    return str(function.__module__).partition(".")[0] in _OWN_ROOTS


def _variables(function: FunctionType) -> Iterator[Capture]:
    for name in dict.fromkeys(_names(function.__code__)):
        if name in function.__globals__:
            yield Capture(name, function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield Capture(name, cell)


def _names(code: CodeType) -> Iterator[str]:
    """The names that code mentions, with those of the functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
