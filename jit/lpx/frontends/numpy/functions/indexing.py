"""Indexing of traced arrays: `x[key]`, `x[key] = value`.

Keys may hold integers, slices, None, `...`, integer arrays (known or traced) and, alone, a mask to assign through.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, TypeGuard, cast

import numpy as np

from lpx.errors import DefinitionError, DTypeError, IndexRangeError, UnsupportedError
from lpx.expr import build
from lpx.frontends.numpy.functions import gathering
from lpx.frontends.numpy.registry import protocol
from lpx.frontends.numpy.trace import Lens, Trace, TracedArray, assign
from lpx.graph import shapes
from lpx.graph.nodes import Value
from lpx.graph.shapes import Dim
from lpx.records import record
from lpx.source import capture


@record
class Selection:
    """A basic key: per axis of the array `start`, `step`, `size` of the range taken. `shape` is the result's: without
    the axes indexed by integers, with the new axes of None.
    """

    starts: tuple[Dim, ...]
    steps: tuple[int, ...]
    sizes: tuple[Dim, ...]
    shape: tuple[Dim, ...]


@protocol("__getitem__")
def getitem(trace: Trace, x: TracedArray, key: object) -> TracedArray:
    """`x[key]`: a view for basic keys, elements copied for index arrays, a scalar for one integer per axis."""
    keys = _expand(x, key)
    if any(_is_array(k) for k in keys):
        base, axes, places = _split(trace, x, keys)
        return gathering.gather(base, axes, places)
    view = _basic(x, select(x, keys))
    if not view.shape and not any(isinstance(k, EllipsisType) for k in _as_keys(key)):
        return TracedArray(trace, view.value)
    view.is_scalar = False
    return view


@protocol("__setitem__")
def setitem(trace: Trace, x: TracedArray, key: object, value: object) -> None:
    """`x[key] = value`: `x` gets a new value, with the selected elements replaced."""
    if _is_mask(key):
        _assign_masked(trace, x, trace.array(key), trace.array(value))
        return
    keys = _expand(x, key)
    if any(_is_array(k) for k in keys):
        base, axes, places = _split(trace, x, keys)
        gathering.scatter(base, axes, places, trace.array(value))
        return
    selection = select(x, keys)
    if _is_same_view(value, x, selection):  # x[key] += v has already changed x through the view x[key]
        return
    target = _basic(x, selection)
    target.is_scalar = False
    assign(target, trace.array(value))


def _is_same_view(value: object, x: TracedArray, selection: Selection) -> bool:
    view = value.lens if isinstance(value, TracedArray) else None
    return view is not None and view.base is x and view.selection == selection


def _basic(x: TracedArray, selection: Selection) -> TracedArray:
    builder = x.owner.builder
    starts, steps, sizes = selection.starts, selection.steps, selection.sizes

    kept = shapes.same_shape(sizes, selection.shape)

    def read(base: Value) -> Value:
        ranged = builder.add("slice", (base,), starts=starts, steps=steps, sizes=sizes)
        return ranged if kept else builder.add("reshape", (ranged,), shape=selection.shape)

    def write(base: Value, new: Value) -> Value:
        if any(isinstance(d, int) and d == 0 for d in sizes):
            return base
        ranged = new if kept else builder.add("reshape", (new,), shape=sizes)
        return builder.add("update_slice", (base, ranged), starts=starts, steps=steps)

    return TracedArray(x.owner, read(x.value), lens=Lens(x, read, write, selection))


def _assign_masked(trace: Trace, x: TracedArray, mask: TracedArray, value: TracedArray) -> None:
    if mask.ndim > x.ndim or value.ndim > x.ndim - mask.ndim:
        raise UnsupportedError(
            "assignment through a mask takes a number, or an array over the axes that the mask leaves",
            hint="write x[...] = np.where(mask, values, x)",
            span=capture(),
        )
    wide = getitem(trace, mask, (..., *(None,) * (x.ndim - mask.ndim)))
    stored = trace.cast(value, x.dtype)
    x.value = trace.add("where", trace.add("broadcast", wide, shape=x.shape), stored, TracedArray(trace, x.value)).value


def _as_keys(key: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)


def _is_array(key: object) -> bool:
    return isinstance(key, TracedArray | np.ndarray | list)


def _is_mask(key: object) -> bool:
    return isinstance(key, TracedArray | np.ndarray) and cast("np.ndarray[Any, Any]", key).dtype.kind == "b"


def _expand(x: TracedArray, key: object) -> list[object]:
    """One entry per axis of `x`, and the None entries: `...` and missing trailing axes become full slices."""
    keys = list(_as_keys(key))
    if any(_is_mask(k) for k in keys):
        raise UnsupportedError(
            "indexing with a mask is not supported: the result's shape depends on its elements",
            hint="use np.where(mask, x, other)",
            span=capture(),
        )
    used = sum(1 for k in keys if k is not None and not isinstance(k, EllipsisType))
    ellipses = [i for i, k in enumerate(keys) if isinstance(k, EllipsisType)]
    if used > x.ndim or len(ellipses) > 1:
        raise IndexRangeError(
            f"an array of {x.ndim} dimension(s) is indexed with {used} index(es)"
            if used > x.ndim
            else "an index can only have one ellipsis ('...')",
            hint="give at most one index per dimension",
            span=capture(),
        )
    full: list[object] = [slice(None)] * (x.ndim - used)
    if ellipses:
        keys[ellipses[0] : ellipses[0] + 1] = full
        return keys
    return [*keys, *full]


def select(x: TracedArray, keys: Sequence[object]) -> Selection:
    """The selection that basic keys make.

    Raises: IndexRangeError when an integer is out of range.
    """
    starts: list[Dim] = []
    steps: list[int] = []
    sizes: list[Dim] = []
    shape: list[Dim] = []
    for key in keys:
        if key is None:
            shape.append(1)
            continue
        start, step, size = _range(key, x.shape[len(starts)], len(starts))
        starts.append(start)
        steps.append(step)
        sizes.append(size)
        if isinstance(key, slice):
            shape.append(size)
    return Selection(tuple(starts), tuple(steps), tuple(sizes), tuple(shape))


def _is_slice(key: object) -> TypeGuard[slice[Any, Any, Any]]:
    return isinstance(key, slice)


def _range(key: object, extent: Dim, axis: int) -> tuple[Dim, int, Dim]:
    if _is_slice(key):
        if isinstance(extent, int):
            start, stop, step = key.indices(extent)
            return start, step, len(range(start, stop, step))
        return _dynamic_range(key, extent, axis)
    if isinstance(key, bool | np.bool_):
        raise UnsupportedError("indexing with a bool is not supported", hint="use np.where", span=capture())
    if not hasattr(type(key), "__index__"):
        raise DefinitionError(
            f"an array cannot be indexed with {key!r}",
            hint="use integers, slices, None, ... or index arrays",
            span=capture(),
        )
    position = operator.index(cast("int", key))
    if not isinstance(extent, int):
        raise DefinitionError(
            f"axis {axis} is dynamic and cannot be indexed by {position}, which may be outside of it",
            hint="make the dimension static",
            span=capture(),
        )
    if not -extent <= position < extent:
        raise IndexRangeError(
            f"index {position} is out of range for axis {axis} with {extent} element(s)",
            hint=f"use {-extent}..{extent - 1}" if extent else "the axis is empty",
            span=capture(),
        )
    return position % extent, 1, 1


def _dynamic_range(key: slice[Any, Any, Any], extent: Dim, axis: int) -> tuple[Dim, int, Dim]:
    """What a slice takes of a dynamic axis. Where it takes nothing, its start does not matter."""
    start, stop = (None if k is None else operator.index(k) for k in (key.start, key.stop))
    step = 1 if key.step is None else operator.index(key.step)
    if step == -1 and start is None and stop is None:
        return extent - 1, -1, extent
    if step < 1:
        raise DefinitionError(
            f"axis {axis} is dynamic and cannot be sliced by {key}",
            hint="of negative steps only [::-1] goes; or make the dimension static",
            span=capture(),
        )
    first: Dim = start or 0
    if start is not None and start < 0:
        first = build.maximum(extent + start, 0)
    end = extent if stop is None else extent + stop if stop < 0 else build.minimum(stop, extent)
    size = build.maximum(end - first, 0) if stop is not None or start is not None else extent
    return first, step, size if step == 1 else (size + (step - 1)) // step


def _split(trace: Trace, x: TracedArray, keys: Sequence[object]) -> tuple[TracedArray, list[int], list[TracedArray]]:
    """Advanced indexing in two steps: the view that the slices among `keys` make, its axes to be indexed by arrays, and
    those arrays; integers count as arrays.
    """
    is_index = [not (k is None or isinstance(k, slice)) for k in keys]
    base = _basic(x, select(x, [slice(None) if indexed else k for k, indexed in zip(keys, is_index, strict=True)]))
    axes = [axis for axis, indexed in enumerate(is_index) if indexed]
    return base, axes, [_index_array(trace, keys[axis], base.shape[axis], axis) for axis in axes]


def _index_array(trace: Trace, key: object, extent: Dim, axis: int) -> TracedArray:
    known = None if isinstance(key, TracedArray) else np.asarray(cast("Any", key))
    if known is not None and not known.size and key == []:
        known = known.astype(np.int64)
    places = trace.array(key if known is None else known)
    if places.dtype.kind not in "iu":
        raise DTypeError(f"indices must be integers, not {places.dtype}", hint="use .astype(int)", span=capture())
    if known is None or not isinstance(extent, int) or not known.size:
        return places
    low, high = int(known.min()), int(known.max())
    if not -extent <= low <= high < extent:
        raise IndexRangeError(
            f"index {low if low < -extent else high} is out of range for axis {axis} with {extent} element(s)",
            hint=f"use {-extent}..{extent - 1}" if extent else "the axis is empty",
            span=capture(),
        )
    return places
