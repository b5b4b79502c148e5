"""Reading and writing at positions that are arrays: advanced indexing, np.take, np.searchsorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lpx.errors import DTypeError, ShapeError, UnsupportedError
from lpx.frontends.numpy.array_operators import apply
from lpx.frontends.numpy.functions import shaping
from lpx.frontends.numpy.registry import function
from lpx.frontends.numpy.trace import Trace, TracedArray, assign
from lpx.graph import shapes
from lpx.source import capture


def _are_adjacent(axes: Sequence[int]) -> bool:
    return list(axes) == list(range(axes[0], axes[0] + len(axes)))


def gather(x: TracedArray, axes: Sequence[int], places: Sequence[TracedArray]) -> TracedArray:
    """`x` indexed along rising `axes` by arrays that broadcast.

    The arrays' axes come in place of `axes` where these are adjacent, else first.
    """
    if not _are_adjacent(axes) and any(p.ndim for p in places):
        x, axes = _axes_first(x, axes), range(len(axes))
    if not _are_adjacent(axes):  # all are numbers: their axes vanish where they are
        for axis, place in zip(reversed(axes), reversed(places), strict=True):
            x = gather(x, [axis], [place])
        return x
    return x.owner.add("gather", x, *places, axes=tuple(axes))


def scatter(x: TracedArray, axes: Sequence[int], places: Sequence[TracedArray], value: TracedArray) -> None:
    """Write `value`, broadcast, where `gather` would read; of equal places the last one counts."""
    trace = x.owner
    common = shapes.broadcast_shapes([p.shape for p in places])
    rest = tuple(d for a, d in enumerate(x.shape) if a not in axes)
    lead = axes[0] if _are_adjacent(axes) else 0
    shape = (*rest[:lead], *common, *rest[lead:])
    stored = assign(_blank(trace, x, shape), value)
    order = [*range(lead, lead + len(common)), *range(lead), *range(lead + len(common), len(shape))]
    front = _axes_first(x, axes)
    arranged = shaping.transpose(trace, stored, order)
    front.value = trace.add("scatter", TracedArray(trace, front.value), arranged, *places).value


def _blank(trace: Trace, x: TracedArray, shape: Sequence[shapes.Dim]) -> TracedArray:
    made = trace.add("broadcast", trace.number(0, x.value.dtype), shape=tuple(shape))
    made.is_scalar = False
    return made


def _axes_first(x: TracedArray, axes: Sequence[int]) -> TracedArray:
    """A view of `x` with `axes` in front."""
    return shaping.transpose(x.owner, x, [*axes, *(a for a in range(x.ndim) if a not in axes)])


def _integers(trace: Trace, indices: Any) -> TracedArray:
    places = trace.array(indices)
    if places.dtype.kind not in "iu":
        raise DTypeError(f"indices must be integers, not {places.dtype}", hint="use .astype(int)", span=capture())
    return places


@function(np.take, method="take")
def take(trace: Trace, a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> TracedArray:
    """np.take; with mode "raise" an index out of range is a run-time error."""
    x, places = trace.array(a), _integers(trace, indices)
    if axis is None:
        x, axis = shaping.ravel(trace, x), 0
    along = shaping.as_axis(x, axis)
    extent = trace.extent(x.shape[along], "int64")
    if mode == "wrap":
        places = apply(np.remainder, trace.cast(places, "int64"), extent)
    elif mode == "clip":
        places = apply(np.minimum, apply(np.maximum, trace.cast(places, "int64"), 0), extent - 1)
    elif mode != "raise":
        raise UnsupportedError(f"np.take with mode={mode!r}", hint='use "raise", "wrap" or "clip"', span=capture())
    return trace.add("take", x, places, axis=along)


@function(np.take_along_axis)
def take_along_axis(trace: Trace, arr: Any, indices: Any, axis: int | None = -1) -> TracedArray:
    """np.take_along_axis."""
    x, places = trace.array(arr), _integers(trace, indices)
    if axis is None:
        x, axis = shaping.ravel(trace, x), 0
    if x.ndim != places.ndim:
        raise ShapeError("indices and array must have one rank", hint="add axes with np.expand_dims", span=capture())
    return trace.add("take_along", x, places, axis=shaping.as_axis(x, axis))


@function(np.searchsorted)
def searchsorted(trace: Trace, a: Any, v: Any, side: str = "left") -> TracedArray:
    """np.searchsorted in a sorted 1-D array."""
    ordered, values = trace.array(a), trace.array(v)
    if ordered.ndim != 1:
        raise ShapeError("np.searchsorted looks in a 1-D array", hint="loop over the rows", span=capture())
    common = np.result_type(ordered.dtype, values.dtype)
    return trace.add("searchsorted", trace.cast(ordered, common), trace.cast(values, common), right=side == "right")
