"""Operators that ONNX itself defines by others: their bodies, for those that have no handler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from lpx.frontends.onnx import tensors
from lpx.frontends.onnx.context import Operand
from lpx.frontends.onnx.schema import OpSchema


def body_of(
    schema: OpSchema, node: onnx.NodeProto, opset: int, inputs: Sequence[Operand | None]
) -> onnx.FunctionProto | None:
    """The body of an operator for operands of these types; None when ONNX gives none."""
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= opset]
        data: Any = schema.get_function_with_opset_version(max(versions)) if versions else None
        if data is not None:
            return _named(onnx.FunctionProto.FromString(data), schema)
    if schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        if versions:
            types = [_type_of(x).SerializeToString() for x in inputs]
            data = schema.get_context_dependent_function_with_opset_version(
                max(versions), node.SerializeToString(), types
            )
            return _named(onnx.FunctionProto.FromString(data), schema)
    return None


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
