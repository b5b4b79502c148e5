"""Operators that read or write at positions that are data: take, take_along, gather, scatter, searchsorted.

Negative indices count from the end. An index outside its axis is a run-time error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from lpx import te
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, empty, flag, is_empty, operands


def from_front(index: Expr, extent: te.Dim) -> Expr:
    """An index of any integer dtype as an int64 counted from the front."""
    picked = build.cast(index, "int64")
    if not index.dtype.is_signed:
        return picked
    return build.select(picked < 0, picked + extent, picked)


def _define_take(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Elements of the first operand at the indices of the second, along `axis`."""
    x, places = operands(inputs)
    return _gathered(x, [places], (cast("int", attrs["axis"]),), "take")


def _define_take_along(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Elements of the first operand at the indices of the second, which has its rank, along `axis`.

    The other axes broadcast.
    """
    x, places = operands(inputs)
    axis = cast("int", attrs["axis"])
    kept = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    batch = (*places.shape[:axis], 1, *places.shape[axis + 1 :])
    common = shapes.broadcast_shapes([kept, batch])
    shape = (*common[:axis], places.shape[axis], *common[axis + 1 :])

    def at(*i: Expr) -> Expr:
        place = from_front(shapes.read_broadcast(places, i, shape), x.shape[axis])
        one = build.const(0, "int64")
        source = [
            place if a == axis else one if shapes.is_stretched(x.shape[a], shape[a]) else i[a] for a in range(x.rank)
        ]
        return x[tuple(source)]

    return (te.compute(shape, at, name="take_along"),)


def _define_gather(inputs: Inputs, attrs: Attrs) -> Outputs:
    """NumPy's indexing by several arrays, which broadcast: the operands after the first index `axes` of it, in order.

    `axes` are adjacent and rising; the broadcast dimensions stand in their place.
    """
    x, *places = operands(inputs)
    return _gathered(x, places, cast("tuple[int, ...]", attrs["axes"]), "gather")


def _gathered(x: te.Tensor, places: Sequence[te.Tensor], axes: Sequence[int], name: str) -> Outputs:
    lead = axes[0]
    common = shapes.broadcast_shapes([p.shape for p in places])
    shape = (*x.shape[:lead], *common, *x.shape[lead + len(axes) :])
    if is_empty(shape):
        return (empty(shape, x.dtype, name),)

    def at(*i: Expr) -> Expr:
        end = lead + len(common)
        picked = _picked(places, i[lead:end], common, [x.shape[a] for a in axes])
        return x[(*i[:lead], *picked, *i[end:])]

    return (te.compute(shape, at, name=name),)


def _picked(
    places: Sequence[te.Tensor], at: Sequence[Expr], common: Sequence[te.Dim], extents: Sequence[te.Dim]
) -> list[Expr]:
    return [from_front(shapes.read_broadcast(p, at, common), extent) for p, extent in zip(places, extents, strict=True)]


def _define_scatter(inputs: Inputs, attrs: Attrs) -> Outputs:
    """The first operand with elements replaced by those of the second at places given by index arrays.

    As `gather` reads: the other operands index the leading axes. They are written in row-major order, so that of equal
    places the last one counts. The second operand has the shape that the gather would give.
    """
    x, new, *places = operands(inputs)
    count = len(places)
    common = shapes.broadcast_shapes([p.shape for p in places])
    if is_empty(new.shape):
        return (x,)

    def copy(*i: Expr) -> Expr:
        return x[i]

    def value(*i: Expr) -> Expr:
        return new[i]

    def place(*i: Expr) -> tuple[Expr, ...]:
        head = i[: len(common)]
        return (*_picked(places, head, common, x.shape[:count]), *i[len(common) :])

    base = te.compute(x.shape, copy, name="scattered")
    return (te.update(base, value, new.shape, place, ordered=True),)


def _define_searchsorted(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Where each element of the second operand belongs in the first, 1-D and sorted: int64, by bisection.

    With `right` it goes behind equal elements. NaN sorts last.
    """
    sorted_, values = operands(inputs)
    length = shapes.static(sorted_.shape, "searchsorted")[0]
    right = flag(attrs, "right")

    def goes_behind(element: Expr, value: Expr) -> Expr:
        if right:
            behind = element <= value
            return behind | build.call("isnan", value) if value.dtype.is_float else behind
        behind = element < value
        if not value.dtype.is_float:
            return behind
        return behind | (build.call("isnan", value) & ~build.call("isnan", element))

    def at(*i: Expr) -> Expr:
        found: Expr = build.const(0, "int64")
        for power in reversed(range(length.bit_length())):
            probe = found + ((1 << power) - 1)
            inside = probe < length
            safe = build.select(inside, probe, 0)
            found = found + build.select(inside & goes_behind(sorted_[safe], values[i]), 1 << power, 0)
        return found

    return (te.compute(values.shape, at, name="searchsorted"),)


for _name, _define in {"take": _define_take, "take_along": _define_take_along, "gather": _define_gather}.items():
    register(Operator(_name, "injective", _define))
register(Operator("scatter", "opaque", _define_scatter))
register(Operator("searchsorted", "injective", _define_searchsorted))
