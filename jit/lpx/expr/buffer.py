"""Buffers and layouts: named storage with a logical shape, and where each logical element lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lpx.dtypes import DType
from lpx.expr.text import Shown
from lpx.records import record

if TYPE_CHECKING:
    from lpx.expr.nodes import Expr, Var

Scope = Literal["global", "local", "register", "shared"]
"""`global`: memory every thread sees; `local`: memory private to a thread; `register`: values that must live in
registers, so every access has constant indices once loops are unrolled and vectorized; `shared`: a GPU block's."""

Space = Literal["memory", "lane_register"]


DEFAULT_ALIGNMENT = 64
"""Bytes."""


@record(eq=False, repr=False)
class Layout(Shown):
    """A bijection from a logical index to a physical one.

    `targets` are expressions over `variables` (one per logical axis); together they span `physical_shape`, row-major.
    In space `lane_register` the physical index is (lane of the warp, register of the lane), as tensor-core fragments
    are laid out.
    """

    variables: tuple[Var, ...]
    targets: tuple[Expr, ...]
    physical_shape: tuple[Expr, ...]
    space: Space = "memory"


@record(eq=False, repr=False)
class Buffer(Shown):
    """Storage for `shape` elements of `dtype`. Its name is a hint; identity counts.

    `strides` are in elements, None for compact row-major; `layout` maps the logical index before strides apply (the
    strides are then those of the physical shape). `alignment` is in bytes and holds for the first element.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...] | None = None
    alignment: int = DEFAULT_ALIGNMENT
    scope: Scope = "global"
    layout: Layout | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)
