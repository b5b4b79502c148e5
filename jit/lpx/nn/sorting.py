"""Elements in order, and the first of them."""

from __future__ import annotations

from lpx.errors import ShapeError
from lpx.frontends.numpy.functions.indexing import getitem
from lpx.frontends.numpy.functions.shaping import as_axis
from lpx.graph import shapes
from lpx.nn.primitive import Array, primitive, traced
from lpx.source import capture


@primitive
def sort(
    x: Array, axis: int = -1, descending: bool = False, *, out: tuple[Array, Array] | None = None
) -> tuple[Array, Array]:
    """The elements of x[...] in order along `axis`, and where they were, int64.

    Equal elements keep their order; NaN counts as larger than everything. Takes extent squared comparisons.

    Raises: ShapeError.
    """
    (array,) = traced(x)
    values, positions = array.owner.add_multi("sort", array, axis=as_axis(array, axis), descending=descending)
    return values, positions


@primitive
def top_k(
    x: Array, k: int, axis: int = -1, largest: bool = True, *, out: tuple[Array, Array] | None = None
) -> tuple[Array, Array]:
    """The k largest (or smallest) elements of x[...] along `axis`, in order, and where they were; see `sort`.

    Raises: ShapeError.
    """
    (array,) = traced(x)
    along = as_axis(array, axis)
    (extent,) = shapes.static(array.shape[along : along + 1], "top_k")
    if not 0 <= k <= extent:
        raise ShapeError(f"top_k of {k} among {extent} elements", hint=f"k must be 0 to {extent}", span=capture())
    first = (*(slice(None),) * along, slice(0, k))
    values, positions = sort(array, along, largest)
    return getitem(array.owner, values, first), getitem(array.owner, positions, first)
