"""Operators that keep the elements and change where they stand: reshape, transpose, broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from lpx import te
from lpx.errors import ShapeError
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, empty, ints, is_empty, operands
from lpx.graph.shapes import Dim


def reshape_groups(old: Sequence[Dim], new: Sequence[Dim]) -> list[tuple[range, range]]:
    """Split a reshape of non-empty shapes into the finest runs of axes that hold the same number of elements.

    (4, 6, 5) -> (24, 5) gives [(0:2, 0:1), (2:3, 1:2)]; an axis of extent 1 may stand opposite no axis. From where
    symbolic extents do not meet equal ones, the rest is one run.

    Raises: ShapeError when the numbers of elements differ.
    """
    groups: list[tuple[range, range]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        next_i, next_j = _run_end(old, new, i, j)
        groups.append((range(i, next_i), range(j, next_j)))
        i, j = next_i, next_j
    return groups


def _run_end(old: Sequence[Dim], new: Sequence[Dim], i: int, j: int) -> tuple[int, int]:
    if i < len(old) and j < len(new) and shapes.same_dim(old[i], new[j]):
        return i + 1, j + 1
    if i < len(old) and _is_one(old[i]):
        return i + 1, j
    if j < len(new) and _is_one(new[j]):
        return i, j + 1
    left: Dim = 1
    right: Dim = 1
    first_i, first_j = i, j
    while i == first_i or j == first_j or left != right:
        if not isinstance(left, int) or not isinstance(right, int):
            return _whole_rest(old, new, first_i, first_j)
        grow_old = left <= right
        if (i == len(old)) if grow_old else (j == len(new)):
            raise _reshape_error(old, new)
        if grow_old:
            left, i = left * old[i], i + 1
        else:
            right, j = right * new[j], j + 1
    return i, j


def _whole_rest(old: Sequence[Dim], new: Sequence[Dim], i: int, j: int) -> tuple[int, int]:
    if not shapes.same_dim(shapes.size(old[i:]), shapes.size(new[j:])):
        raise _reshape_error(old, new)
    return len(old), len(new)


def _is_one(extent: Dim) -> bool:
    return isinstance(extent, int) and extent == 1


def _reshape_error(old: Sequence[Dim], new: Sequence[Dim]) -> ShapeError:
    return ShapeError(
        f"cannot reshape {shapes.shape_text(old)} to {shapes.shape_text(new)}",
        hint="both must hold the same number of elements",
    )


def _define_reshape(inputs: Inputs, attrs: Attrs) -> Outputs:
    (x,) = operands(inputs)
    old, new = shapes.dims(x.shape), shapes.dims(cast("tuple[Dim, ...]", attrs["shape"]))
    if is_empty(old) or is_empty(new):
        if is_empty(old) != is_empty(new):
            raise _reshape_error(old, new)
        return (empty(new, x.dtype, "reshape"),)
    groups = reshape_groups(old, new)

    def at(*i: Expr) -> Expr:
        source: list[Expr] = []
        for old_axes, new_axes in groups:
            source.extend(_unflatten(_flatten([i[a] for a in new_axes], new, new_axes), old, old_axes))
        return x[tuple(source)]

    return (te.compute(new, at, name="reshape"),)


def _flatten(indices: Sequence[Expr], shape: Sequence[Dim], axes: range) -> Expr:
    flat: Expr = build.const(0, "int64")
    for position, (index, axis) in enumerate(zip(indices, axes, strict=True)):
        flat = index if position == 0 else flat * build.as_expr(shape[axis]) + index
    return flat


def _unflatten(flat: Expr, shape: Sequence[Dim], axes: range) -> list[Expr]:
    found: list[Expr] = []
    for axis in reversed(axes):
        extent = build.as_expr(shape[axis])
        found.append(flat % extent if axis != axes[0] else flat)
        flat = flat // extent
    return list(reversed(found))


def _define_transpose(inputs: Inputs, attrs: Attrs) -> Outputs:
    (x,) = operands(inputs)
    axes = ints(attrs, "axes")
    if sorted(axes) != list(range(x.rank)):
        raise ShapeError(f"axes {axes} are not a permutation of the {x.rank} dimension(s)")
    inverse = [axes.index(a) for a in range(len(axes))]

    def at(*i: Expr) -> Expr:
        return x[tuple(i[a] for a in inverse)]

    return (te.compute(tuple(x.shape[a] for a in axes), at, name="transpose"),)


def _define_broadcast(inputs: Inputs, attrs: Attrs) -> Outputs:
    (x,) = operands(inputs)
    shape = shapes.dims(cast("tuple[Dim, ...]", attrs["shape"]))
    if not shapes.broadcasts_to(x.shape, shape):
        raise ShapeError(
            f"{shapes.shape_text(x.shape)} does not broadcast to {shapes.shape_text(shape)}",
            hint="dimensions, aligned at the end, must be equal or 1 in what is broadcast",
        )

    def at(*i: Expr) -> Expr:
        return shapes.read_broadcast(x, i, shape)

    return (te.compute(shape, at, name="broadcast"),)


for _name, _define in {
    "reshape": _define_reshape,
    "transpose": _define_transpose,
    "broadcast": _define_broadcast,
}.items():
    register(Operator(_name, "injective", _define))
