"""Indexing of traced arrays: `x[key]`, `x[key] = value`, `np.take`.

Keys are known while tracing: integers, slices, None and `...`, and integer arrays (one per key).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np

from lpx.errors import DefinitionError, IndexRangeError, UnsupportedError
from lpx.frontends.numpy.registry import function
from lpx.frontends.numpy.trace import Trace, TracedArray, assign
from lpx.graph import shapes
from lpx.graph.shapes import Dim
from lpx.source import capture


@dataclass(frozen=True, slots=True)
class Selection:
    """A basic key: per axis of the array `start`, `step`, `size` of the range taken; axes in `dropped` were indexed by
    an integer; `shape` is the result's, with the new axes of None.
    """

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    sizes: tuple[Dim, ...]
    shape: tuple[Dim, ...]


def getitem(trace: Trace, x: TracedArray, key: Any) -> TracedArray:
    """`x[key]`."""
    keys = _expand(x, key)
    arrays = [k for k in keys if _is_array(k)]
    if arrays:
        return _gather(trace, x, keys)
    selected = select(x, keys)
    ranged = trace.add("slice", x.value, starts=selected.starts, steps=selected.steps, sizes=selected.sizes)
    return trace.add("reshape", ranged.value, shape=selected.shape) if ranged.shape != selected.shape else ranged


def setitem(trace: Trace, x: TracedArray, key: Any, value: Any) -> None:
    """`x[key] = value`: `x` gets a new value, with the selected elements replaced."""
    keys = _expand(x, key)
    if any(_is_array(k) for k in keys):
        raise UnsupportedError(
            "assignment through an index array is not supported", hint="use np.where over positions", span=capture()
        )
    selected = select(x, keys)
    given = trace.array(value)
    stored = assign(TracedArray(trace, trace.add("broadcast", _zero_like(trace, x), shape=selected.shape).value), given)
    ranged = trace.add("reshape", stored.value, shape=selected.sizes)
    if all(isinstance(s, int) for s in selected.sizes) and 0 in selected.sizes:
        return
    x.value = trace.add(
        "update_slice", x.value, ranged.value, starts=selected.starts, steps=selected.steps
    ).value


def _zero_like(trace: Trace, x: TracedArray) -> Any:
    return trace.add("full", shape=(), value=0, dtype=x.value.dtype.name).value


def _is_array(key: object) -> bool:
    return isinstance(key, TracedArray | np.ndarray | list)


def _expand(x: TracedArray, key: Any) -> list[Any]:
    """One entry per axis of `x`, and the None entries: `...` and missing trailing axes become full slices."""
    keys = list(key) if isinstance(key, tuple) else [key]
    used = sum(1 for k in keys if k is not None and not isinstance(k, EllipsisType))
    ellipses = [i for i, k in enumerate(keys) if isinstance(k, EllipsisType)]
    if used > x.ndim or len(ellipses) > 1:
        raise IndexRangeError(
            f"an array of {x.ndim} dimension(s) is indexed with {used} index(es)"
            if used > x.ndim
            else "an index can only have one ellipsis ('...')",
            span=capture(),
        )
    full = [slice(None)] * (x.ndim - used)
    if ellipses:
        keys[ellipses[0] : ellipses[0] + 1] = full
        return keys
    return [*keys, *full]


def select(x: TracedArray, keys: list[Any]) -> Selection:
    """The selection that basic keys make.

    Raises: IndexRangeError when an integer is out of range.
    """
    starts: list[int] = []
    steps: list[int] = []
    sizes: list[Dim] = []
    shape: list[Dim] = []
    axis = 0
    for key in keys:
        if key is None:
            shape.append(1)
            continue
        start, step, size = _range(key, x.shape[axis], axis)
        starts.append(start)
        steps.append(step)
        sizes.append(size)
        if isinstance(key, slice):
            shape.append(size)
        axis += 1
    return Selection(tuple(starts), tuple(steps), tuple(sizes), tuple(shape))


def _range(key: Any, extent: Dim, axis: int) -> tuple[int, int, Dim]:
    if isinstance(key, slice):
        if isinstance(extent, int):
            start, stop, step = key.indices(extent)
            return start, step, len(range(start, stop, step))
        if key == slice(None):
            return 0, 1, extent
        raise DefinitionError(
            f"axis {axis} is dynamic and cannot be sliced by {key}", hint="make the dimension static", span=capture()
        )
    if isinstance(key, bool | np.bool_):
        raise UnsupportedError("indexing with a bool is not supported", span=capture())
    if not hasattr(type(key), "__index__"):
        raise DefinitionError(f"an array cannot be indexed with {key!r}", span=capture())
    position = key.__index__()
    if not isinstance(extent, int):
        raise DefinitionError(f"axis {axis} is dynamic and cannot be indexed by {position}", span=capture())
    if not -extent <= position < extent:
        raise IndexRangeError(
            f"index {position} is out of range for axis {axis} with {extent} element(s)", span=capture()
        )
    return position % extent, 1, 1


def _gather(trace: Trace, x: TracedArray, keys: list[Any]) -> TracedArray:
    positions = [i for i, k in enumerate(keys) if _is_array(k)]
    if len(positions) > 1:
        raise UnsupportedError("indexing with several arrays is not supported", span=capture())
    (position,) = positions
    indices = trace.array(keys[position] if not isinstance(keys[position], list) else np.asarray(keys[position]))
    if indices.dtype.kind == "b":
        raise UnsupportedError(
            "indexing with a mask is not supported: the result's shape would depend on it",
            hint="use np.where(mask, x, other)",
            span=capture(),
        )
    rest = [slice(None) if i == position else k for i, k in enumerate(keys)]
    if any(not (isinstance(k, slice) or k is None) for k in rest):
        raise UnsupportedError("integers beside an index array are not supported", hint="index twice", span=capture())
    base = getitem(trace, x, tuple(rest))
    return take(trace, base, indices, axis=position)


@function(np.take, method="take")
def take(trace: Trace, a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> TracedArray:
    """np.take; an index out of range is a run-time error."""
    if mode != "raise" or out is not None:
        raise UnsupportedError(f"np.take with mode={mode!r} or out= is not supported", span=capture())
    x = trace.array(a)
    if axis is None:
        x, axis = trace.add("reshape", x.value, shape=(x.size,)), 0
    where = trace.array(indices)
    if where.dtype.kind not in "iu":
        raise DefinitionError(f"indices must be integers, not {where.dtype}", span=capture())
    return trace.add("take", x.value, where.value, axis=shapes.normalize_axis(axis, x.ndim))


function(method="__getitem__")(getitem)
function(method="__setitem__")(setitem)
