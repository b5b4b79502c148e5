"""A model read from a file and checked: names, order, nesting, functions. Nothing here depends on input shapes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from lpx.errors import ModelError, UnsupportedError
from lpx.records import record

DEEPEST = 64
"""Subgraphs and function calls may nest this deep."""

FunctionKey = tuple[str, str, str]
ModelSource = str | os.PathLike[str] | bytes | onnx.ModelProto


@record(eq=False)
class Program:
    """A checked model. `folder` is where its external data may lie, None when it came from memory."""

    graph: onnx.GraphProto
    opsets: Mapping[str, int]
    functions: Mapping[FunctionKey, onnx.FunctionProto]
    folder: Path | None


def read_program(source: ModelSource) -> Program:
    """The model in a file, in bytes, or in memory.

    Raises: ModelError when it is malformed; UnsupportedError when it is newer than the installed `onnx`.
    """
    model, folder = _parse(source)
    if not model.HasField("graph"):
        raise ModelError("the model has no graph", hint="is this an ONNX file?")
    functions: dict[FunctionKey, onnx.FunctionProto] = {}
    for function in model.functions:
        key = (domain_of(function.domain), function.name, function.overload)
        if key in functions:
            raise ModelError(f"function {function.name} of domain {function.domain!r} is defined twice")
        functions[key] = function
    program = Program(model.graph, _opsets(model.opset_import, "the model"), functions, folder)
    _check_names(model.graph)
    for function in functions.values():
        _opsets(function.opset_import, f"function {function.name}")
        _check_function_names(function)
    _check_calls(program)
    return program


def domain_of(domain: str) -> str:
    """The domain's one spelling: ONNX's own has two."""
    return "" if domain == "ai.onnx" else domain


def function_key(node: onnx.NodeProto) -> FunctionKey:
    """The function that a node calls, if there is one of that name."""
    return domain_of(node.domain), node.op_type, node.overload


def opsets_of(function: onnx.FunctionProto) -> dict[str, int]:
    """The operator set versions that a function uses."""
    return _opsets(function.opset_import, f"function {function.name}")


def label_of(node: onnx.NodeProto) -> str:
    """A node in a message."""
    if node.name:
        return f"{node.op_type} node {node.name!r}"
    makes = next((name for name in node.output if name), "")
    return f"{node.op_type} node that makes {makes!r}"


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _parse(source: ModelSource) -> tuple[onnx.ModelProto, Path | None]:
    if isinstance(source, onnx.ModelProto):
        return source, None
    folder = None
    if isinstance(source, bytes):
        data = source
    else:
        path = Path(source)
        folder = path.parent
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ModelError(f"cannot read the model {str(path)!r}: {error.strerror}") from error
    try:
        return onnx.ModelProto.FromString(data), folder
    except DecodeError as error:
        raise ModelError(f"this is no ONNX model, or it nests too deeply: {error}") from None


def _opsets(imports: Sequence[onnx.OperatorSetIdProto], what: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in imports:
        domain = domain_of(entry.domain)
        if found.setdefault(domain, entry.version) != entry.version:
            raise ModelError(f"{what} imports two versions of the operator set {entry.domain!r}")
    newest = onnx.defs.onnx_opset_version()
    if found.get("", 1) > newest:
        raise UnsupportedError(
            f"{what} uses operator set {found['']}, but the installed onnx knows up to {newest}", hint="upgrade onnx"
        )
    if found.get("", 1) < 1:
        raise ModelError(f"{what} uses operator set {found['']}")
    return found


@dataclass(slots=True)
class _Frame:
    nodes: Iterator[onnx.NodeProto]
    outputs: Sequence[str]
    makers: Mapping[str, str]
    own: set[str]
    pending: Iterator[onnx.GraphProto]
    makes: Sequence[str] = ()


def _check_names(graph: onnx.GraphProto) -> None:
    """Every name is made once in its graph, and before it is used. Walks with a stack of its own, not Python's."""
    visible: Counter[str] = Counter()
    stack = [_enter(graph, visible)]
    while stack:
        frame = stack[-1]
        inner = next(frame.pending, None)
        if inner is not None:
            if len(stack) > DEEPEST:
                raise ModelError(f"graphs nest more than {DEEPEST} deep")
            stack.append(_enter(inner, visible))
            continue
        _define(frame, frame.makes, visible, "")
        node = next(frame.nodes, None)
        if node is None:
            _leave(frame, visible)
            stack.pop()
            continue
        for name in node.input:
            if name and not visible[name]:
                raise _undefined(name, f"an input of the {label_of(node)}", frame)
        frame.makes = [name for name in node.output if name]
        _check_free(frame, frame.makes, label_of(node))
        frame.pending = subgraphs(node)


def _check_function_names(function: onnx.FunctionProto) -> None:
    body = onnx.GraphProto(name=function.name, node=function.node)
    body.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
    body.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
    _check_names(body)


def _enter(graph: onnx.GraphProto, visible: Counter[str]) -> _Frame:
    makers = {name: label_of(node) for node in reversed(graph.node) for name in node.output if name}
    frame = _Frame(iter(graph.node), [v.name for v in graph.output], makers, set(), iter(()))
    _define(frame, [v.name for v in graph.input], visible, "input")
    inputs = set(frame.own)
    initializers = [t.name for t in graph.initializer] + [t.values.name for t in graph.sparse_initializer]
    if len(set(initializers)) != len(initializers):
        twice = next(name for name, count in Counter(initializers).items() if count > 1)
        raise ModelError(f"initializer {twice!r} is given twice")
    _define(frame, [name for name in initializers if name not in inputs], visible, "initializer")
    return frame


def _define(frame: _Frame, names: Sequence[str], visible: Counter[str], what: str) -> None:
    if what:
        _check_free(frame, names, what)
    for name in names:
        frame.own.add(name)
        visible[name] += 1


def _check_free(frame: _Frame, names: Sequence[str], what: str) -> None:
    for position, name in enumerate(names):
        if name in frame.own or name in names[:position]:
            raise ModelError(f"the name {name!r} is given to two tensors, the second is made by: {what}")


def _leave(frame: _Frame, visible: Counter[str]) -> None:
    for name in frame.outputs:
        if not visible[name]:
            raise _undefined(name, "an output of the graph", frame)
    for name in frame.own:
        visible[name] -= 1


def _undefined(name: str, what: str, frame: _Frame) -> ModelError:
    maker = frame.makers.get(name)
    if maker is None:
        return ModelError(f"{name!r}, {what}, is made nowhere: no node, initializer or input has that name")
    return ModelError(
        f"{name!r}, {what}, is made only later, by the {maker}", hint="nodes must be sorted, and must not form a cycle"
    )


def _check_calls(program: Program) -> None:
    """Functions must not call themselves, through others or at all."""
    calls = {key: sorted(_called(function.node, program)) for key, function in program.functions.items()}
    height: dict[FunctionKey, int] = {}
    for start, callees in calls.items():
        path: list[tuple[FunctionKey, Iterator[FunctionKey]]] = [(start, iter(callees))]
        on_path = {start}
        while path:
            key, rest = path[-1]
            callee = next((c for c in rest if c not in height), None)
            if callee is None:
                height[key] = 1 + max((height[c] for c in calls[key]), default=0)
                on_path.discard(key)
                path.pop()
                continue
            if callee in on_path:
                names = [k[1] for k, _ in path]
                raise ModelError(f"function {callee[1]} calls itself: {' -> '.join([*names, callee[1]])}")
            on_path.add(callee)
            path.append((callee, iter(calls[callee])))
    deepest = max(height.values(), default=0)
    if deepest > DEEPEST:
        raise ModelError(f"functions call each other {deepest} deep", hint=f"up to {DEEPEST} are supported")


def _called(nodes: Sequence[onnx.NodeProto], program: Program) -> set[FunctionKey]:
    found: set[FunctionKey] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if function_key(node) in program.functions:
            found.add(function_key(node))
        waiting.extend(inner for graph in subgraphs(node) for inner in graph.node)
    return found
