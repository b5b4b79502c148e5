"""What takes several graph operators, for any front end: its own tensors, and what adds nodes to its graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from lpx import dtypes
from lpx.errors import ShapeError
from lpx.graph import shapes


class Tensor(Protocol):
    """What stands for a value of the graph in a front end."""

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents."""
        ...

    @property
    def dtype(self) -> Any:
        """The dtype of the elements, lpx's or NumPy's."""
        ...


T = TypeVar("T", bound=Tensor)


class Composer(Protocol[T]):
    """What adds nodes to the graph of a front end."""

    def add(self, name: str, *operands: T, **attrs: Any) -> T:
        """Use an operator that has one output."""
        ...

    def constant(self, array: NDArray[Any]) -> T:
        """A tensor with known elements."""
        ...


def full(graph: Composer[T], like: T, value: float, shape: Sequence[int] = ()) -> T:
    """One number everywhere, of the dtype of `like`."""
    return graph.add("full", shape=tuple(shape), value=value, dtype=dtypes.parse(like.dtype).name)


def pad_or_crop(graph: Composer[T], x: T, before: Sequence[int], after: Sequence[int], fill: T) -> T:
    """`x` with `fill`, a 0-d tensor, around it; negative amounts cut elements off.

    Raises: ShapeError when more is cut off than there is.
    """
    extents = shapes.static(x.shape, "padding")
    if any(b < 0 for b in (*before, *after)):
        starts = tuple(max(-b, 0) for b in before)
        sizes = tuple(d - s - max(-a, 0) for d, s, a in zip(extents, starts, after, strict=True))
        if any(s < 0 for s in sizes):
            raise ShapeError(f"padding {tuple(before)} and {tuple(after)} cuts more off {extents} than there is")
        x = graph.add("slice", x, starts=starts, steps=(1,) * len(extents), sizes=sizes)
    if not any(b > 0 for b in (*before, *after)):
        return x
    grown = [tuple(max(b, 0) for b in amounts) for amounts in (before, after)]
    return graph.add("pad", x, fill, before=grown[0], after=grown[1])
