"""Reductions over axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpx.errors import UnsupportedError
from lpx.frontends.numpy.registry import function
from lpx.frontends.numpy.trace import Trace, TracedArray
from lpx.graph import shapes
from lpx.source import capture


def _axes(x: TracedArray, axis: Any) -> tuple[int, ...]:
    return shapes.normalize_axes(None if axis is None else axis, x.ndim)


def _refuse(name: str, **options: Any) -> None:
    """Refuse the arguments that were given and are not supported."""
    for key, value in options.items():
        if value is not None and value is not np._NoValue:  # pyright: ignore
            raise UnsupportedError(f"np.{name} with {key}= is not supported", span=capture())


def reduce(trace: Trace, x: TracedArray, operator: str, axis: Any, keepdims: Any) -> TracedArray:
    """A reduction operator over `axis`."""
    keep = keepdims is True
    return trace.add(operator, x.value, axes=_axes(x, axis), keepdims=keep)


def _accumulating(x: TracedArray, dtype: Any) -> np.dtype[Any]:
    """The dtype NumPy sums and multiplies in: at least the platform's integer for integers and bools."""
    if dtype is not None:
        return np.dtype(dtype)
    if x.dtype.kind == "b" or (x.dtype.kind == "i" and x.dtype.itemsize < 8):
        return np.dtype(np.int64)
    if x.dtype.kind == "u" and x.dtype.itemsize < 8:
        return np.dtype(np.uint64)
    return x.dtype


@function(np.sum, method="sum")
def sum(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None) -> TracedArray:  # noqa: A001, E501
    """np.sum."""
    _refuse("sum", out=out, initial=initial, where=where)
    x = trace.array(a)
    return reduce(trace, trace.cast(x, _accumulating(x, dtype)), "reduce_sum", axis, keepdims)


@function(np.prod, method="prod")
def prod(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None) -> TracedArray:  # noqa: E501
    """np.prod."""
    _refuse("prod", out=out, initial=initial, where=where)
    x = trace.array(a)
    return reduce(trace, trace.cast(x, _accumulating(x, dtype)), "reduce_prod", axis, keepdims)


@function(np.max, method="max")
def max(trace: Trace, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None) -> TracedArray:  # noqa: A001, E501
    """np.max."""
    _refuse("max", out=out, initial=initial, where=where)
    return reduce(trace, trace.array(a), "reduce_max", axis, keepdims)


@function(np.min, method="min")
def min(trace: Trace, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None) -> TracedArray:  # noqa: A001, E501
    """np.min."""
    _refuse("min", out=out, initial=initial, where=where)
    return reduce(trace, trace.array(a), "reduce_min", axis, keepdims)


@function(np.mean, method="mean")
def mean(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None) -> TracedArray:  # noqa: E501
    """np.mean: a sum in float32 or wider, divided by the count."""
    _refuse("mean", out=out, where=where)
    x = trace.array(a)
    result = np.dtype(dtype) if dtype is not None else (x.dtype if x.dtype.kind == "f" else np.dtype(np.float64))
    wide = np.dtype(np.float32) if result == np.float16 else result
    total = reduce(trace, trace.cast(x, wide), "reduce_sum", axis, keepdims)
    count: Any = 1
    for k in _axes(x, axis):
        count = count * x.shape[k]
    divisor = trace.add("full", shape=(), value=count, dtype=wide.name) if isinstance(count, int) else None
    if divisor is None:
        raise UnsupportedError("np.mean over a dynamic dimension is not supported yet", span=capture())
    return trace.cast(trace.add("div", total.value, divisor.value), result)


@function(np.any, method="any")
def any(trace: Trace, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None) -> TracedArray:  # noqa: A001, E501
    """np.any."""
    _refuse("any", out=out, where=where)
    return reduce(trace, trace.cast(trace.array(a), "bool"), "reduce_any", axis, keepdims)


@function(np.all, method="all")
def all(trace: Trace, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None) -> TracedArray:  # noqa: A001, E501
    """np.all."""
    _refuse("all", out=out, where=where)
    return reduce(trace, trace.cast(trace.array(a), "bool"), "reduce_all", axis, keepdims)
