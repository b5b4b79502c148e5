"""Operators that ONNX itself defines by others: their bodies, for those that have no handler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from lpx.frontends.onnx import tensors
from lpx.frontends.onnx.context import Operand
from lpx.frontends.onnx.schema import OpSchema


def has_body(schema: OpSchema) -> bool:
    """Whether ONNX defines an operator by others."""
    return bool(schema.has_function or schema.has_context_dependent_function)


def body_of(
    schema: OpSchema, node: onnx.NodeProto, opset: int, inputs: Sequence[Operand | None]
) -> onnx.FunctionProto | None:
    """The body of an operator for operands of these types; None when ONNX gives none."""
    data: Any = None
    if schema.has_function:
        data = schema.get_function_with_opset_version(_best(schema.function_opset_versions, opset))
    elif schema.has_context_dependent_function:
        version = _best(schema.context_dependent_function_opset_versions, opset)
        types = [_type_of(x).SerializeToString() for x in inputs]
        data = schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types)
    return None if data is None else _named(onnx.FunctionProto.FromString(data), schema)


def _best(versions: Sequence[int], opset: int) -> int:
    """The newest body that the operator set has, else the oldest there is: a body imports its own operator sets."""
    return max((v for v in versions if v <= opset), default=min(versions))


def default_attributes(schema: OpSchema) -> dict[str, onnx.AttributeProto]:
    """The attributes of an operator that have a default."""
    return {name: a.default_value for name, a in schema.attributes.items() if a.default_value.name}


def _named(function: onnx.FunctionProto, schema: OpSchema) -> onnx.FunctionProto:
    """The function, with all of the operator's attributes declared, used in its body or not."""
    declared = {*function.attribute, *(a.name for a in function.attribute_proto)}
    function.attribute.extend(sorted(set(schema.attributes) - declared))
    return function


def _type_of(operand: Operand | None) -> onnx.TypeProto:
    if operand is None:
        return onnx.TypeProto()
    return onnx.helper.make_tensor_type_proto(tensors.code_of(operand.dtype), operand.shape)
