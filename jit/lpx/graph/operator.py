"""What an operator is: one row of the operator table, which says what it computes as a tensor expression.

There is no second description: types are inferred by defining the operator on placeholders, constants are folded by
running its definition, kernels are built from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from lpx import te
from lpx.expr.nodes import Expr
from lpx.records import record

AttrValue = bool | int | float | str | None | Expr | tuple[Any, ...]
OperatorKind = Literal["elementwise", "injective", "reduction", "contraction", "opaque"]
"""How an operator may be fused.

`elementwise`: output element i reads input elements at (broadcast) i. `injective`: each output element reads few input
elements at other places (transpose, pad, slice). `reduction`: reduces axes, and may be fused with elementwise
neighbours. `contraction`: a multiply-accumulate worth a kernel of its own, with elementwise epilogues. `opaque`: a
kernel alone.
"""

Definition = Callable[[Sequence[te.Tensor | None], Mapping[str, AttrValue]], Sequence[te.Tensor]]


@record
class Operator:
    """`define(inputs, attrs)` gives the output tensors, and raises an lpx error for operands it does not take."""

    name: str
    kind: OperatorKind
    define: Definition


_TABLE: dict[str, Operator] = {}


def register(operator: Operator) -> Operator:
    """Add a row to the table; a name has one row."""
    if operator.name in _TABLE:
        raise ValueError(f"operator {operator.name} is registered twice")
    _TABLE[operator.name] = operator
    return operator


def lookup(name: str) -> Operator:
    """The row of an operator."""
    return _TABLE[name]


def names() -> list[str]:
    """All operators, sorted."""
    return sorted(_TABLE)
