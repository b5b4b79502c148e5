"""Functions that put arrays together, repeat, pad and split them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lpx.errors import ShapeError, UnsupportedError
from lpx.frontends.numpy.dispatch import as_dtype
from lpx.frontends.numpy.functions import shaping
from lpx.frontends.numpy.functions.creation import unified
from lpx.frontends.numpy.functions.gathering import take
from lpx.frontends.numpy.functions.indexing import getitem
from lpx.frontends.numpy.registry import function, newer
from lpx.frontends.numpy.trace import Trace, TracedArray, as_tuple, is_list
from lpx.graph import shapes
from lpx.source import capture


@function(np.concatenate, np.concat)
def concatenate(trace: Trace, arrays: Any, axis: int | None = 0, dtype: Any = None) -> TracedArray:
    """np.concatenate."""
    parts = _parts(trace, arrays) if dtype is None else [trace.cast(trace.array(a), as_dtype(dtype)) for a in arrays]
    if axis is None:
        parts, axis = [shaping.ravel(trace, p) for p in parts], 0
    if not parts[0].ndim:
        raise ShapeError("arrays without dimensions cannot be concatenated", hint="use np.stack", span=capture())
    return trace.add("concat", *parts, axis=shaping.as_axis(parts[0], axis))


def _parts(trace: Trace, arrays: Any) -> list[TracedArray]:
    """The arrays, or the rows of one array, in their common dtype."""
    parts = unified(trace, list(arrays), weak=False)
    if not parts:
        raise ShapeError("no array is given", hint="give one or more", span=capture())
    return parts


@function(np.stack)
def stack(trace: Trace, arrays: Any, axis: int = 0, dtype: Any = None) -> TracedArray:
    """np.stack."""
    return concatenate(trace, [shaping.expand_dims(trace, a, axis) for a in _parts(trace, arrays)], axis, dtype)


@function(*newer("unstack"))
def unstack(trace: Trace, x: Any, axis: int = 0) -> tuple[TracedArray, ...]:
    """np.unstack."""
    array = trace.array(x)
    along = shaping.as_axis(array, axis)
    (count,) = shapes.static(array.shape[along : along + 1], "np.unstack")
    lead = (slice(None),) * along
    return tuple(getitem(trace, array, (*lead, k)) for k in range(count))


@function(np.vstack)
def vstack(trace: Trace, tup: Any, dtype: Any = None) -> TracedArray:
    """np.vstack."""
    return concatenate(trace, [shaping.at_least(p, 2) for p in _parts(trace, tup)], 0, dtype)


@function(np.hstack)
def hstack(trace: Trace, tup: Any, dtype: Any = None) -> TracedArray:
    """np.hstack."""
    parts = [shaping.at_least(p, 1) for p in _parts(trace, tup)]
    return concatenate(trace, parts, 0 if parts[0].ndim == 1 else 1, dtype)


@function(np.dstack)
def dstack(trace: Trace, tup: Any) -> TracedArray:
    """np.dstack."""
    return concatenate(trace, [shaping.at_least(p, 3) for p in _parts(trace, tup)], 2)


@function(np.column_stack)
def column_stack(trace: Trace, tup: Any) -> TracedArray:
    """np.column_stack."""
    columns = [shaping.reshape(trace, p, (-1, 1)) if p.ndim < 2 else p for p in _parts(trace, tup)]
    return concatenate(trace, columns, 1)


@function(np.append)
def append(trace: Trace, arr: Any, values: Any, axis: int | None = None) -> TracedArray:
    """np.append."""
    return concatenate(trace, [arr, values], axis)


@function(np.block)
def block(trace: Trace, arrays: Any) -> TracedArray:
    """np.block."""
    levels = _depth(arrays)
    rank = max(levels, *(leaf.ndim for leaf in _leaves(trace, arrays)))
    return _assembled(trace, arrays, rank - levels, rank)


def _depth(x: object) -> int:
    return 1 + _depth(x[0]) if is_list(x) else 0


def _leaves(trace: Trace, x: object) -> list[TracedArray]:
    return [leaf for e in x for leaf in _leaves(trace, e)] if is_list(x) else [trace.array(x)]


def _assembled(trace: Trace, x: object, axis: int, rank: int) -> TracedArray:
    if is_list(x):
        return concatenate(trace, [_assembled(trace, e, axis + 1, rank) for e in x], axis)
    array = trace.array(x)
    return shaping.reshaped(array, (*(1,) * (rank - array.ndim), *array.shape))


@function(np.tile)
def tile(trace: Trace, A: Any, reps: Any) -> TracedArray:
    """np.tile."""
    x = trace.array(A)
    counts = as_tuple(reps)
    rank = max(x.ndim, len(counts))
    shape = (*(1,) * (rank - x.ndim), *x.shape)
    counts = (*(1,) * (rank - len(counts)), *counts)
    spread = shaping.reshaped(x, [d for extent in shape for d in (1, extent)])
    repeated = trace.add("broadcast", spread, shape=[d for pair in zip(counts, shape, strict=True) for d in pair])
    return TracedArray(trace, shaping.reshaped(repeated, [c * d for c, d in zip(counts, shape, strict=True)]).value)


@function(np.repeat, method="repeat")
def repeat(trace: Trace, a: Any, repeats: Any, axis: int | None = None) -> TracedArray:
    """np.repeat by counts known while tracing."""
    x = trace.array(a)
    if axis is None:
        x, axis = shaping.ravel(trace, x), 0
    along = shaping.as_axis(x, axis)
    if not isinstance(repeats, int | np.integer):
        (extent,) = shapes.static(x.shape[along : along + 1], "np.repeat")
        return take(trace, x, np.repeat(np.arange(extent), repeats), along)
    spread = shaping.reshaped(x, (*x.shape[: along + 1], 1, *x.shape[along + 1 :]))
    wide = trace.add("broadcast", spread, shape=(*x.shape[: along + 1], repeats, *x.shape[along + 1 :]))
    return TracedArray(
        trace, shaping.reshaped(wide, (*x.shape[:along], x.shape[along] * repeats, *x.shape[along + 1 :])).value
    )


@function(np.pad)
def pad(trace: Trace, array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> TracedArray:
    """np.pad in the modes constant, edge, reflect, symmetric and wrap."""
    x = trace.array(array)
    widths = _pairs(pad_width, x.ndim)
    if mode == "constant":
        return _pad_constant(trace, x, widths, constant_values)
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise UnsupportedError(
            f"np.pad in mode {mode!r} is not supported",
            hint="use constant, edge, reflect, symmetric or wrap",
            span=capture(),
        )
    for axis, width in enumerate(widths):
        if any(width):
            (extent,) = shapes.static(x.shape[axis : axis + 1], f"np.pad in mode {mode!r}")
            x = take(trace, x, np.pad(np.arange(extent), width, mode=mode), axis)  # type: ignore[call-overload]
    return TracedArray(trace, x.value)


def _pad_constant(trace: Trace, x: TracedArray, widths: Sequence[tuple[int, int]], values: Any) -> TracedArray:
    fills = np.asarray(values)
    if fills.ndim:  # each side has a number of its own: axis by axis, as later axes overwrite the corners
        for axis, (width, pair) in enumerate(zip(widths, np.broadcast_to(fills, (x.ndim, 2)), strict=True)):
            for side in range(2):
                one_side = [(0, 0)] * x.ndim
                one_side[axis] = (width[0], 0) if side == 0 else (0, width[1])
                x = _pad_constant(trace, x, one_side, pair[side].item())
        return x
    fill = trace.cast(trace.array(values), x.dtype)
    return trace.add("pad", x, fill, before=tuple(w[0] for w in widths), after=tuple(w[1] for w in widths))


def _pairs(width: Any, rank: int) -> list[tuple[int, int]]:
    """(before, after) per axis from what np.pad takes."""
    pairs = np.broadcast_to(np.asarray(width), (rank, 2)).tolist()
    if any(w < 0 for pair in pairs for w in pair):
        raise ShapeError("np.pad cannot take away elements", hint="slice instead", span=capture())
    return [(before, after) for before, after in pairs]


@function(np.array_split)
def array_split(trace: Trace, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    """np.array_split."""
    x = trace.array(ary)
    along = shaping.as_axis(x, axis)
    (extent,) = shapes.static(x.shape[along : along + 1], "np.split")
    if np.ndim(indices_or_sections):
        cuts = [0, *(operator.index(k) for k in indices_or_sections), extent]
    else:
        sections = operator.index(indices_or_sections)
        cuts = [k * (extent // sections) + min(k, extent % sections) for k in range(sections + 1)]
    lead = (slice(None),) * along
    return [
        getitem(trace, x, (*lead, slice(start, end if k < len(cuts) - 2 else None)))
        for k, (start, end) in enumerate(pairwise(cuts))
    ]


@function(np.split)
def split(trace: Trace, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    """np.split."""
    x = trace.array(ary)
    extent = x.shape[shaping.as_axis(x, axis)]
    if isinstance(indices_or_sections, int) and isinstance(extent, int) and extent % indices_or_sections:
        raise ShapeError(
            f"{extent} elements do not split into {indices_or_sections} equal parts",
            hint="np.array_split makes unequal ones",
            span=capture(),
        )
    return array_split(trace, x, indices_or_sections, axis)


@function(np.hsplit)
def hsplit(trace: Trace, ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    """np.hsplit."""
    x = trace.array(ary)
    return split(trace, x, indices_or_sections, 0 if x.ndim == 1 else 1)


@function(np.vsplit)
def vsplit(trace: Trace, ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    """np.vsplit."""
    return split(trace, ary, indices_or_sections, 0)


@function(np.dsplit)
def dsplit(trace: Trace, ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    """np.dsplit."""
    return split(trace, ary, indices_or_sections, 2)
