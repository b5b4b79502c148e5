"""Means, variances, and reductions that skip NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lpx.errors import ShapeError
from lpx.frontends.numpy.array_operators import apply
from lpx.frontends.numpy.dispatch import as_dtype
from lpx.frontends.numpy.functions import reductions, shaping
from lpx.frontends.numpy.functions.creation import promotable
from lpx.frontends.numpy.functions.indexing import getitem
from lpx.frontends.numpy.functions.joining import concatenate
from lpx.frontends.numpy.functions.reductions import accumulating, reduce, running, stored, sum_of
from lpx.frontends.numpy.registry import function
from lpx.frontends.numpy.trace import Trace, TracedArray
from lpx.graph import shapes
from lpx.graph.shapes import Dim
from lpx.source import capture


def _mean_dtype(x: TracedArray, dtype: Any) -> np.dtype[Any]:
    if dtype is not None:
        return as_dtype(dtype)
    return x.dtype if x.value.dtype.is_float else np.dtype(np.float64)


def _count(x: TracedArray, axis: Any) -> Dim:
    return shapes.size(x.shape[k] for k in shaping.as_axes(x, axis))


def _mean(x: TracedArray, axis: Any, keepdims: Any) -> TracedArray:
    """The mean of floats of at least float32."""
    return reduce("reduce_sum", x, axis, keepdims) / x.owner.extent(_count(x, axis), x.dtype)


@function(np.mean, method="mean")
def mean(
    trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False
) -> TracedArray:
    """np.mean: a sum in float32 or wider, divided by the count."""
    x = trace.array(a)
    target = _mean_dtype(x, dtype)
    wide = reductions.widened(trace.cast(x, target))
    return stored(out, trace.cast(_mean(wide, axis, keepdims), target))


@function(np.var, method="var")
def var(
    trace: Trace,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
    correction: float | None = None,
) -> TracedArray:
    """np.var: the mean of squared distances from the mean (two passes), in float32 or wider."""
    x = trace.array(a)
    target = _mean_dtype(x, dtype)
    wide = reductions.widened(trace.cast(x, target))
    distances = wide - _mean(wide, axis, keepdims=True)
    squares = reduce("reduce_sum", distances * distances, axis, keepdims)
    count = trace.extent(_count(x, axis), wide.dtype) - float(ddof if correction is None else correction)
    return stored(out, trace.cast(squares / apply(np.maximum, count, 0), target))


@function(np.std, method="std")
def std(
    trace: Trace,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
    correction: float | None = None,
) -> TracedArray:
    """np.std: the square root of the variance."""
    return stored(out, apply(np.sqrt, var(trace, a, axis, dtype, None, ddof, keepdims, correction)))


@function(np.average)
def average(
    trace: Trace, a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    """np.average."""
    x = trace.array(a)
    if weights is None:
        found = mean(trace, x, axis, None, None, keepdims)
        total = trace.add("broadcast", trace.extent(_count(x, axis), found.dtype), shape=found.shape)
        return (found, total) if returned else found
    w = trace.array(weights)
    if w.ndim == 1 and x.ndim > 1 and axis is not None:
        along = shaping.as_axis(x, axis)
        w = shaping.reshaped(w, tuple(x.shape[k] if k == along else 1 for k in range(x.ndim)))
    floor = np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype
    target = np.result_type(promotable(x), promotable(w), floor)
    x, w = trace.cast(x, target), trace.add("broadcast", trace.cast(w, target), shape=x.shape)
    total = sum_of(w, axis, keepdims)
    found = sum_of(x * w, axis, keepdims) / total
    return (found, total) if returned else found


@function(np.count_nonzero)
def count_nonzero(trace: Trace, a: Any, axis: Any = None, *, keepdims: Any = False) -> TracedArray:
    """np.count_nonzero: int64."""
    return reduce("reduce_sum", trace.cast(reductions.as_bool(trace.array(a)), "int64"), axis, keepdims)


@function(np.ptp)
def ptp(trace: Trace, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> TracedArray:
    """np.ptp: the maximum minus the minimum."""
    x = trace.array(a)
    return stored(out, reduce("reduce_max", x, axis, keepdims) - reduce("reduce_min", x, axis, keepdims))


def _without_nan(trace: Trace, a: Any, replacement: float) -> TracedArray:
    x = trace.array(a)
    if not x.value.dtype.is_float:
        return x
    return trace.add("where", apply(np.isnan, x), trace.number(replacement, x.dtype), x)


def _numbers(trace: Trace, a: Any, axis: Any, keepdims: Any) -> TracedArray:
    """How many elements are not NaN, int64."""
    return count_nonzero(trace, ~apply(np.isnan, trace.array(a)), axis, keepdims=keepdims)


@function(np.nansum)
def nansum(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> TracedArray:
    """np.nansum."""
    x = _without_nan(trace, a, 0)
    return sum_of(trace.cast(x, accumulating(x, dtype)), axis, keepdims)


@function(np.nanprod)
def nanprod(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> TracedArray:
    """np.nanprod."""
    x = _without_nan(trace, a, 1)
    target = accumulating(x, dtype)
    return trace.cast(reduce("reduce_prod", reductions.widened(trace.cast(x, target)), axis, keepdims), target)


@function(np.nancumsum)
def nancumsum(trace: Trace, a: Any, axis: Any = None, dtype: Any = None) -> TracedArray:
    """np.nancumsum."""
    return running("cumsum", _without_nan(trace, a, 0), axis, dtype)


@function(np.nancumprod)
def nancumprod(trace: Trace, a: Any, axis: Any = None, dtype: Any = None) -> TracedArray:
    """np.nancumprod."""
    return running("cumprod", _without_nan(trace, a, 1), axis, dtype)


def _nan_extreme(trace: Trace, a: Any, axis: Any, keepdims: Any, operator: str, lowest: float) -> TracedArray:
    x = trace.array(a)
    found = reduce(operator, _without_nan(trace, x, lowest), axis, keepdims)
    if not x.value.dtype.is_float:
        return found
    return trace.add(
        "where", reduce("reduce_all", apply(np.isnan, x), axis, keepdims), trace.number(math.nan, x.dtype), found
    )


@function(np.nanmax)
def nanmax(trace: Trace, a: Any, axis: Any = None, keepdims: Any = False) -> TracedArray:
    """np.nanmax: NaN where all elements are."""
    return _nan_extreme(trace, a, axis, keepdims, "reduce_max", -math.inf)


@function(np.nanmin)
def nanmin(trace: Trace, a: Any, axis: Any = None, keepdims: Any = False) -> TracedArray:
    """np.nanmin: NaN where all elements are."""
    return _nan_extreme(trace, a, axis, keepdims, "reduce_min", math.inf)


@function(np.nanmean)
def nanmean(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> TracedArray:
    """np.nanmean: NaN where all elements are."""
    x = _without_nan(trace, a, 0)
    target = _mean_dtype(x, dtype)
    wide = reductions.widened(trace.cast(x, target))
    total = reduce("reduce_sum", wide, axis, keepdims)
    return trace.cast(total / trace.cast(_numbers(trace, a, axis, keepdims), wide.dtype), target)


@function(np.nanvar)
def nanvar(
    trace: Trace, a: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: Any = False
) -> TracedArray:
    """np.nanvar: NaN where no more than `ddof` elements are numbers."""
    x = trace.array(a)
    target = _mean_dtype(x, dtype)
    wide = reductions.widened(trace.cast(x, target))
    distances = _without_nan(trace, wide - nanmean(trace, wide, axis, None, keepdims=True), 0)
    freedom = trace.cast(_numbers(trace, x, axis, keepdims), wide.dtype) - float(ddof)
    variance = reduce("reduce_sum", distances * distances, axis, keepdims) / freedom
    return trace.cast(trace.add("where", freedom <= 0, trace.number(math.nan, wide.dtype), variance), target)


@function(np.nanstd)
def nanstd(
    trace: Trace, a: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: Any = False
) -> TracedArray:
    """np.nanstd."""
    return apply(np.sqrt, nanvar(trace, a, axis, dtype, ddof, keepdims))


@function(np.diff)
def diff(trace: Trace, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> TracedArray:
    """np.diff."""
    x = trace.array(a)
    along = shaping.as_axis(x, axis)
    ends = [_as_slab(trace, end, x, along) for end in (prepend, append) if end is not None]
    if ends:
        x = concatenate(trace, [*ends[: prepend is not None], x, *ends[prepend is not None :]], along)
    lead = (slice(None),) * along
    for _ in range(n):
        after, before = getitem(trace, x, (*lead, slice(1, None))), getitem(trace, x, (*lead, slice(None, -1)))
        x = after != before if x.dtype.kind == "b" else after - before
    return x


def _as_slab(trace: Trace, end: Any, x: TracedArray, axis: int) -> TracedArray:
    slab = trace.array(end)
    return slab if slab.ndim else trace.add("broadcast", slab, shape=(*x.shape[:axis], 1, *x.shape[axis + 1 :]))


@function(np.ediff1d)
def ediff1d(trace: Trace, ary: Any, to_end: Any = None, to_begin: Any = None) -> TracedArray:
    """np.ediff1d."""
    flat = shaping.ravel(trace, ary)
    steps = diff(trace, flat)
    ends = [None if end is None else trace.cast(shaping.ravel(trace, end), flat.dtype) for end in (to_begin, to_end)]
    parts = [p for p in (ends[0], steps, ends[1]) if p is not None]
    return concatenate(trace, parts)


@function(np.trapezoid)
def trapezoid(trace: Trace, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> TracedArray:
    """np.trapezoid."""
    values = trace.array(y)
    along = shaping.as_axis(values, axis)
    widths = trace.array(dx)
    if x is not None:
        places = trace.array(x)
        widths = diff(trace, places, 1, along if places.ndim > 1 else 0)
        if widths.ndim == 1:
            shape: list[Dim] = [1] * values.ndim
            shape[along] = widths.shape[0]
            widths = shaping.reshaped(widths, shape)
    lead = (slice(None),) * along
    pairs = getitem(trace, values, (*lead, slice(1, None))) + getitem(trace, values, (*lead, slice(None, -1)))
    return sum_of(widths * pairs / 2.0, along)


@function(np.interp)
def interp(trace: Trace, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> TracedArray:
    """np.interp on two or more rising points, without period."""
    at, places, values = (trace.cast(trace.array(v), "float64") for v in (x, xp, fp))
    (count,) = shapes.static(places.shape, "np.interp")
    if count < 2:
        raise ShapeError("np.interp needs two points or more", hint="a constant needs no interpolation", span=capture())
    found = trace.add("searchsorted", places, at, right=True) - 1
    below = apply(np.minimum, apply(np.maximum, found, 0), count - 2)
    x0, x1, y0, y1 = (trace.add("take", source, below + k, axis=0) for source in (places, values) for k in (0, 1))
    inside = (y1 - y0) / (x1 - x0) * (at - x0) + y0
    first, last = getitem(trace, values, 0), getitem(trace, values, -1)
    low = first if left is None else trace.cast(trace.array(left), "float64")
    high = last if right is None else trace.cast(trace.array(right), "float64")
    end = getitem(trace, places, -1)
    found = trace.add("where", at < getitem(trace, places, 0), low, inside)
    return trace.add("where", at > end, high, trace.add("where", at == end, last, found))
