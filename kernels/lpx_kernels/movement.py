"""Elements moved: transposed, joined, padded, gathered, and summed with their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import lpx
from lpx_kernels.registry import FLOATS, Draw, case, register


@lpx.jit(static=("axes",))
def transpose(x: Any, axes: tuple[int, ...] | None = None) -> Any:
    """x[...] with its axes in another order, copied: reversed unless `axes` says which comes where."""
    return np.transpose(x, axes)


@lpx.jit(static=("axis",))
def concat(*arrays: Any, axis: int = 0) -> Any:
    """Arrays of equal extents but for `axis`, one behind the other along it."""
    return np.concatenate(arrays, axis)


@lpx.jit(static=("widths", "value"))
def pad(x: Any, widths: tuple[tuple[int, int], ...], value: float = 0) -> Any:
    """x[...] with `value` around it: `widths` has elements (before, after) for each axis."""
    return np.pad(x, widths, constant_values=value)


@lpx.jit(static=("axis",))
def gather(x: Any, places: Any, axis: int = 0) -> Any:
    """Elements of x[...] at `places`, integers of any shape, along `axis`; negative ones count from the end.

    A place outside of the axis is a run-time error.
    """
    return np.take(x, places, axis=axis)


@lpx.jit
def five_point(x: Any, centre: Any, side: Any) -> Any:
    """centre * x + side * (the sum of its four neighbours), for the inner elements of x[h, w]: [h - 2, w - 2].

    A step of Jacobi's method for the heat equation, where centre + 4 side = 1.
    """
    inner = x[1:-1, 1:-1]
    return inner * centre + (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * side


def _concat(*arrays: Any, axis: int = 0) -> Any:
    return np.concatenate(arrays, axis)


def _pad(x: Any, widths: Sequence[tuple[int, int]], value: float = 0) -> Any:
    return np.pad(x, widths, constant_values=value)


def _gather(x: Any, places: Any, axis: int = 0) -> Any:
    return np.take(x, places, axis=axis)


def _five_point(x: Any, centre: Any, side: Any) -> Any:
    total = np.zeros([max(n - 2, 0) for n in x.shape])
    for i, j, weight in ((1, 1, centre), (0, 1, side), (2, 1, side), (1, 0, side), (1, 2, side)):
        total += weight * x[i : i + total.shape[0], j : j + total.shape[1]]
    return total


_DTYPES = (*FLOATS, "int8", "int32", "int64", "bool")

register(
    transpose,
    "movement",
    np.transpose,
    case((2048, 2048)),
    case((1000, 1500)),
    case((8, 64, 56, 56), axes=(0, 2, 3, 1)),
    case((8, 512, 12, 64), axes=(0, 2, 1, 3)),
    dtypes=_DTYPES,
)
register(
    concat,
    "movement",
    _concat,
    case((1024, 2048), (1024, 2048)),
    case((1024, 1024), (1024, 512), (1024, 512), axis=1),
    dtypes=_DTYPES,
)
register(pad, "movement", _pad, case((8, 64, 56, 56), widths=((0, 0), (0, 0), (1, 1), (1, 1))), dtypes=_DTYPES)
register(
    gather,
    "movement",
    _gather,
    case((32000, 768), Draw((512,), "int64", 0, 32000)),
    case((1 << 20,), Draw((1 << 20,), "int64", 0, 1 << 20)),
    dtypes=_DTYPES,
)
register(five_point, "movement", _five_point, case((2048, 2048), (), ()), dtypes=("float32", "float64"))
