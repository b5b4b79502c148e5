"""ONNX's own description of its operators: which version a node means, and whether the node is well formed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import onnx

from lpx.dtypes import DType
from lpx.errors import ModelError
from lpx.frontends.onnx import tensors

OpSchema = Any
"""`onnx.defs.OpSchema`, whose members carry no usable types."""


@functools.cache
def find(domain: str, name: str, opset: int) -> OpSchema | None:
    """The operator `name` as operator set `opset` of `domain` has it, None where it has none (or no more)."""
    try:
        found = onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None
    return None if found.deprecated else found


def check_node(schema: OpSchema, node: onnx.NodeProto, label: str) -> None:
    """Numbers of inputs and outputs, names and types of attributes.

    Raises: ModelError naming what is wrong.
    """
    inputs, outputs = len(node.input), len(node.output)
    if not schema.min_input <= inputs <= schema.max_input:
        raise ModelError(f"{label} has {inputs} input(s)", hint=_between(schema.min_input, schema.max_input))
    if not schema.min_output <= outputs <= schema.max_output:
        raise ModelError(f"{label} has {outputs} output(s)", hint=_between(schema.min_output, schema.max_output))
    for position in range(min(inputs, len(schema.inputs))):
        single = schema.inputs[position].option == onnx.defs.OpSchema.FormalParameterOption.Single
        if single and not node.input[position]:
            raise ModelError(f"{label} lacks its input {schema.inputs[position].name}")
    given: set[str] = set()
    for attribute in node.attribute:
        _check_attribute(schema, attribute, given, label)
    for name, declared in schema.attributes.items():
        if declared.required and name not in given:
            raise ModelError(f"{label} lacks the attribute {name}")


def _check_attribute(schema: OpSchema, attribute: onnx.AttributeProto, given: set[str], label: str) -> None:
    name = attribute.name
    declared = schema.attributes.get(name)
    if declared is None:
        hint = f"version {schema.since_version} of {schema.name} has {', '.join(sorted(schema.attributes)) or 'none'}"
        raise ModelError(f"{label} has the unknown attribute {name}", hint=hint)
    if name in given:
        raise ModelError(f"{label} has the attribute {name} twice")
    given.add(name)
    if int(declared.type.value) != attribute.type:
        raise ModelError(f"{label}: attribute {name} must be {declared.type.name}")


def check_types(schema: OpSchema, inputs: Sequence[DType | None], label: str) -> None:
    """Whether the operator takes operands of these dtypes.

    Raises: ModelError naming the input.
    """
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    bound: dict[str, DType] = {}
    for position, dtype in enumerate(inputs):
        if dtype is None:
            continue
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        text = f"tensor({type_text(dtype)})"
        legal = allowed.get(formal.type_str, {formal.type_str})
        if text not in legal:
            hint = f"version {schema.since_version} of {schema.name} takes {', '.join(sorted(legal))}"
            raise ModelError(f"{label}: input {formal.name} is {dtype}", hint=hint)
        if formal.is_homogeneous and bound.setdefault(formal.type_str, dtype) != dtype:
            raise ModelError(
                f"{label}: input {formal.name} is {dtype}, but another of its type is {bound[formal.type_str]}"
            )


def type_text(dtype: DType) -> str:
    """ONNX's spelling of a dtype in type constraints."""
    return tensors.name_of(dtype).lower()


def _between(low: int, high: int) -> str:
    return f"it takes {low}" if low == high else f"it takes {low} to {high}"
