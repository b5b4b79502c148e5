"""Which NumPy ufuncs and functions `lpx.jit` accepts: the tables, and how rows are added.

Rows live in `ufuncs.py` and `functions/`; importing those fills the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lpx.graph.nodes import Value

UfuncRow = Callable[..., "Value | tuple[Value, ...]"]
"""`row(builder, *operands)`: the operands are values already converted to the ufunc's loop dtypes."""

FunctionRow = Callable[..., Any]
"""`row(trace, *args, **kwargs)`: called with what the user passed to the NumPy function."""

UFUNCS: dict[np.ufunc, UfuncRow] = {}
FUNCTIONS: dict[Callable[..., Any], FunctionRow] = {}
METHODS: dict[str, Callable[..., Any]] = {}


def ufunc(*names: str) -> Callable[[UfuncRow], UfuncRow]:
    """Register a row for the NumPy ufuncs of these names."""

    def decorate(row: UfuncRow) -> UfuncRow:
        for name in names:
            UFUNCS[getattr(np, name)] = row
        return row

    return decorate


def function(*functions: Callable[..., Any], method: str = "") -> Callable[[FunctionRow], FunctionRow]:
    """Register a row for NumPy functions, and for the ndarray method of the name `method`."""

    def decorate(row: FunctionRow) -> FunctionRow:
        for each in functions:
            FUNCTIONS[each] = row
        if method:
            METHODS[method] = row
        return row

    return decorate
