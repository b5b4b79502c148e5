"""Functions that reverse, rotate and shift along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpx.errors import ShapeError
from lpx.frontends.numpy.functions import shaping
from lpx.frontends.numpy.functions.indexing import getitem
from lpx.frontends.numpy.functions.shaping import as_axes
from lpx.frontends.numpy.registry import function
from lpx.frontends.numpy.trace import Trace, TracedArray, as_tuple
from lpx.graph import shapes
from lpx.source import capture


@function(np.flip)
def flip(trace: Trace, m: Any, axis: Any = None) -> TracedArray:
    """np.flip."""
    x = trace.array(m)
    axes = as_axes(x, axis)
    return getitem(trace, x, tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(x.ndim)))


@function(np.fliplr)
def fliplr(trace: Trace, m: Any) -> TracedArray:
    """np.fliplr."""
    return flip(trace, m, 1)


@function(np.flipud)
def flipud(trace: Trace, m: Any) -> TracedArray:
    """np.flipud."""
    return flip(trace, m, 0)


@function(np.rot90)
def rot90(trace: Trace, m: Any, k: int = 1, axes: Any = (0, 1)) -> TracedArray:
    """np.rot90."""
    x = trace.array(m)
    first, second = (shaping.as_axis(x, a) for a in axes)
    turns = k % 4
    if turns == 0:
        return getitem(trace, x, ...)
    if turns == 2:
        return flip(trace, x, (first, second))
    if turns == 1:
        return shaping.swapaxes(trace, flip(trace, x, second), first, second)
    return flip(trace, shaping.swapaxes(trace, x, first, second), second)


@function(np.roll)
def roll(trace: Trace, a: Any, shift: Any, axis: Any = None) -> TracedArray:
    """np.roll by shifts known while tracing."""
    x = trace.array(a)
    if axis is None:
        flat = _rolled(trace, shaping.ravel(trace, x), int(sum(as_tuple(shift))), 0)
        return shaping.reshaped(flat, x.shape)
    shifts, axes = as_tuple(shift), as_tuple(axis)
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise ShapeError(f"np.roll by {shift} along {axis}", hint="give as many shifts as axes", span=capture())
    count = max(len(shifts), len(axes))
    pairs = zip(shifts * count if len(shifts) == 1 else shifts, axes * count if len(axes) == 1 else axes, strict=True)
    for distance, along in pairs:
        x = _rolled(trace, x, distance, shaping.as_axis(x, along))
    return TracedArray(trace, x.value)


def _rolled(trace: Trace, x: TracedArray, distance: int, axis: int) -> TracedArray:
    (extent,) = shapes.static(x.shape[axis : axis + 1], "np.roll")
    cut = -distance % extent if extent else 0
    if cut == 0:
        return x
    lead = (slice(None),) * axis
    parts = [getitem(trace, x, (*lead, slice(cut, None))), getitem(trace, x, (*lead, slice(None, cut)))]
    return trace.add("concat", *parts, axis=axis)
