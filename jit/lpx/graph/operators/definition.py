"""What the definitions of operators share: reading operands and attributes, tensors without elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from lpx import te
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph.operator import AttrValue
from lpx.graph.shapes import Dim

Inputs = Sequence[te.Tensor | None]
Attrs = Mapping[str, AttrValue]
Outputs = Sequence[te.Tensor]


def ints(attrs: Attrs, name: str) -> tuple[int, ...]:
    """An attribute that is a tuple of ints."""
    return cast("tuple[int, ...]", attrs[name])


def flag(attrs: Attrs, name: str) -> bool:
    """An attribute that is a bool."""
    return attrs[name] is True


def operands(inputs: Inputs) -> list[te.Tensor]:
    """The operands that are given."""
    return [x for x in inputs if x is not None]


def empty(shape: Sequence[Dim], dtype: object, name: str) -> te.Tensor:
    """A tensor without elements: one of its extents is 0, so that nothing is read to define it."""

    def at(*_: Expr) -> Expr:
        return build.const(0, dtype)

    return te.compute(shape, at, name=name)


def is_empty(shape: Sequence[Dim]) -> bool:
    """Whether an extent is certainly 0."""
    return any(isinstance(d, int) and d == 0 for d in shape)
