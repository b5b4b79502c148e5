"""Functions that make arrays like others, choose elements, and convert."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpx.errors import UnsupportedError
from lpx.frontends.numpy.functions.shaping import unified
from lpx.frontends.numpy.registry import function
from lpx.frontends.numpy.trace import Trace, TracedArray
from lpx.source import capture


@function(np.where)
def where(trace: Trace, condition: Any, x: Any = None, y: Any = None) -> TracedArray:
    """np.where with three arguments."""
    if x is None or y is None:
        raise UnsupportedError(
            "np.where(condition) alone is not supported: the result's shape depends on the elements", span=capture()
        )
    cond = trace.cast(trace.array(condition), "bool")
    a, b = unified(trace, [x, y])
    return trace.add("where", cond.value, a.value, b.value)


@function(method="astype")
def astype(trace: Trace, x: TracedArray, dtype: Any, copy: bool = True, **_: Any) -> TracedArray:
    """ndarray.astype."""
    return trace.cast(x, np.dtype(dtype))


@function(np.full_like)
def full_like(trace: Trace, a: Any, fill_value: Any, dtype: Any = None, **_: Any) -> TracedArray:
    """np.full_like with a number."""
    x = trace.array(a)
    value = trace.cast(trace.array(fill_value), x.dtype if dtype is None else np.dtype(dtype))
    return trace.add("broadcast", value.value, shape=x.shape)


@function(np.zeros_like, np.empty_like)
def zeros_like(trace: Trace, a: Any, dtype: Any = None, **_: Any) -> TracedArray:
    """np.zeros_like."""
    return full_like(trace, a, 0, dtype)


@function(np.ones_like)
def ones_like(trace: Trace, a: Any, dtype: Any = None, **_: Any) -> TracedArray:
    """np.ones_like."""
    return full_like(trace, a, 1, dtype)
