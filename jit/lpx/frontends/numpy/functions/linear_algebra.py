"""Products of vectors, matrices and tensors, norms, convolution."""

from __future__ import annotations

import operator
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from lpx.errors import ShapeError, UnsupportedError
from lpx.frontends.numpy.array_operators import apply
from lpx.frontends.numpy.functions import shaping
from lpx.frontends.numpy.functions.creation import unified
from lpx.frontends.numpy.functions.indexing import getitem
from lpx.frontends.numpy.functions.joining import concatenate
from lpx.frontends.numpy.functions.reductions import reduce, stored, sum_of
from lpx.frontends.numpy.registry import function
from lpx.frontends.numpy.trace import Trace, TracedArray, as_tuple, is_list
from lpx.graph import shapes
from lpx.source import capture


def contract(trace: Trace, terms: Sequence[str], result: str, arrays: Sequence[TracedArray]) -> TracedArray:
    """A sum of products over the labels that `result` lacks, two arrays at a time from the left."""
    parts, labels = list(arrays), list(terms)
    while len(parts) > 2:
        later = {*result, *"".join(labels[2:])}
        kept = "".join(dict.fromkeys(c for c in labels[0] + labels[1] if c in later))
        parts[:2] = [trace.add("einsum", *parts[:2], terms=tuple(labels[:2]), result=kept)]
        labels[:2] = [kept]
    return trace.add("einsum", *parts, terms=tuple(labels), result=result)


@function(np.dot, method="dot")
def dot(trace: Trace, a: Any, b: Any, out: Any = None) -> TracedArray:
    """np.dot."""
    x, y = unified(trace, [a, b], weak=False)
    if not x.ndim or not y.ndim:
        return stored(out, x * y)
    if x.ndim <= 2 and y.ndim <= 2:
        return stored(out, trace.add("matmul", x, y))
    return stored(out, tensordot(trace, x, y, ([-1], [-2 if y.ndim > 1 else -1])))


@function(np.vdot, np.linalg.vecdot)
def vdot(trace: Trace, a: Any = None, b: Any = None, x1: Any = None, x2: Any = None, axis: int = -1) -> TracedArray:
    """np.vdot of the flattened arrays, or np.linalg.vecdot along an axis."""
    if x1 is None:
        return dot(trace, shaping.ravel(trace, a), shaping.ravel(trace, b))
    x, y = unified(trace, [x1, x2], weak=False)
    return apply(np.vecdot, shaping.moveaxis(trace, x, axis, -1), shaping.moveaxis(trace, y, axis, -1))


@function(np.inner)
def inner(trace: Trace, a: Any, b: Any) -> TracedArray:
    """np.inner."""
    x, y = unified(trace, [a, b], weak=False)
    return x * y if not x.ndim or not y.ndim else tensordot(trace, x, y, ([-1], [-1]))


@function(np.outer)
def outer(trace: Trace, a: Any, b: Any, out: Any = None) -> TracedArray:
    """np.outer."""
    column = shaping.reshaped(x := shaping.ravel(trace, a), (*x.shape, 1))
    return stored(out, column * shaping.ravel(trace, b))


@function(np.tensordot, np.linalg.tensordot)
def tensordot(trace: Trace, a: Any = None, b: Any = None, axes: Any = 2, x1: Any = None, x2: Any = None) -> TracedArray:
    """np.tensordot."""
    x, y = unified(trace, [a if x1 is None else x1, b if x2 is None else x2], weak=False)
    if is_list(axes):
        left, right = ([shaping.as_axis(t, k) for k in as_tuple(pair)] for t, pair in zip((x, y), axes, strict=True))
    else:
        count = operator.index(axes)
        left, right = list(range(x.ndim - count, x.ndim)), list(range(count))
    if len(left) != len(right) or not all(
        shapes.same_dim(x.shape[i], y.shape[j]) for i, j in zip(left, right, strict=True)
    ):
        raise ShapeError(
            f"np.tensordot of {shapes.shape_text(x.shape)} and {shapes.shape_text(y.shape)} over {axes}",
            hint="the axes summed over must have equal extents",
            span=capture(),
        )
    letters = string.ascii_letters
    first = letters[: x.ndim]
    rest = iter(letters[x.ndim :])
    second = "".join(first[left[right.index(k)]] if k in right else next(rest) for k in range(y.ndim))
    result = "".join(c for c in first + second if not (c in first and c in second))
    return trace.add("einsum", x, y, terms=(first, second), result=result)


@function(np.einsum)
def einsum(trace: Trace, *operands: Any, out: Any = None, optimize: Any = False) -> TracedArray:
    """np.einsum with a string of subscripts. Operands are multiplied from the left, whatever `optimize` says."""
    if not operands or not isinstance(operands[0], str):
        raise UnsupportedError(
            "np.einsum without a string of subscripts", hint='write it as np.einsum("ij,jk->ik", a, b)', span=capture()
        )
    arrays = unified(trace, operands[1:], weak=False)
    terms, result = _parse_subscripts(operands[0].replace(" ", ""), arrays)
    return stored(out, contract(trace, terms, result, arrays))


def _parse_subscripts(subscripts: str, arrays: Sequence[TracedArray]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, with letters of their own for the axes of `...`."""
    left, arrow, right = subscripts.partition("->")
    terms = left.split(",")
    if len(terms) != len(arrays):
        raise ShapeError(
            f"{subscripts!r} names {len(terms)} operand(s), {len(arrays)} are given",
            hint="separate the operands' subscripts by commas",
            span=capture(),
        )
    unused = [c for c in string.ascii_letters if c not in subscripts]
    ranks = [x.ndim - len(t.replace("...", "")) for t, x in zip(terms, arrays, strict=True)]
    batch = "".join(unused[: max(0, *(r for r, t in zip(ranks, terms, strict=True) if "..." in t), 0)])
    terms = [t.replace("...", batch[len(batch) - r :] if r else "") for t, r in zip(terms, ranks, strict=True)]
    for term, x in zip(terms, arrays, strict=True):
        if len(term) != x.ndim or not set(term) <= set(string.ascii_letters):
            raise ShapeError(
                f"{subscripts!r} does not fit an operand of {x.ndim} dimension(s)",
                hint="give one letter per dimension, or ...",
                span=capture(),
            )
    everything = "".join(terms)
    if not arrow:
        once = sorted(c for c in set(everything) if everything.count(c) == 1 and c not in batch)
        return terms, batch + "".join(once)
    result = right.replace("...", batch)
    if len(set(result)) != len(result) or not set(result) <= set(everything):
        raise ShapeError(
            f"the result of {subscripts!r} has a label twice, or one that no operand has",
            hint="each label of the result once, from those of the operands",
            span=capture(),
        )
    return terms, result


@function(np.kron)
def kron(trace: Trace, a: Any, b: Any) -> TracedArray:
    """np.kron."""
    x, y = unified(trace, [a, b], weak=False)
    rank = max(x.ndim, y.ndim)
    left, right = ((*(1,) * (rank - t.ndim), *t.shape) for t in (x, y))
    product = shaping.reshaped(x, [d for extent in left for d in (extent, 1)]) * shaping.reshaped(
        y, [d for extent in right for d in (1, extent)]
    )
    return TracedArray(trace, shaping.reshaped(product, [d * e for d, e in zip(left, right, strict=True)]).value)


@function(np.cross)
def cross(
    trace: Trace, a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> TracedArray:
    """np.cross of vectors of three elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = shaping.moveaxis(trace, a, axisa, -1), shaping.moveaxis(trace, b, axisb, -1)
    if shapes.static((x.shape[-1], y.shape[-1]), "np.cross") != (3, 3):
        raise ShapeError("np.cross takes vectors of 3 elements", hint="append a zero to those of 2", span=capture())
    (x0, x1, x2), (y0, y1, y2) = ([getitem(trace, t, (..., slice(k, k + 1))) for k in range(3)] for t in (x, y))
    product = concatenate(trace, [x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], -1)
    return shaping.moveaxis(trace, product, -1, axisc)


@function(np.linalg.norm)
def norm(trace: Trace, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> TracedArray:
    """np.linalg.norm: of vectors any order, of matrices Frobenius, 1 and infinity."""
    array = trace.array(x)
    if not array.value.dtype.is_float:
        array = trace.cast(array, "float64")
    axes = shaping.as_axes(array, axis) if axis is None else tuple(shaping.as_axis(array, k) for k in as_tuple(axis))
    if ord is None or (ord in ("fro", "f") and len(axes) == 2) or (ord == 2 and len(axes) == 1):
        return apply(np.sqrt, sum_of(array * array, axes, keepdims))
    if len(axes) == 1:
        return _vector_norm(array, ord, axes, keepdims)
    if len(axes) == 2 and ord in (1, -1, np.inf, -np.inf):
        row, column = axes if abs(ord) == 1 else axes[::-1]
        sums = sum_of(apply(np.abs, array), row, keepdims=True)
        found = reduce("reduce_max" if ord > 0 else "reduce_min", sums, column, keepdims=True)
        return found if keepdims else shaping.squeeze(trace, found, axes)
    raise UnsupportedError(
        f"np.linalg.norm with ord={ord!r} over {len(axes)} axes is not supported",
        hint="use 'fro', 1, inf for matrices; any number for vectors",
        span=capture(),
    )


def _vector_norm(x: TracedArray, order: Any, axes: tuple[int, ...], keepdims: bool) -> TracedArray:
    magnitudes = apply(np.abs, x)
    if order in (np.inf, -np.inf):
        return reduce("reduce_max" if order > 0 else "reduce_min", magnitudes, axes, keepdims)
    if order == 0:
        return sum_of(x.owner.cast(x != 0, x.dtype), axes, keepdims)
    if order == 1:
        return sum_of(magnitudes, axes, keepdims)
    exponent = float(order)
    return sum_of(magnitudes**exponent, axes, keepdims) ** (1 / exponent)


@function(np.convolve)
def convolve(trace: Trace, a: Any, v: Any, mode: str = "full") -> TracedArray:
    """np.convolve of 1-D arrays."""
    x, w = unified(trace, [shaping.at_least(trace.array(t), 1) for t in (a, v)], weak=False)
    if shapes.static(w.shape, "np.convolve")[0] > shapes.static(x.shape, "np.convolve")[0]:
        x, w = w, x
    return _sliding_products(trace, x, getitem(trace, w, slice(None, None, -1)), mode)


@function(np.correlate)
def correlate(trace: Trace, a: Any, v: Any, mode: str = "valid") -> TracedArray:
    """np.correlate of 1-D arrays."""
    x, w = unified(trace, [shaping.at_least(trace.array(t), 1) for t in (a, v)], weak=False)
    if shapes.static(w.shape, "np.correlate")[0] <= shapes.static(x.shape, "np.correlate")[0]:
        return _sliding_products(trace, x, w, mode)
    return getitem(trace, _sliding_products(trace, w, x, mode), slice(None, None, -1))


def _sliding_products(trace: Trace, x: TracedArray, w: TracedArray, mode: str) -> TracedArray:
    """The dot products of the shorter `w` with what it covers of `x` at each place."""
    (extent,), (taps,) = shapes.static(x.shape, "np.convolve"), shapes.static(w.shape, "np.convolve")
    if mode not in ("full", "same", "valid") or not taps:
        raise ShapeError(
            f"np.convolve of {extent} and {taps} elements in mode {mode!r}",
            hint="use full, same or valid, and arrays that are not empty",
            span=capture(),
        )
    before, after = {"full": (taps - 1, taps - 1), "same": (taps // 2, (taps - 1) // 2), "valid": (0, 0)}[mode]
    signal, kernel = shaping.reshaped(x, (1, 1, extent)), shaping.reshaped(w, (1, 1, taps))
    one = {"strides": (1,), "dilations": (1,), "groups": 1}
    found = trace.add("conv", signal, kernel, pads_before=(before,), pads_after=(after,), **one)
    return TracedArray(trace, shaping.reshaped(found, (found.shape[-1],)).value)
