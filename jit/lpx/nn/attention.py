"""Scaled dot-product attention (Vaswani et al., "Attention Is All You Need", 2017)."""

from __future__ import annotations

import math

import numpy as np

from lpx.errors import DTypeError, ShapeError
from lpx.frontends.numpy.functions.reductions import as_bool, reduce, widened
from lpx.frontends.numpy.functions.shaping import reshaped
from lpx.frontends.numpy.trace import TracedArray
from lpx.graph import shapes
from lpx.nn.primitive import Array, floats, primitive, same_dtype
from lpx.source import capture


@primitive
def attention(
    q: Array,
    k: Array,
    v: Array,
    causal: bool = False,
    mask: Array | None = None,
    scale: float | None = None,
    lengths: Array | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """softmax(scale * q @ k.T + mask) @ v of q[..., heads, m, d], k[..., heads, n, d], v[..., heads, n, e].

    `heads` of k and v may divide those of q (grouped-query attention). The result is [..., heads, m, e] of q's dtype.
    A bool mask marks what may be attended to, any other is added; it broadcasts to [..., heads, m, n]. The scale is
    1 / sqrt(d) unless given. Scores are kept in float32 or wider; a row that sees nothing is NaN.

    `lengths`, integers [...], say how many of the n rows of k and v count, for each sample: those behind have no
    influence, unless v holds NaN or infinities there. So one query meets a cache that is not full. `causal` lets row i
    see columns up to i + length - m: the last row sees all that counts.

    Raises: DTypeError, ShapeError.
    """
    query = floats("attention", q)
    trace = query.owner
    key, value = trace.array(k), trace.array(v)
    same_dtype("attention", query, key, value)
    _check_shapes(query, key, value)
    groups = _groups(query, key)
    if _is_one(query.shape[-2]):
        causal = False  # the only row is the last
    shape = (*query.shape[:-1], value.shape[-1])
    if groups > 1 and not causal and mask is None:
        query = _rows_of_shared_heads(query, groups)
    elif groups > 1:
        key, value = (_repeat_heads(x, groups) for x in (key, value))
    factor = 1 / math.sqrt(shapes.static(query.shape[-1:], "attention")[0]) if scale is None else float(scale)
    scores = (widened(query) * factor) @ widened(key).mT
    if mask is not None:
        given = trace.array(mask)
        scores = _hide(scores, as_bool(given)) if given.dtype.kind == "b" else scores + trace.cast(given, scores.dtype)
    visible = _past(scores, None) if causal else None
    if lengths is not None:
        counted = _per_sample(scores, trace.array(lengths))
        seen = _past(scores, counted) if causal else _positions(scores, -1) < counted
        scores, visible = _hide(scores, seen), None
    return reshaped(trace.cast(_average(scores, widened(value), visible), query.dtype), shape)


def _average(scores: TracedArray, values: TracedArray, visible: TracedArray | None) -> TracedArray:
    """softmax(scores) @ values, divided by the sums of exponentials after the product: results are fewer than scores.

    Scores that are not `visible`, and values they would be multiplied by, are not looked at.
    """
    trace = scores.owner
    powers = trace.add("exp", scores - reduce("reduce_max", _hide(scores, visible), -1, keepdims=True))
    total = reduce("reduce_sum", _hide(powers, visible, 0.0), -1, keepdims=True)
    products = powers @ values if visible is None else trace.add("matmul_where", powers, values, visible)
    return products / total


def _check_shapes(query: TracedArray, key: TracedArray, value: TracedArray) -> None:
    fits = query.ndim == key.ndim == value.ndim >= 2
    if fits and shapes.same_dim(query.shape[-1], key.shape[-1]) and shapes.same_dim(key.shape[-2], value.shape[-2]):
        return
    found = ", ".join(shapes.shape_text(x.shape) for x in (query, key, value))
    raise ShapeError(
        f"attention of {found}",
        hint="q[..., heads, m, d], k[..., heads, n, d], v[..., heads, n, e] of one rank",
        span=capture(),
    )


def _groups(query: TracedArray, key: TracedArray) -> int:
    """How many heads of the query share one of the key."""
    if query.ndim < 3 or shapes.same_dim(query.shape[-3], key.shape[-3]):
        return 1
    heads, shared = (shapes.static(x.shape[-3:-2], "grouped attention")[0] for x in (query, key))
    if not shared or heads % shared:
        raise ShapeError(
            f"{heads} heads of q for {shared} of k and v", hint="the latter must divide the former", span=capture()
        )
    return heads // shared


def _is_one(extent: shapes.Dim) -> bool:
    return isinstance(extent, int) and extent == 1


def _rows_of_shared_heads(query: TracedArray, groups: int) -> TracedArray:
    """The heads of a query that share one of the key as rows of one head, so that the key is read once for all."""
    *lead, heads, rows, depth = query.shape
    return reshaped(query, (*lead, heads // groups, groups * rows, depth))


def _repeat_heads(x: TracedArray, groups: int) -> TracedArray:
    lead, rest = x.shape[:-2], x.shape[-2:]
    wide = x.owner.add("broadcast", reshaped(x, (*lead, 1, *rest)), shape=(*lead, groups, *rest))
    return reshaped(wide, (*lead[:-1], lead[-1] * groups, *rest))


def _hide(x: TracedArray, visible: TracedArray | None, instead: float = -math.inf) -> TracedArray:
    if visible is None:
        return x
    trace = x.owner
    return trace.add("where", trace.add("broadcast", visible, shape=x.shape), x, trace.number(instead, x.dtype))


def _past(scores: TracedArray, lengths: TracedArray | None) -> TracedArray:
    """Which columns a row may see when the last row sees all, of those that count."""
    rows, columns = scores.shape[-2:]
    offset = scores.owner.extent(columns - rows, np.int64) if lengths is None else lengths - rows
    return _positions(scores, -1) <= _positions(scores, -2) + offset


def _positions(scores: TracedArray, axis: int) -> TracedArray:
    """Positions along one of the last two axes, which broadcast to the scores."""
    extent = scores.shape[axis]
    counted = scores.owner.add("arange", size=extent, start=0, step=1, dtype="int64")
    return counted if axis == -1 else reshaped(counted, (extent, 1))


def _per_sample(scores: TracedArray, lengths: TracedArray) -> TracedArray:
    """Integers [...] that broadcast to scores [..., heads, m, n]."""
    if lengths.dtype.kind not in "iu":
        raise DTypeError(f"lengths are {lengths.value.dtype}", hint="give integers", span=capture())
    if not shapes.broadcasts_to(lengths.shape, scores.shape[:-3]):
        raise ShapeError(
            f"lengths of shape {shapes.shape_text(lengths.shape)} for scores {shapes.shape_text(scores.shape)}",
            hint="give one integer per sample: the shape of q without heads, rows and columns",
            span=capture(),
        )
    return reshaped(lengths.owner.cast(lengths, np.int64), (*lengths.shape, 1, 1, 1))
