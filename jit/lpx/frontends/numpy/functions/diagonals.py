"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpx.errors import ShapeError
from lpx.frontends.numpy.functions import shaping
from lpx.frontends.numpy.functions.indexing import getitem
from lpx.frontends.numpy.functions.reductions import accumulating, stored, sum_of
from lpx.frontends.numpy.registry import function
from lpx.frontends.numpy.trace import Trace, TracedArray
from lpx.graph import shapes
from lpx.source import capture


def _positions(trace: Trace, rows: shapes.Dim, columns: shapes.Dim) -> tuple[TracedArray, TracedArray]:
    """Row and column numbers, [rows, 1] and [1, columns]."""
    row, column = (trace.add("arange", size=n, start=0, step=1, dtype="int64") for n in (rows, columns))
    return shaping.reshaped(row, (rows, 1)), shaping.reshaped(column, (1, columns))


def _masked(trace: Trace, m: Any, k: int, lower: bool) -> TracedArray:
    x = trace.array(m)
    if x.ndim == 1:
        x = trace.add("broadcast", x, shape=(*x.shape, *x.shape))
    rows, columns = _positions(trace, *x.shape[-2:])
    keep = columns <= rows + k if lower else columns >= rows + k
    return trace.add("where", keep, x, trace.number(0, x.dtype))


@function(np.tril)
def tril(trace: Trace, m: Any, k: int = 0) -> TracedArray:
    """np.tril."""
    return _masked(trace, m, k, lower=True)


@function(np.triu)
def triu(trace: Trace, m: Any, k: int = 0) -> TracedArray:
    """np.triu."""
    return _masked(trace, m, k, lower=False)


@function(np.diagonal, method="diagonal")
def diagonal(trace: Trace, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TracedArray:
    """np.diagonal: a copy."""
    x = trace.array(a)
    if x.ndim < 2:
        raise ShapeError("a diagonal needs two dimensions or more", hint="np.diag makes a matrix", span=capture())
    matrices = shaping.moveaxis(trace, x, (axis1, axis2), (-2, -1))
    rows, columns = shapes.static(matrices.shape[-2:], "np.diagonal")
    top, left = max(-offset, 0), max(offset, 0)
    size = max(min(rows - top, columns - left), 0)
    square = getitem(trace, matrices, (..., slice(top, top + size), slice(left, left + size)))
    flat = shaping.reshaped(square, (*square.shape[:-2], size * size))
    return TracedArray(trace, getitem(trace, flat, (..., slice(None, None, size + 1))).value)


@function(np.linalg.diagonal)
def linalg_diagonal(trace: Trace, x: Any, offset: int = 0) -> TracedArray:
    """np.linalg.diagonal: of the last two axes."""
    return diagonal(trace, x, offset, -2, -1)


@function(np.diag)
def diag(trace: Trace, v: Any, k: int = 0) -> TracedArray:
    """np.diag: the diagonal of a matrix, or the matrix of a diagonal."""
    x = trace.array(v)
    if x.ndim == 2:
        return diagonal(trace, x, k)
    if x.ndim != 1:
        raise ShapeError("np.diag takes one or two dimensions", hint="use np.diagonal", span=capture())
    zero = trace.number(0, x.dtype)
    size = shapes.total([x.shape[0], abs(k)])
    line = trace.add("pad", x, zero, before=(0,), after=(abs(k),))
    rows, columns = _positions(trace, size, size)
    values = shaping.reshaped(line, (size, 1) if k >= 0 else (1, size))
    return trace.add("where", rows + k == columns, values, zero)


@function(np.diagflat)
def diagflat(trace: Trace, v: Any, k: int = 0) -> TracedArray:
    """np.diagflat."""
    return diag(trace, shaping.ravel(trace, v), k)


@function(np.trace, method="trace")
def trace_of(
    trace: Trace, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> TracedArray:
    """np.trace."""
    line = diagonal(trace, a, offset, axis1, axis2)
    return stored(out, sum_of(trace.cast(line, accumulating(line, dtype)), -1))


@function(np.linalg.trace)
def linalg_trace(trace: Trace, x: Any, offset: int = 0, dtype: Any = None) -> TracedArray:
    """np.linalg.trace: over the last two axes."""
    return trace_of(trace, x, offset, -2, -1, dtype)


@function(np.meshgrid)
def meshgrid(trace: Trace, *xi: Any, indexing: str = "xy", sparse: bool = False) -> tuple[TracedArray, ...]:
    """np.meshgrid."""
    lines = [shaping.ravel(trace, x) for x in xi]
    rank = len(lines)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[:2] = [1, 0]
    grids = [
        shaping.reshaped(line, tuple(line.shape[0] if axis == place else 1 for axis in range(rank)))
        for line, place in zip(lines, order, strict=True)
    ]
    if sparse:
        return tuple(grids)
    shape = shapes.broadcast_shapes([g.shape for g in grids])
    return tuple(trace.add("broadcast", g, shape=shape) for g in grids)
