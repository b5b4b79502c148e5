"""From the caller's arrays and extents to memory and values of symbols, and back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from lpx.errors import ArgumentError, ShapeError
from lpx.expr.buffer import Buffer, Layout
from lpx.expr.nodes import Expr, Var
from lpx.ir.interpreter.expressions import Compiled, Slots
from lpx.ir.interpreter.storage import Storage, memory_positions, values_of, write_elements
from lpx.ir.nodes import Function, Param
from lpx.records import record


def evaluate(exprs: Sequence[Expr], values: Mapping[Var, int]) -> tuple[int, ...]:
    """The values of scalar expressions over variables."""
    slots = Slots()
    compiled = Compiled(slots, exprs)
    places = {slots.of(var): value for var, value in values.items()}
    env: list[Any] = [places.get(slot) for slot in range(slots.size)]
    compiled.reset(env)
    return tuple(lane(env, 0) for lane in compiled.roots)


@record
class Bound:
    """A parameter's memory. Element `elements[k]` of the caller's array, in row-major order, is at `positions[k]`."""

    param: Param
    array: NDArray[Any]
    storage: Storage
    positions: Sequence[int]
    elements: Sequence[int]

    def write_back(self) -> None:
        """Copy what was computed into the caller's array."""
        values = self.storage.values
        write_elements(self.array, self.elements, [values[p] for p in self.positions])


def bind(param: Param, array: NDArray[Any], symbols: Mapping[Var, int]) -> Bound:
    """The memory of a parameter, filled from the caller's array.

    Raises: ArgumentError for another dtype, ShapeError for another shape.
    """
    buffer = param.buffer
    if array.dtype != buffer.dtype.to_numpy():
        raise ArgumentError(f"{buffer.name} is {buffer.dtype}, but its array is {array.dtype}")
    shape = evaluate(buffer.shape, symbols)
    elements: Sequence[int] = range(array.size)
    if buffer.layout is not None:
        _check_shape(buffer, array, evaluate(buffer.layout.physical_shape, symbols))
        positions: Sequence[int] = range(math.prod(shape))
        elements = _physical_positions(buffer.layout, shape, symbols)
    elif buffer.rank == 1 and array.ndim != 1:
        positions = _flat_positions(buffer, array, shape[0])
    else:
        _check_shape(buffer, array, shape)
        positions = range(array.size)
    storage = Storage(buffer.name, buffer.dtype, shape, [None] * math.prod(shape))
    given = values_of(array, buffer.dtype)
    for position, element in zip(positions, elements, strict=True):
        storage.values[position] = given[element]
    return Bound(param, array, storage, positions, elements)


def _check_shape(buffer: Buffer, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ShapeError(f"{buffer.name} has shape {shape}, but its array has {array.shape}")


def _flat_positions(buffer: Buffer, array: NDArray[Any], size: int) -> Sequence[int]:
    positions = memory_positions(array)
    if any(not 0 <= p < size for p in positions):
        raise ShapeError(
            f"{buffer.name} spans {size} elements of memory, but its array of shape {array.shape} does not fit"
        )
    return positions


def _physical_positions(layout: Layout, shape: tuple[int, ...], symbols: Mapping[Var, int]) -> list[int]:
    physical = evaluate(layout.physical_shape, symbols)
    found: list[int] = []
    for index in itertools.product(*map(range, shape)):
        target = evaluate(layout.targets, {**symbols, **dict(zip(layout.variables, index, strict=True))})
        position = 0
        for i, extent in zip(target, physical, strict=True):
            position = position * extent + i
        found.append(position)
    return found


def solve_extents(function: Function, arrays: Sequence[NDArray[Any]], extents: Mapping[str, int]) -> dict[Var, int]:
    """The value of every symbol, in order: as given, or the size of a dimension that it is.

    Raises: ArgumentError when one is not known, ShapeError when it is negative.
    """
    sizes: dict[Var, int] = {}
    for param, array in zip(function.params, arrays, strict=True):
        layout = param.buffer.layout
        shape = param.buffer.shape if layout is None else layout.physical_shape
        if len(shape) == array.ndim:
            sizes.update({e: n for e, n in zip(shape, array.shape, strict=True) if isinstance(e, Var)})
    return {symbol: _extent(function, symbol, sizes, extents) for symbol in function.symbols}


def _extent(function: Function, symbol: Var, sizes: Mapping[Var, int], extents: Mapping[str, int]) -> int:
    extent = extents.get(symbol.name, sizes.get(symbol))
    if extent is None:
        raise ArgumentError(
            f"the extent {symbol.name} of {function.name} follows from no array",
            hint=f'pass extents={{"{symbol.name}": ...}}',
        )
    if extent < 0:
        raise ShapeError(f"the extent {symbol.name} of {function.name} is {extent}; extents are not negative")
    return int(extent)
