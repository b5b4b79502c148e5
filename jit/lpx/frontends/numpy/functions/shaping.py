"""Functions that change shapes and the order of axes. They give views: assignment to a result changes the array."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from lpx.errors import ShapeError, UnsupportedError
from lpx.expr.nodes import Expr
from lpx.frontends.numpy.registry import Function, function, method
from lpx.frontends.numpy.trace import Lens, Trace, TracedArray, as_tuple, is_list
from lpx.graph import shapes
from lpx.graph.nodes import Value
from lpx.graph.shapes import Dim
from lpx.source import capture


def as_shape(shape: Any) -> tuple[Dim, ...]:
    """A shape as NumPy takes it: an extent or a sequence of them; dynamic extents stay expressions."""
    return tuple(d if isinstance(d, Expr) else operator.index(d) for d in as_tuple(shape))


def as_axes(x: TracedArray, axis: Any) -> tuple[int, ...]:
    """Axes of `x` counted from the front, sorted; None means all."""
    given = None if axis is None else [operator.index(a) for a in as_tuple(axis)]
    return shapes.normalize_axes(given, x.ndim)


def as_axis(x: TracedArray, axis: Any) -> int:
    """One axis of `x` counted from the front."""
    return shapes.normalize_axis(operator.index(axis), x.ndim)


def reshaped(x: TracedArray, shape: Sequence[Dim]) -> TracedArray:
    """A view of `x` in another shape."""
    old, builder = x.shape, x.owner.builder

    def read(base: Value) -> Value:
        return builder.add("reshape", (base,), shape=tuple(shape))

    def write(_: Value, new: Value) -> Value:
        return builder.add("reshape", (new,), shape=old)

    return TracedArray(x.owner, read(x.value), lens=Lens(x, read, write))


@function(np.reshape)
def reshape(trace: Trace, a: Any, shape: Any = None, order: str = "C") -> TracedArray:
    """np.reshape in C order; one extent may be -1."""
    if order not in ("C", "A"):
        raise UnsupportedError(f"reshape in order {order!r} is not supported", hint='use order="C"', span=capture())
    x = trace.array(a)
    return reshaped(x, complete_shape(x.shape, as_shape(shape)))


@method("reshape")
def reshape_method(trace: Trace, x: TracedArray, *shape: Any, order: str = "C") -> TracedArray:
    """ndarray.reshape."""
    return reshape(trace, x, shape[0] if len(shape) == 1 else shape, order)


def complete_shape(old: Sequence[Dim], new: Sequence[Dim]) -> tuple[Dim, ...]:
    """`new` with its -1 replaced by what is left of `old`.

    Raises: ShapeError when the numbers of elements do not fit.
    """
    unknown = [k for k, d in enumerate(new) if isinstance(d, int) and d == -1]
    if not unknown:
        return tuple(new)
    filled = _left_over(old, [d for k, d in enumerate(new) if k not in unknown]) if len(unknown) == 1 else None
    if filled is None:
        raise ShapeError(
            f"cannot reshape {shapes.shape_text(old)} to {shapes.shape_text(new)}",
            hint="both must hold the same number of elements, and one extent may be -1",
            span=capture(),
        )
    return tuple(filled if k == unknown[0] else d for k, d in enumerate(new))


def _left_over(old: Sequence[Dim], known: Sequence[Dim]) -> Dim | None:
    """The product of `old` divided by that of `known`; symbolic extents cancel against equal ones."""
    left = list(old)
    for extent in (d for d in known if not isinstance(d, int)):
        match = next((k for k, d in enumerate(left) if shapes.same_dim(d, extent)), None)
        if match is None:
            return None
        left.pop(match)
    size = shapes.size(d for d in left if isinstance(d, int))
    divisor = shapes.size(d for d in known if isinstance(d, int))
    if not isinstance(size, int) or not isinstance(divisor, int) or divisor == 0 or size % divisor:
        return None
    return shapes.size([*(d for d in left if not isinstance(d, int)), size // divisor])


@function(np.ravel, method="ravel")
def ravel(trace: Trace, a: Any, order: str = "C") -> TracedArray:
    """np.ravel."""
    return reshape(trace, a, (trace.array(a).size,), order)


@method("flatten")
def flatten(trace: Trace, x: TracedArray, order: str = "C") -> TracedArray:
    """ndarray.flatten: a copy."""
    return TracedArray(trace, ravel(trace, x, order).value)


@function(np.transpose, np.permute_dims)
def transpose(trace: Trace, a: Any, axes: Any = None) -> TracedArray:
    """np.transpose."""
    x = trace.array(a)
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(as_axis(x, k) for k in axes)
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError(f"axes {axes} are not a permutation of the {x.ndim} dimension(s)", span=capture())
    inverse = tuple(order.index(k) for k in range(x.ndim))

    def read(base: Value) -> Value:
        return trace.builder.add("transpose", (base,), axes=order)

    def write(_: Value, new: Value) -> Value:
        return trace.builder.add("transpose", (new,), axes=inverse)

    return TracedArray(trace, read(x.value), lens=Lens(x, read, write))


@method("transpose")
def transpose_method(trace: Trace, x: TracedArray, *axes: Any) -> TracedArray:
    """ndarray.transpose."""
    order = axes[0] if len(axes) == 1 and (axes[0] is None or is_list(axes[0])) else axes or None
    return transpose(trace, x, order)


@function(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(trace: Trace, x: Any) -> TracedArray:
    """np.matrix_transpose."""
    return swapaxes(trace, x, -1, -2)


@function(np.swapaxes, method="swapaxes")
def swapaxes(trace: Trace, a: Any, axis1: int, axis2: int) -> TracedArray:
    """np.swapaxes."""
    x = trace.array(a)
    order = list(range(x.ndim))
    first, second = as_axis(x, axis1), as_axis(x, axis2)
    order[first], order[second] = order[second], order[first]
    return transpose(trace, x, order)


@function(np.moveaxis)
def moveaxis(trace: Trace, a: Any, source: Any, destination: Any) -> TracedArray:
    """np.moveaxis."""
    x = trace.array(a)
    sources = [as_axis(x, k) for k in as_tuple(source)]
    targets = [as_axis(x, k) for k in as_tuple(destination)]
    if len(set(sources)) != len(sources) or len(set(targets)) != len(targets) or len(sources) != len(targets):
        raise ShapeError(
            f"cannot move axes {source} to {destination}",
            hint="give as many axes as places, none twice",
            span=capture(),
        )
    order = [k for k in range(x.ndim) if k not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return transpose(trace, x, order)


@function(np.rollaxis)
def rollaxis(trace: Trace, a: Any, axis: int, start: int = 0) -> TracedArray:
    """np.rollaxis."""
    x = trace.array(a)
    moved = as_axis(x, axis)
    begin = start + x.ndim if start < 0 else start
    order = [k for k in range(x.ndim) if k != moved]
    order.insert(begin - 1 if moved < begin else begin, moved)
    return transpose(trace, x, order)


@function(np.expand_dims)
def expand_dims(trace: Trace, a: Any, axis: Any) -> TracedArray:
    """np.expand_dims."""
    x = trace.array(a)
    rank = x.ndim + len(as_tuple(axis))
    new = shapes.normalize_axes([operator.index(k) for k in as_tuple(axis)], rank)
    rest = iter(x.shape)
    return reshaped(x, tuple(1 if k in new else next(rest) for k in range(rank)))


@function(np.squeeze, method="squeeze")
def squeeze(trace: Trace, a: Any, axis: Any = None) -> TracedArray:
    """np.squeeze."""
    x = trace.array(a)
    ones = [k for k, d in enumerate(x.shape) if isinstance(d, int) and d == 1]
    chosen = ones if axis is None else list(as_axes(x, axis))
    if not set(chosen) <= set(ones):
        raise ShapeError(
            f"cannot squeeze axes {axis} of {shapes.shape_text(x.shape)}", hint="they must be 1", span=capture()
        )
    return reshaped(x, tuple(d for k, d in enumerate(x.shape) if k not in chosen))


@function(np.broadcast_to)
def broadcast_to(trace: Trace, array: Any, shape: Any) -> TracedArray:
    """np.broadcast_to; a copy, which NumPy would not let one write to."""
    return trace.add("broadcast", trace.array(array), shape=as_shape(shape))


@function(np.broadcast_arrays)
def broadcast_arrays(trace: Trace, *args: Any) -> tuple[TracedArray, ...]:
    """np.broadcast_arrays."""
    arrays = [trace.array(a) for a in args]
    shape = shapes.broadcast_shapes([a.shape for a in arrays])
    return tuple(trace.add("broadcast", a, shape=shape) for a in arrays)


def at_least(x: TracedArray, rank: int) -> TracedArray:
    """`x` with at least `rank` dimensions, as np.atleast_1d, np.atleast_2d and np.atleast_3d have it."""
    return reshaped(x, _padded(x.shape, rank))


def _at_least(rank: int) -> Function:
    def row(trace: Trace, *arys: Any) -> Any:
        made = tuple(at_least(trace.array(a), rank) for a in arys)
        return made[0] if len(made) == 1 else made

    return row


def _padded(shape: Sequence[Dim], rank: int) -> tuple[Dim, ...]:
    if rank == 3 and len(shape) in (1, 2):
        return (1, *shape, 1) if len(shape) == 1 else (*shape, 1)
    return (*(1,) * (rank - len(shape)), *shape)


for _rank, _function in enumerate((np.atleast_1d, np.atleast_2d, np.atleast_3d), 1):
    function(cast("Any", _function))(_at_least(_rank))
