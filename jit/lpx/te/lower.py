"""Lowering: the tensors that are asked for, and all they depend on, as one loop-nest function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lpx.errors import DefinitionError
from lpx.expr import traverse
from lpx.expr.nodes import Load
from lpx.ir import nodes as ir
from lpx.ir.traverse import sequence
from lpx.source import Span, capture
from lpx.te.definition import Compute, Constant, Placeholder
from lpx.te.nest import block_nest
from lpx.te.shapes import symbols_of, tensor_argument
from lpx.te.tensor import Operation, Tensor, tensor_of


def lower(
    outputs: Tensor | Sequence[Tensor], inputs: Sequence[Tensor] | None = None, name: str = "main"
) -> ir.Function:
    """The function that computes `outputs`, in the `scheduled` stage.

    Parameters are `inputs` in order (default: the placeholders that are used, in order of first use), then the outputs.
    Each definition that an output depends on becomes a loop nest around one block, named after its tensor.

    Raises: DefinitionError when inputs or outputs are not what they can be.
    """
    span = capture()
    results = _parse_outputs(outputs, span)
    operations = reachable(results)
    params = _parse_inputs(operations, inputs, span)
    names = _Names()
    nests = [block_nest(op, names.unique(op.outputs[0].name)) for op in operations if isinstance(op, Compute)]
    body = sequence(nests)
    kept = {tensor.buffer for tensor in results}
    for op in reversed(operations):
        if isinstance(op, Compute):
            for tensor in reversed(op.outputs):
                if tensor.buffer not in kept:
                    body = ir.Alloc(tensor.buffer, body, span=op.span)
    buffers = [t.buffer for op in operations for t in op.outputs]
    every = [*(t.buffer for t in params), *(t.buffer for t in results), *buffers]
    return ir.Function(
        name,
        (*(ir.Param(t.buffer, "in") for t in params), *(ir.Param(t.buffer, "out") for t in results)),
        tuple(symbols_of([extent for buffer in every for extent in buffer.shape])),
        body,
        constants={op.outputs[0].buffer: op.array for op in operations if isinstance(op, Constant)},
    )


def reachable(results: Iterable[Tensor]) -> list[Operation]:
    """The operations that `results` depend on, each after those it depends on, in an order the program fixes."""
    done: dict[Operation, None] = {}
    stack = [(tensor.op, False) for tensor in reversed(list(results))]
    while stack:
        op, ready = stack.pop()
        if ready:
            done[op] = None
        elif op not in done:
            stack.append((op, True))
            stack.extend((tensor.op, False) for tensor in reversed(reads_of(op)))
    return list(done)


def reads_of(op: Operation) -> list[Tensor]:
    """The tensors an operation reads, each once, in order of first use."""
    if not isinstance(op, Compute):
        return []
    loads = (node for value in op.values for node in traverse.walk(value) if isinstance(node, Load))
    return list(dict.fromkeys(tensor_of(load.buffer) for load in loads))


class _Names:
    def __init__(self) -> None:
        self._used: set[str] = set()

    def unique(self, name: str) -> str:
        found, count = name, 1
        while found in self._used:
            found, count = f"{name}_{count}", count + 1
        self._used.add(found)
        return found


def _parse_outputs(outputs: object, span: Span | None) -> list[Tensor]:
    given = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
    results = [tensor_argument(entry, "an output", span) for entry in given]
    for tensor in results:
        if isinstance(tensor.op, Placeholder | Constant):
            raise DefinitionError(
                f"the output {tensor.name} is not computed",
                hint=f"copy it: te.compute({tensor.name}.shape, lambda *i: {tensor.name}[i])",
                span=span,
            )
    if len(set(results)) != len(results) or not results:
        raise DefinitionError("outputs are one tensor or more, each once", span=span)
    return results


def _parse_inputs(operations: Sequence[Operation], inputs: Sequence[Tensor] | None, span: Span | None) -> list[Tensor]:
    used = [op.outputs[0] for op in operations if isinstance(op, Placeholder)]
    if inputs is None:
        return used
    given = [tensor_argument(entry, "an input", span) for entry in inputs]
    for tensor in given:
        if not isinstance(tensor.op, Placeholder):
            raise DefinitionError(f"the input {tensor.name} is not a placeholder", span=span)
    missing = [tensor.name for tensor in used if tensor not in given]
    if missing:
        raise DefinitionError(f"the inputs lack {', '.join(missing)}, which the outputs depend on", span=span)
    if len(set(given)) != len(given):
        raise DefinitionError("an input is given twice", span=span)
    return given
