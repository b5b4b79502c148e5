"""Sums, means, extremes and where they are, over any axes; running sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import lpx
from lpx_kernels.registry import FLOATS, case, register

Axes = int | tuple[int, ...] | None
"""One axis, several, or all of them."""


@lpx.jit(static=("axis", "keepdims"))
def sum(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The sum of x[...] over `axis`: of integers in 64 bits, wrapping; of narrow floats in float32, rounded once."""
    return np.sum(x, axis=axis, keepdims=keepdims)


@lpx.jit(static=("axis", "keepdims"))
def mean(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The mean of floats x[...] over `axis`; of narrow floats in float32, rounded once."""
    return np.mean(x, axis=axis, keepdims=keepdims)


@lpx.jit(static=("axis", "keepdims"))
def max(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The maximum of x[...] over `axis`, which must have elements; NaN where there is one."""
    return np.max(x, axis=axis, keepdims=keepdims)


@lpx.jit(static=("axis", "keepdims"))
def min(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The minimum of x[...] over `axis`, which must have elements; NaN where there is one."""
    return np.min(x, axis=axis, keepdims=keepdims)


@lpx.jit(static=("axis", "keepdims"))
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """The first place, int64, of the maximum of x[...] along `axis`, or of NaN; in the flattened array for None."""
    return np.argmax(x, axis=axis, keepdims=keepdims)


@lpx.jit(static=("axis",))
def cumsum(x: Any, axis: int | None = None) -> Any:
    """The running sum of x[...] along `axis`, of the flattened array for None; integers in 64 bits, wrapping."""
    return np.cumsum(x, axis=axis)


def _summed(x: Any, axis: Axes = None, keepdims: bool = False) -> int:
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return math.prod(int(x.shape[a]) for a in axes)


_DTYPES = (*FLOATS, "int8", "int32", "uint8", "int64")
_CASES = (*(case((2048, 1024), axis=axis) for axis in (1, 0, None)), case((64, 128, 256), axis=(0, 2)))

register(sum, "reduction", np.sum, *_CASES, dtypes=_DTYPES, terms=_summed)
register(mean, "reduction", np.mean, *_CASES, terms=_summed)
register(max, "reduction", np.max, *_CASES, dtypes=_DTYPES)
register(min, "reduction", np.min, *_CASES, dtypes=_DTYPES)
register(argmax, "reduction", np.argmax, *_CASES[:3], dtypes=_DTYPES)
register(
    cumsum,
    "reduction",
    np.cumsum,
    *(case((1024, 1024), axis=axis) for axis in (1, 0)),
    dtypes=("float32", "float64", "int32"),
    terms=_summed,
)
