"""Shapes of graph values: dimensions as ints or symbolic expressions, broadcasting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lpx import te
from lpx.arith.analyzer import Analyzer
from lpx.errors import ShapeError
from lpx.expr.nodes import Const, Expr
from lpx.expr.traverse import structural_equal

Dim = int | Expr
_ANALYZER = Analyzer()


def dim(extent: Dim) -> Dim:
    """A constant extent as an int, anything else as it is."""
    return int(extent.value) if isinstance(extent, Const) else extent


def dims(shape: Iterable[Dim]) -> tuple[Dim, ...]:
    """A shape with constant extents as ints."""
    return tuple(dim(d) for d in shape)


def same_dim(a: Dim, b: Dim) -> bool:
    """Whether two extents are certainly equal."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if isinstance(a, int) or isinstance(b, int):
        return False
    return a is b or structural_equal(a, b) or _ANALYZER.prove(a == b)


def static(shape: Sequence[Dim], what: str) -> tuple[int, ...]:
    """The shape as ints.

    Raises: ShapeError naming `what` when an extent is symbolic.
    """
    found = tuple(d for d in dims(shape) if isinstance(d, int))
    if len(found) != len(shape):
        raise ShapeError(f"{what} needs a static shape, not {shape_text(shape)}")
    return found


def size(shape: Iterable[Dim]) -> Dim:
    """The number of elements of a shape."""
    product: Dim = 1
    for extent in shape:
        if not isinstance(extent, int) or extent != 1:
            product = extent if isinstance(product, int) and product == 1 else product * extent
    return product


def same_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes are certainly equal."""
    return len(a) == len(b) and all(same_dim(d, e) for d, e in zip(a, b, strict=True))


def total(extents: Iterable[Dim]) -> Dim:
    """The sum of extents, an int where all are."""
    found: Dim = 0
    for extent in extents:
        found = extent if isinstance(found, int) and found == 0 else found + extent
    return found


def broadcast_shapes(shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """The common shape of operands by NumPy's broadcasting rule.

    Raises: ShapeError when two extents differ and neither is 1.
    """
    rank = max((len(s) for s in shapes), default=0)
    result: list[Dim] = [1] * rank
    for shape in shapes:
        for axis, extent in enumerate(dims(shape), rank - len(shape)):
            result[axis] = _broadcast_dim(result[axis], extent, shapes)
    return tuple(result)


def _broadcast_dim(a: Dim, b: Dim, shapes: Sequence[Sequence[Dim]]) -> Dim:
    if isinstance(a, int) and a == 1:
        return b
    if (isinstance(b, int) and b == 1) or same_dim(a, b):
        return a
    raise ShapeError(
        f"shapes {' and '.join(shape_text(s) for s in shapes)} do not broadcast",
        hint="dimensions, aligned at the end, must be equal or 1",
    )


def broadcasts_to(shape: Sequence[Dim], target: Sequence[Dim]) -> bool:
    """Whether an operand of `shape` broadcasts to exactly `target`."""
    own = dims(shape)
    aligned = dims(target)[len(target) - len(own) :] if len(own) <= len(target) else ()
    return len(aligned) == len(own) and all(
        same_dim(d, t) or (isinstance(d, int) and d == 1) for d, t in zip(own, aligned, strict=True)
    )


def is_stretched(extent: Dim, target: Dim) -> bool:
    """Whether an axis of extent 1 is repeated to reach `target`."""
    own = dim(extent)
    return isinstance(own, int) and own == 1 and not same_dim(dim(target), 1)


def read_broadcast(tensor: te.Tensor, indices: Sequence[Expr], shape: Sequence[Dim]) -> Expr:
    """The element of `tensor` that meets position `indices` of the broadcast shape `shape`."""
    offset = len(shape) - tensor.rank
    picked = [
        te.const(0, "int64") if is_stretched(d, shape[offset + k]) else indices[offset + k]
        for k, d in enumerate(tensor.shape)
    ]
    return tensor[tuple(picked)]


def normalize_axis(axis: int, rank: int) -> int:
    """`axis` counted from the front.

    Raises: ShapeError when it is out of range.
    """
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} is out of range for {rank} dimension(s)", hint=f"use {-rank}..{rank - 1}")
    return axis % rank


def normalize_axes(axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes counted from the front, sorted; None means all.

    Raises: ShapeError when one is out of range or named twice.
    """
    if axes is None:
        return tuple(range(rank))
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    found = sorted(normalize_axis(a, rank) for a in given)
    if len(set(found)) != len(found):
        raise ShapeError(f"axes {given} name a dimension twice")
    return tuple(found)


def shape_text(shape: Sequence[Dim]) -> str:
    """A shape as Python writes a tuple."""
    inner = ", ".join(str(d) for d in dims(shape))
    return f"({inner},)" if len(shape) == 1 else f"({inner})"
