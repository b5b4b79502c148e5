"""Walking a checked model with concrete input shapes: each node becomes graph operators through its handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import onnx

from lpx.errors import LpxError, ModelError, UnsupportedError
from lpx.frontends.onnx import functions, schema, tensors
from lpx.frontends.onnx.attributes import Attributes
from lpx.frontends.onnx.context import Context, NeedsValues, Operand
from lpx.frontends.onnx.handlers import HANDLERS
from lpx.frontends.onnx.handlers.registry import Call
from lpx.frontends.onnx.program import DEEPEST, Program, domain_of, function_key, label_of, opsets_of
from lpx.records import record

Names = dict[str, Operand | None]


@record(eq=False)
class _Scope:
    """Where a node stands: the tensors it sees, the operator sets, and the attributes of the function around it."""

    names: Names
    opsets: Mapping[str, int]
    bindings: Mapping[str, onnx.AttributeProto] = field(default_factory=dict[str, onnx.AttributeProto])
    depth: int = 0

    def inner(self) -> _Scope:
        """The scope of a subgraph, which sees the names of the graph around it."""
        return _Scope(dict(self.names), self.opsets, self.bindings, self.depth + 1)


OnFault = Callable[[onnx.NodeProto, LpxError | NeedsValues], None]


class Importer:
    """Imports one program into one context.

    `on_fault`, if given, gets every error of a node, and the import goes on: what depends on the node is left out.
    """

    def __init__(self, program: Program, context: Context, on_fault: OnFault | None = None) -> None:
        self._program = program
        self._context = context
        self._on_fault = on_fault

    def run(self, inputs: Mapping[str, Operand]) -> list[Operand | None]:
        """The outputs of the model, given its inputs; an output is None where a fault left it out."""
        graph = self._program.graph
        scope = _Scope(dict(inputs), self._program.opsets)
        self._define_initializers(graph, scope)
        self._run_nodes(graph.node, scope)
        return [scope.names.get(v.name) for v in graph.output]

    def _define_initializers(self, graph: onnx.GraphProto, scope: _Scope) -> None:
        if graph.sparse_initializer:
            raise UnsupportedError("the model has sparse initializers", hint="store them dense")
        for tensor in graph.initializer:
            if tensor.name not in scope.names:
                array = tensors.to_array(tensor, self._program.folder, f"initializer {tensor.name!r}")
                scope.names[tensor.name] = self._context.constant(array)

    def _run_nodes(self, nodes: Sequence[onnx.NodeProto], scope: _Scope) -> None:
        for node in nodes:
            try:
                results = self._run_node(node, scope)
            except (LpxError, NeedsValues) as error:
                if self._on_fault is None:
                    raise
                self._on_fault(node, error)
                continue
            scope.names.update(results)

    def _run_node(self, node: onnx.NodeProto, scope: _Scope) -> dict[str, Operand]:
        if any(name and name not in scope.names for name in node.input):
            return {}  # after a fault only: the program was checked
        label = label_of(node)
        inputs = tuple(scope.names[name] if name else None for name in node.input)
        attributes = self._bound_attributes(node, scope)
        try:
            results = self._apply(node, label, inputs, attributes, scope)
        except LpxError as error:
            raise _named(error, label) from error
        made = dict(zip(node.output, results, strict=False))
        missing = [name for name in node.output if name and made.get(name) is None]
        if missing:
            raise ModelError(f"{label}: its output {missing[0]!r} is not made")
        return {name: result for name, result in made.items() if name and result is not None}

    def _apply(
        self,
        node: onnx.NodeProto,
        label: str,
        inputs: tuple[Operand | None, ...],
        attributes: Mapping[str, onnx.AttributeProto],
        scope: _Scope,
    ) -> Sequence[Operand | None]:
        function = self._program.functions.get(function_key(node))
        if function is not None:
            return self._call(function, inputs, attributes, scope)
        domain = domain_of(node.domain)
        opset = scope.opsets.get(domain)
        if opset is None:
            raise ModelError(f"{label} is of the operator set {node.domain!r}, which is not imported")
        described = schema.find(domain, node.op_type, opset)
        handler = HANDLERS.get((domain, node.op_type))
        if described is None:
            raise UnsupportedError(f"{label}: operator set {node.domain or 'ai.onnx'} {opset} has no {node.op_type}")
        resolved = onnx.NodeProto()
        resolved.CopyFrom(node)
        del resolved.attribute[:]
        resolved.attribute.extend(attributes.values())
        schema.check_node(described, resolved, label)
        schema.check_types(described, [None if x is None else x.dtype for x in inputs], label)
        if handler is not None:
            call = Call(
                op=node.op_type,
                version=described.since_version,
                label=label,
                inputs=inputs,
                outputs=tuple(bool(name) for name in node.output),
                attrs=Attributes(label, attributes, self._program.folder),
                run_graph=lambda graph, given: self._run_graph(graph, given, scope),
            )
            made = handler(self._context, call)
            call.attrs.check_all_read()
            return (made,) if isinstance(made, Operand) else made
        body = functions.body_of(described, resolved, opset, inputs)
        if body is None:
            raise UnsupportedError(f"operator {node.op_type} is not supported (version {described.since_version})")
        return self._call(body, inputs, {**functions.default_attributes(described), **attributes}, scope)

    def _run_graph(self, graph: onnx.GraphProto, inputs: Sequence[Operand], scope: _Scope) -> list[Operand]:
        """The outputs of a subgraph, which sees the names around it."""
        if scope.depth >= DEEPEST:
            raise ModelError(f"graphs and functions nest more than {DEEPEST} deep")
        inner = scope.inner()
        for info, operand in zip(graph.input, inputs, strict=True):
            inner.names[info.name] = operand
        self._define_initializers(graph, inner)
        self._run_nodes(graph.node, inner)
        return [_present(inner.names.get(v.name), v.name) for v in graph.output]

    def _call(
        self,
        function: onnx.FunctionProto,
        inputs: Sequence[Operand | None],
        attributes: Mapping[str, onnx.AttributeProto],
        scope: _Scope,
    ) -> list[Operand | None]:
        """The results of a function's body, in place of a call of it; None for one that needs inputs not given."""
        if scope.depth >= DEEPEST:
            raise ModelError(f"graphs and functions nest more than {DEEPEST} deep")
        if len(inputs) > len(function.input):
            raise ModelError(f"function {function.name} takes {len(function.input)} input(s), not {len(inputs)}")
        names: Names = dict.fromkeys(function.input)
        names.update(zip(function.input, inputs, strict=False))
        bindings = {a.name: a for a in function.attribute_proto}
        bindings.update(attributes)
        unknown = sorted(attributes.keys() - {*function.attribute, *(a.name for a in function.attribute_proto)})
        if unknown:
            raise ModelError(f"function {function.name} has no attribute {unknown[0]}")
        inner = _Scope(names, {**scope.opsets, **opsets_of(function)}, bindings, scope.depth + 1)
        self._run_nodes(function.node, inner)
        return [inner.names.get(name) for name in function.output]

    @staticmethod
    def _bound_attributes(node: onnx.NodeProto, scope: _Scope) -> dict[str, onnx.AttributeProto]:
        """Attributes by name; one that refers to an attribute of the function around is that attribute, or absent."""
        found: dict[str, onnx.AttributeProto] = {}
        for attribute in node.attribute:
            if not attribute.ref_attr_name:
                found[attribute.name] = attribute
            elif attribute.ref_attr_name in scope.bindings:
                bound = onnx.AttributeProto()
                bound.CopyFrom(scope.bindings[attribute.ref_attr_name])
                bound.name = attribute.name
                found[attribute.name] = bound
        return found


def _present(operand: Operand | None, name: str) -> Operand:
    if operand is None:
        raise UnsupportedError(f"the subgraph's output {name!r} could not be made")
    return operand


def _named(error: LpxError, label: str) -> LpxError:
    """The error with the node in its message; one that is about operands or shapes becomes a ModelError."""
    if isinstance(error, ModelError | UnsupportedError) and label in error.message:
        return error
    kind = UnsupportedError if isinstance(error, UnsupportedError) else ModelError
    return kind(f"{label}: {error.message}", hint=error.hint)
