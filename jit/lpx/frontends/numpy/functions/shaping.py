"""Functions that change shapes and put arrays together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lpx.errors import ShapeError, UnsupportedError
from lpx.frontends.numpy.registry import function
from lpx.frontends.numpy.trace import Trace, TracedArray
from lpx.graph import shapes
from lpx.graph.shapes import Dim
from lpx.source import capture


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


@function(np.reshape)
def reshape(trace: Trace, a: Any, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> TracedArray:
    """np.reshape in C order; one extent may be -1."""
    if order != "C":
        raise UnsupportedError(f"reshape in order {order!r} is not supported", span=capture())
    x = trace.array(a)
    return trace.add("reshape", x.value, shape=complete_shape(x.shape, _tuple(shape)))


function(method="reshape")(lambda trace, x, *shape, **kw: reshape(trace, x, shape[0] if len(shape) == 1 else shape, **kw))


def complete_shape(old: Sequence[Dim], new: Sequence[Dim]) -> tuple[Dim, ...]:
    """`new` with its -1 replaced by what is left of `old`.

    Raises: ShapeError when the numbers of elements do not fit.
    """
    unknown = [k for k, d in enumerate(new) if isinstance(d, int) and d == -1]
    if not unknown:
        return tuple(new)
    known = [d for k, d in enumerate(new) if k not in unknown]
    left = list(old)
    for d in list(known):  # symbolic extents cancel against equal ones
        match = next((e for e in left if not isinstance(d, int) and shapes.same_dim(d, e)), None)
        if match is not None:
            left.remove(match) if isinstance(match, int) else left.pop(next(i for i, e in enumerate(left) if e is match))
            known.pop(next(i for i, e in enumerate(known) if e is d))
    if len(unknown) > 1 or not all(isinstance(d, int) for d in known):
        raise ShapeError(f"cannot reshape {shapes.shape_text(old)} to {shapes.shape_text(new)}", span=capture())
    symbolic = [d for d in left if not isinstance(d, int)]
    size = int(np.prod([d for d in left if isinstance(d, int)], dtype=np.int64))
    divisor = int(np.prod(known, dtype=np.int64))
    if len(symbolic) > 1 or divisor == 0 or size % divisor or (symbolic and size != divisor):
        raise ShapeError(f"cannot reshape {shapes.shape_text(old)} to {shapes.shape_text(new)}", span=capture())
    filled: Dim = symbolic[0] if symbolic else size // divisor
    return tuple(filled if k == unknown[0] else d for k, d in enumerate(new))


@function(np.ravel, method="ravel")
def ravel(trace: Trace, a: Any, order: str = "C") -> TracedArray:
    """np.ravel."""
    return reshape(trace, a, (-1,), order)


function(method="flatten")(ravel)


@function(np.transpose)
def transpose(trace: Trace, a: Any, axes: Sequence[int] | None = None) -> TracedArray:
    """np.transpose."""
    x = trace.array(a)
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(shapes.normalize_axis(k, x.ndim) for k in axes)
    return trace.add("transpose", x.value, axes=order)


function(method="transpose")(
    lambda trace, x, *axes: transpose(trace, x, (axes[0] if len(axes) == 1 else axes) if axes else None)
)


@function(np.swapaxes, method="swapaxes")
def swapaxes(trace: Trace, a: Any, axis1: int, axis2: int) -> TracedArray:
    """np.swapaxes."""
    x = trace.array(a)
    order = list(range(x.ndim))
    i, j = shapes.normalize_axis(axis1, x.ndim), shapes.normalize_axis(axis2, x.ndim)
    order[i], order[j] = order[j], order[i]
    return transpose(trace, x, order)


@function(np.moveaxis)
def moveaxis(trace: Trace, a: Any, source: Any, destination: Any) -> TracedArray:
    """np.moveaxis."""
    x = trace.array(a)
    sources = [shapes.normalize_axis(k, x.ndim) for k in _tuple(source)]
    targets = [shapes.normalize_axis(k, x.ndim) for k in _tuple(destination)]
    order = [k for k in range(x.ndim) if k not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return transpose(trace, x, order)


@function(np.expand_dims)
def expand_dims(trace: Trace, a: Any, axis: Any) -> TracedArray:
    """np.expand_dims."""
    x = trace.array(a)
    rank = x.ndim + len(_tuple(axis))
    new = shapes.normalize_axes(_tuple(axis), rank)
    rest = iter(x.shape)
    return trace.add("reshape", x.value, shape=tuple(1 if k in new else next(rest) for k in range(rank)))


@function(np.squeeze, method="squeeze")
def squeeze(trace: Trace, a: Any, axis: Any = None) -> TracedArray:
    """np.squeeze."""
    x = trace.array(a)
    ones = [k for k, d in enumerate(x.shape) if isinstance(d, int) and d == 1]
    chosen = ones if axis is None else list(shapes.normalize_axes(_tuple(axis), x.ndim))
    if not set(chosen) <= set(ones):
        raise ShapeError(f"cannot squeeze axes {axis} of {shapes.shape_text(x.shape)}", hint="they must be 1", span=capture())
    return trace.add("reshape", x.value, shape=tuple(d for k, d in enumerate(x.shape) if k not in chosen))


@function(np.broadcast_to)
def broadcast_to(trace: Trace, array: Any, shape: Any, subok: bool = False) -> TracedArray:
    """np.broadcast_to."""
    return trace.add("broadcast", trace.array(array).value, shape=_tuple(shape))


def unified(trace: Trace, arrays: Sequence[Any]) -> list[TracedArray]:
    """The arrays in their common dtype."""
    traced = [trace.array(a) for a in arrays]
    dtype = np.result_type(*[t.dtype if t.weak is None else t.weak(0) for t in traced])
    return [trace.cast(t, dtype) for t in traced]


@function(np.concatenate)
def concatenate(trace: Trace, arrays: Sequence[Any], axis: int | None = 0, out: Any = None) -> TracedArray:
    """np.concatenate."""
    if out is not None:
        raise UnsupportedError("np.concatenate with out= is not supported", span=capture())
    parts = unified(trace, arrays)
    if axis is None:
        parts, axis = [ravel(trace, p) for p in parts], 0
    if len({p.ndim for p in parts}) != 1 or parts[0].ndim == 0:
        raise ShapeError("arrays to concatenate must have one rank of 1 or more", span=capture())
    return trace.add("concat", *(p.value for p in parts), axis=shapes.normalize_axis(axis, parts[0].ndim))


@function(np.stack)
def stack(trace: Trace, arrays: Sequence[Any], axis: int = 0, out: Any = None) -> TracedArray:
    """np.stack."""
    return concatenate(trace, [expand_dims(trace, a, axis) for a in arrays], axis, out)
