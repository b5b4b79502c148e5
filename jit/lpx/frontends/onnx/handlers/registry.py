"""The table of handlers: one per ONNX operator, for all its versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx

from lpx.errors import ModelError
from lpx.frontends.onnx.attributes import Attributes
from lpx.frontends.onnx.context import Context, Operand
from lpx.records import record


@record
class Call:
    """One node to import. `version` is that of the operator the node means: the operator set that last changed it.

    `outputs` says which results are used; `run_graph` imports a subgraph and gives its outputs.
    """

    op: str
    version: int
    label: str
    inputs: tuple[Operand | None, ...]
    outputs: tuple[bool, ...]
    attrs: Attributes
    run_graph: Callable[[onnx.GraphProto, Sequence[Operand]], list[Operand]]

    def input(self, position: int) -> Operand:
        """An operand that must be given."""
        found = self.optional(position)
        if found is None:
            raise ModelError(f"{self.label} lacks its input {position}")
        return found

    def optional(self, position: int) -> Operand | None:
        """An operand, None when it is not given."""
        return self.inputs[position] if position < len(self.inputs) else None

    def wants(self, position: int) -> bool:
        """Whether a result is used."""
        return position < len(self.outputs) and self.outputs[position]

    @property
    def given(self) -> list[Operand]:
        """All operands that are given."""
        return [x for x in self.inputs if x is not None]


Handler = Callable[[Context, Call], Operand | Sequence[Operand]]

HANDLERS: dict[tuple[str, str], Handler] = {}
"""By domain ("" is ONNX's own) and operator."""


def handles(*operators: str) -> Callable[[Handler], Handler]:
    """Register the handler of operators of ONNX's own domain; each has one."""

    def register(handler: Handler) -> Handler:
        for operator in operators:
            if ("", operator) in HANDLERS:
                raise ValueError(f"{operator} has two handlers")
            HANDLERS["", operator] = handler
        return handler

    return register
