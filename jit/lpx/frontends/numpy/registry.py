"""Which NumPy ufuncs, functions and array methods `lpx.jit` accepts: the tables, and how rows are added.

Rows live in `ufuncs.py` and `functions/`; importing those fills the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from lpx.graph.nodes import Value

UfuncRow = Callable[..., "Value | tuple[Value, ...]"]
"""`row(builder, *operands)`: the operands are values already converted to the ufunc's loop dtypes."""

Function = Callable[..., Any]
Row = TypeVar("Row", bound=Callable[..., Any])

UFUNCS: dict[np.ufunc, UfuncRow] = {}
FUNCTIONS: dict[Function, Function] = {}
"""NumPy function -> `row(trace, **arguments)`, called with the arguments the user gave, by their names in NumPy.

A parameter of NumPy's that the row does not have must be left at its default.
"""

METHODS: dict[str, Function] = {}
"""Method of ndarray -> the NumPy function of the same parameters, or `row(trace, array, *args, **kwargs)`."""

PROTOCOLS: dict[str, Function] = {}
"""Special method of ndarray, such as `__getitem__` -> what a traced array calls for it."""

REFUSED: dict[Function, str] = {}
"""NumPy function that cannot be supported -> what to use instead."""


def ufunc(*names: str) -> Callable[[UfuncRow], UfuncRow]:
    """Register a row for the NumPy ufuncs of these names; older releases of NumPy 2 lack some."""

    def decorate(row: UfuncRow) -> UfuncRow:
        UFUNCS.update({getattr(np, name): row for name in names if hasattr(np, name)})
        return row

    return decorate


def function(*functions: Function, method: str = "") -> Callable[[Row], Row]:
    """Register a row for NumPy functions, the first of which is also the ndarray method of the name `method`."""

    def decorate(row: Row) -> Row:
        for each in functions:
            FUNCTIONS[each] = row
        if method:
            METHODS[method] = functions[0]
        return row

    return decorate


def newer(name: str) -> list[Function]:
    """The NumPy function of a name, where this release of NumPy 2 has it already."""
    return [getattr(np, name)] if hasattr(np, name) else []


def method(*names: str) -> Callable[[Row], Row]:
    """Register a row for ndarray methods that no NumPy function has the parameters of."""

    def decorate(row: Row) -> Row:
        for name in names:
            METHODS[name] = row
        return row

    return decorate


def protocol(name: str) -> Callable[[Row], Row]:
    """Register what a traced array calls for the special method `name`."""

    def decorate(row: Row) -> Row:
        PROTOCOLS[name] = row
        return row

    return decorate


def name_of(each: Function) -> str:
    """A NumPy function as users write it: np.linalg.norm."""
    return f"{each.__module__}.{each.__name__}".replace("numpy", "np", 1)
