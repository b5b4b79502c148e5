"""What of a model lpx cannot run: everything at once, rather than the first thing met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import onnx

from lpx import dtypes
from lpx.errors import LpxError, ModelError, UnsupportedError
from lpx.frontends.onnx import functions, schema
from lpx.frontends.onnx.context import NeedsValues
from lpx.frontends.onnx.handlers import HANDLERS
from lpx.frontends.onnx.model import Model, import_graph, load
from lpx.frontends.onnx.program import ModelSource, Program, domain_of, function_key, label_of, opsets_of, subgraphs
from lpx.frontends.onnx.samples import sample_inputs
from lpx.records import record


@record
class Fault:
    """One node that lpx cannot run, or that is malformed."""

    operator: str
    opset: int
    node: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.operator} (operator set {self.opset}), {self.node}: {self.message}"


@record
class Report:
    """The outcome of a check. `unseen` says why nodes could not be looked at with their shapes."""

    model: Model
    operators: Mapping[str, int]
    faults: Sequence[Fault]
    unseen: Sequence[str] = ()


def check(source: ModelSource, shapes: Mapping[str, Sequence[int]] | None = None) -> Report:
    """Look at every node of a model: is its operator supported, is it well formed, does it import for typical shapes?

    `shapes` gives input shapes by name where the guess for open dimensions would not do.

    Raises: ModelError when the model as a whole is malformed; UnsupportedError when an input is no tensor.
    """
    model = load(source)
    program = model.program
    found: dict[str, Fault] = {}
    unseen: dict[str, None] = {}
    operators: Counter[str] = Counter()

    def note(node: onnx.NodeProto, opset: int, error: LpxError) -> None:
        found.setdefault(label_of(node), Fault(node.op_type, opset, label_of(node), error.message, error.hint))

    def on_fault(node: onnx.NodeProto, error: LpxError | NeedsValues) -> None:
        if isinstance(error, NeedsValues):
            names = ", ".join(sorted(error.inputs))
            unseen[f"what follows the {label_of(node)}: {error.why} depends on the elements of input {names}"] = None
        else:
            note(node, program.opsets.get(domain_of(node.domain), 0), error)

    for node, opsets in _all_nodes(program):
        operators[node.op_type] += 1
        opset = opsets.get(domain_of(node.domain), 0)
        error = _static_fault(node, opset, program)
        if error is not None:
            note(node, opset, error)
    types = {name: (dtypes.parse(a.dtype), a.shape) for name, a in sample_inputs(model, shapes).items()}
    import_graph(program, model.target, types, on_fault)
    return Report(model, dict(operators.most_common()), list(found.values()), list(unseen))


def _all_nodes(program: Program) -> Iterator[tuple[onnx.NodeProto, Mapping[str, int]]]:
    """Every node of the model, its subgraphs and its functions, with the operator sets it means."""
    waiting = [(node, program.opsets) for node in reversed(program.graph.node)]
    for function in program.functions.values():
        waiting += [(node, opsets_of(function)) for node in function.node]
    while waiting:
        node, opsets = waiting.pop()
        yield node, opsets
        waiting += [(inner, opsets) for graph in subgraphs(node) for inner in reversed(graph.node)]


def _static_fault(node: onnx.NodeProto, opset: int, program: Program) -> LpxError | None:
    """What is wrong with a node whatever its inputs are."""
    if function_key(node) in program.functions:
        return None
    domain = domain_of(node.domain)
    described = schema.find(domain, node.op_type, opset)
    if described is None:
        return UnsupportedError(f"operator set {node.domain or 'ai.onnx'} {opset} has no {node.op_type}")
    if (domain, node.op_type) not in HANDLERS and not functions.has_body(described):
        return UnsupportedError(f"operator {node.op_type} is not supported (version {described.since_version})")
    try:
        schema.check_node(described, node, label_of(node))
    except ModelError as error:
        return error
    return None
