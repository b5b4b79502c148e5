"""Functions that make arrays like others, copy and convert."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpx.frontends.numpy.dispatch import as_dtype
from lpx.frontends.numpy.functions.shaping import as_shape
from lpx.frontends.numpy.registry import function, method
from lpx.frontends.numpy.trace import Trace, TracedArray, overwrite


def filled(trace: Trace, like: TracedArray, value: Any, dtype: Any, shape: Any) -> TracedArray:
    """A new array of one number."""
    target = like.dtype if dtype is None else as_dtype(dtype)
    element = trace.cast(trace.array(value), target)
    made = trace.add("broadcast", element, shape=like.shape if shape is None else as_shape(shape))
    made.is_scalar = False
    return made


@function(np.full_like)
def full_like(trace: Trace, a: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> TracedArray:
    """np.full_like with a number or an array that broadcasts."""
    return filled(trace, trace.array(a), fill_value, dtype, shape)


@function(np.zeros_like)
def zeros_like(trace: Trace, a: Any, dtype: Any = None, shape: Any = None) -> TracedArray:
    """np.zeros_like."""
    return filled(trace, trace.array(a), 0, dtype, shape)


@function(np.ones_like)
def ones_like(trace: Trace, a: Any, dtype: Any = None, shape: Any = None) -> TracedArray:
    """np.ones_like."""
    return filled(trace, trace.array(a), 1, dtype, shape)


@function(np.empty_like)
def empty_like(trace: Trace, prototype: Any, dtype: Any = None, shape: Any = None) -> TracedArray:
    """np.empty_like; the elements are 0."""
    return filled(trace, trace.array(prototype), 0, dtype, shape)


@function(np.copy, method="copy")
def copy(trace: Trace, a: Any) -> TracedArray:
    """np.copy: an array that changes apart from the given one."""
    made = TracedArray(trace, trace.array(a).value)
    made.is_scalar = False
    return made


@function(np.astype)
def astype(trace: Trace, x: Any, dtype: Any) -> TracedArray:
    """np.astype: a copy in another dtype."""
    return trace.cast(trace.array(x), as_dtype(dtype))


@method("astype")
def astype_method(trace: Trace, x: TracedArray, dtype: Any, copy: bool = True) -> TracedArray:
    """ndarray.astype; without `copy` an array that has the dtype already is itself."""
    return x if not copy and x.dtype == as_dtype(dtype) else trace.cast(x, as_dtype(dtype))


@method("fill")
def fill(trace: Trace, x: TracedArray, value: Any) -> None:
    """ndarray.fill."""
    overwrite(x, trace.cast(trace.array(value), x.dtype))


@function(np.real, np.real_if_close)
def real(trace: Trace, val: Any = None, a: Any = None) -> TracedArray:
    """np.real: the array itself, since there are no complex ones."""
    return trace.array(a if val is None else val)


@method("conj", "conjugate")
def conjugate(trace: Trace, x: TracedArray) -> TracedArray:
    """ndarray.conj: a copy, since there are no complex arrays."""
    return TracedArray(trace, x.value)


@function(np.shape)
def shape_of(_: Trace, a: Any) -> Any:
    """np.shape: known while tracing."""
    return a.shape


@function(np.ndim)
def ndim_of(_: Trace, a: Any) -> Any:
    """np.ndim: known while tracing."""
    return a.ndim


@function(np.size)
def size_of(_: Trace, a: Any, axis: int | None = None) -> Any:
    """np.size: known while tracing, but for dynamic dimensions."""
    return a.size if axis is None else a.shape[axis]


@function(np.result_type)
def result_type(trace: Trace, *arrays_and_dtypes: Any) -> np.dtype[Any]:
    """np.result_type: known while tracing."""
    return np.result_type(*(promotable(a) if isinstance(a, TracedArray) else a for a in arrays_and_dtypes))


def promotable(x: TracedArray) -> Any:
    """What stands for an array in NumPy's promotion: its dtype, or a Python number for one."""
    return x.dtype if x.weak is None else x.weak(0)


def unified(trace: Trace, arrays: Any, *, weak: bool = True) -> list[TracedArray]:
    """The arrays in their common dtype; unless `weak`, Python numbers count as the arrays np.asarray makes of them."""
    traced = [trace.array(a) for a in arrays]
    dtype = np.result_type(*[promotable(t) if weak else t.dtype for t in traced])
    return [trace.cast(t, dtype) for t in traced]
