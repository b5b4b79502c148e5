"""Functions that choose, limit, round and compare elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lpx.errors import UnsupportedError
from lpx.frontends.numpy.array_operators import apply
from lpx.frontends.numpy.functions import reductions
from lpx.frontends.numpy.functions.creation import unified
from lpx.frontends.numpy.functions.reductions import as_bool, stored
from lpx.frontends.numpy.registry import function
from lpx.frontends.numpy.trace import Trace, TracedArray
from lpx.graph import shapes
from lpx.source import capture


@function(np.where)
def where(trace: Trace, condition: Any, x: Any = None, y: Any = None) -> TracedArray:
    """np.where with three arguments."""
    if x is None or y is None:
        raise UnsupportedError(
            "np.where(condition) alone is not supported: the result's shape depends on the elements",
            hint="use np.where(condition, a, b)",
            span=capture(),
        )
    a, b = unified(trace, [x, y])
    return trace.add("where", as_bool(trace.array(condition)), a, b)


@function(np.select)
def select(trace: Trace, condlist: Any, choicelist: Any, default: Any = 0) -> TracedArray:
    """np.select."""
    *choices, chosen = unified(trace, [*choicelist, default])
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        chosen = trace.add("where", trace.array(condition), choice, chosen)
    return chosen


@function(np.clip, method="clip")
def clip(
    trace: Trace, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, min: Any = None, max: Any = None
) -> TracedArray:
    """np.clip."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    x, *limits = unified(trace, [a, *(limit for limit in (low, high) if limit is not None)])
    clipped = x
    if low is not None:
        clipped = trace.add("max", clipped, limits[0])
    if high is not None:
        clipped = trace.add("min", clipped, limits[-1])
    return stored(out, clipped)


@function(np.nan_to_num)
def nan_to_num(
    trace: Trace, x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> TracedArray:
    """np.nan_to_num; with copy=False the array itself is changed."""
    array = trace.array(x)
    dtype = array.value.dtype
    if not dtype.is_float:
        return array
    largest = float(np.finfo(array.dtype).max)
    found = trace.add("where", apply(np.isnan, array), trace.number(nan, dtype), array)
    ends = ((math.inf, largest if posinf is None else posinf), (-math.inf, -largest if neginf is None else neginf))
    for infinity, replacement in ends:
        found = trace.add("where", array == infinity, trace.number(replacement, dtype), found)
    return found if copy else stored(array, found)


@function(np.round, np.around, method="round")
def around(trace: Trace, a: Any, decimals: int = 0, out: Any = None) -> TracedArray:
    """np.round: ties to even, by scaling with a power of ten."""
    x = trace.array(a)
    if x.dtype.kind in "iu":
        if decimals >= 0:
            return stored(out, TracedArray(trace, x.value))
        scale = 10.0**-decimals
        return stored(out, trace.cast(apply(np.rint, x / scale) * scale, x.dtype))
    if decimals == 0:
        return stored(out, apply(np.rint, x))
    scale = 10.0 ** abs(decimals)
    rounded = apply(np.rint, x * scale) / scale if decimals > 0 else apply(np.rint, x / scale) * scale
    return stored(out, rounded)


@function(np.fix)
def fix(trace: Trace, x: Any, out: Any = None) -> TracedArray:
    """np.fix: towards zero."""
    return stored(out, apply(np.trunc, trace.array(x)))


@function(np.isposinf)
def isposinf(trace: Trace, x: Any, out: Any = None) -> TracedArray:
    """np.isposinf."""
    return stored(out, trace.array(x) == math.inf)


@function(np.isneginf)
def isneginf(trace: Trace, x: Any, out: Any = None) -> TracedArray:
    """np.isneginf."""
    return stored(out, trace.array(x) == -math.inf)


@function(np.isclose)
def isclose(trace: Trace, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> TracedArray:
    """np.isclose."""
    x, y = trace.array(a), trace.array(b)
    if not y.value.dtype.is_float:
        y = trace.cast(y, np.result_type(y.dtype, 1.0))
    close: TracedArray = (apply(np.abs, x - y) <= atol + rtol * apply(np.abs, y)) & apply(np.isfinite, y) | (x == y)
    return close | (apply(np.isnan, x) & apply(np.isnan, y)) if equal_nan else close


@function(np.allclose)
def allclose(trace: Trace, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> TracedArray:
    """np.allclose, as a bool array without dimensions."""
    return reductions.reduce("reduce_all", isclose(trace, a, b, rtol, atol, equal_nan), None)


@function(np.array_equal)
def array_equal(trace: Trace, a1: Any, a2: Any, equal_nan: bool = False) -> TracedArray:
    """np.array_equal, as a bool array without dimensions."""
    x, y = trace.array(a1), trace.array(a2)
    if x.ndim != y.ndim or not all(shapes.same_dim(d, e) for d, e in zip(x.shape, y.shape, strict=True)):
        return trace.number(False, "bool")
    same = apply(np.equal, x, y)
    if equal_nan and x.value.dtype.is_float and y.value.dtype.is_float:
        same = same | (apply(np.isnan, x) & apply(np.isnan, y))
    return reductions.reduce("reduce_all", same, None)


@function(np.array_equiv)
def array_equiv(trace: Trace, a1: Any, a2: Any) -> TracedArray:
    """np.array_equiv of shapes that broadcast, as a bool array without dimensions."""
    return reductions.reduce("reduce_all", apply(np.equal, trace.array(a1), trace.array(a2)), None)


@function(np.sinc)
def sinc(trace: Trace, x: Any) -> TracedArray:
    """np.sinc: sin(pi x) / (pi x)."""
    scaled = np.pi * trace.array(x)
    nonzero = trace.add("where", scaled == 0, trace.number(float(np.finfo(scaled.dtype).eps), scaled.dtype), scaled)
    return apply(np.sin, nonzero) / nonzero


@function(np.polyval)
def polyval(trace: Trace, p: Any, x: Any) -> TracedArray:
    """np.polyval, by Horner's rule."""
    at = trace.array(x)
    value = trace.add("broadcast", trace.number(0, at.dtype), shape=at.shape)
    for coefficient in trace.array(p):
        value = value * at + coefficient
    return value
