"""Reductions over axes, positions of extremes, running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lpx.errors import ShapeError, UnsupportedError
from lpx.frontends.numpy.dispatch import as_dtype
from lpx.frontends.numpy.functions import shaping
from lpx.frontends.numpy.functions.creation import unified
from lpx.frontends.numpy.registry import function, name_of, newer
from lpx.frontends.numpy.trace import Trace, TracedArray, assign
from lpx.graph import shapes
from lpx.source import capture


def reduce(operator: str, x: TracedArray, axis: Any, keepdims: Any = False) -> TracedArray:
    """A reduction operator over `axis`; None means all axes."""
    return x.owner.add(operator, x, axes=shaping.as_axes(x, axis), keepdims=keepdims is True)


def as_bool(x: TracedArray) -> TracedArray:
    """Whether each element is not zero."""
    return x if x.dtype.kind == "b" else x != 0


def accumulating(x: TracedArray, dtype: Any = None) -> np.dtype[Any]:
    """The dtype NumPy sums and multiplies in: at least the platform's integer for integers and bools."""
    if dtype is not None:
        return as_dtype(dtype)
    if x.dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if x.dtype.kind == "u" else x.dtype


def widened(x: TracedArray) -> TracedArray:
    """`x` in float32 where it is a narrower float, so that sums are rounded once."""
    dtype = x.value.dtype
    return x.owner.cast(x, "float32") if dtype.is_float and dtype.bits < 32 else x


def sum_of(x: TracedArray, axis: Any, keepdims: Any = False) -> TracedArray:
    """The sum in the dtype of `x`, rounded once."""
    return x.owner.cast(reduce("reduce_sum", widened(x), axis, keepdims), x.dtype)


def stored(out: Any, result: TracedArray) -> TracedArray:
    """`result`, in `out` where that is given."""
    return result if out is None else assign(out, result)


def _accumulation(operator: str, identity: int, combine: np.ufunc) -> Callable[..., TracedArray]:
    def row(
        trace: Trace,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = None,
        where: Any = True,
    ) -> TracedArray:
        given = trace.array(a)
        target = accumulating(given, dtype)
        x = trace.cast(given, target)
        if where is not True:
            x = trace.add("where", trace.array(where), x, trace.number(identity, target))
        total = trace.cast(reduce(operator, widened(x), axis, keepdims), target)
        if initial is not None:
            total = trace.cast(combine(total, trace.cast(trace.array(initial), target)), target)
        return stored(out, total)

    return row


function(np.sum, method="sum")(_accumulation("reduce_sum", 0, np.add))
function(np.prod, method="prod")(_accumulation("reduce_prod", 1, np.multiply))


def _check_not_empty(name: str, x: TracedArray, axis: Any) -> None:
    if any(d == 0 for k in shaping.as_axes(x, axis) if isinstance(d := x.shape[k], int)):
        raise ShapeError(
            f"{name} over no elements has no value: the shape is {shapes.shape_text(x.shape)}",
            hint="reduce over axes that are not empty, or give initial=",
            span=capture(),
        )


def _extreme(operator: str, name: str, combine: np.ufunc) -> Callable[..., TracedArray]:
    def row(
        trace: Trace,
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = None,
        where: Any = True,
    ) -> TracedArray:
        x = trace.array(a)
        if initial is None:
            if where is not True:
                raise UnsupportedError(f"{name} with where= needs initial=", hint="give initial=", span=capture())
            _check_not_empty(name, x, axis)
            return stored(out, reduce(operator, x, axis, keepdims))
        x, start = unified(trace, [x, initial])
        if where is not True:
            x = trace.add("where", trace.array(where), x, start)
        return stored(out, combine(reduce(operator, x, axis, keepdims), start))

    return row


function(np.max, np.amax, method="max")(_extreme("reduce_max", "np.max", np.maximum))
function(np.min, np.amin, method="min")(_extreme("reduce_min", "np.min", np.minimum))


def _logical(operator: str) -> Callable[..., TracedArray]:
    def row(
        trace: Trace, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, where: Any = True
    ) -> TracedArray:
        x = as_bool(trace.array(a))
        if where is not True:
            x = trace.add("where", trace.array(where), x, trace.number(operator == "reduce_all", "bool"))
        return stored(out, reduce(operator, x, axis, keepdims))

    return row


function(np.any, method="any")(_logical("reduce_any"))
function(np.all, method="all")(_logical("reduce_all"))


def _position(operator: str, numpy: Callable[..., Any]) -> Callable[..., TracedArray]:
    def row(trace: Trace, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> TracedArray:
        x = trace.array(a)
        _check_not_empty(name_of(numpy), x, axis)
        if axis is not None:
            return stored(out, trace.add(operator, x, axis=shaping.as_axis(x, axis), keepdims=keepdims is True))
        flat = trace.add(operator, shaping.ravel(trace, x), axis=0, keepdims=False)
        return stored(out, shaping.reshaped(flat, (1,) * x.ndim) if keepdims is True else flat)

    return row


function(np.argmax, method="argmax")(_position("argmax", np.argmax))
function(np.argmin, method="argmin")(_position("argmin", np.argmin))


def _running(operator: str) -> Callable[..., TracedArray]:
    def row(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> TracedArray:
        return stored(out, running(operator, trace.array(a), axis, dtype))

    return row


def running(operator: str, x: TracedArray, axis: Any, dtype: Any = None) -> TracedArray:
    """A running sum or product along `axis`, of the flattened array for None."""
    trace = x.owner
    converted = trace.cast(x, accumulating(x, dtype))
    if axis is None:
        converted, axis = shaping.ravel(trace, converted), 0
    along = shaping.as_axis(converted, axis)
    return trace.add(operator, converted, axis=along, exclusive=False, reverse=False)


function(np.cumsum, method="cumsum")(_running("cumsum"))
function(np.cumprod, method="cumprod")(_running("cumprod"))


def _cumulative(operator: str, identity: int) -> Callable[..., TracedArray]:
    def row(trace: Trace, x: Any, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> TracedArray:
        array = trace.array(x)
        if axis is None and array.ndim > 1:
            raise ShapeError("a cumulative sum or product of several dimensions needs axis=", span=capture())
        along = shaping.as_axis(array, 0 if axis is None else axis)
        made = running(operator, array, along, dtype)
        if not include_initial:
            return made
        before = tuple(int(k == along) for k in range(array.ndim))
        return trace.add("pad", made, trace.number(identity, made.dtype), before=before, after=(0,) * array.ndim)

    return row


function(*newer("cumulative_sum"))(_cumulative("cumsum", 0))
function(*newer("cumulative_prod"))(_cumulative("cumprod", 1))
