"""Lowering: the tensors that are asked for, and all they depend on, as one loop-nest function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lpx import dtypes
from lpx.errors import DefinitionError
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr
from lpx.ir import nodes as ir
from lpx.ir import traverse as ir_traverse
from lpx.ir.printer import print_expr
from lpx.records import replace
from lpx.source import Span, capture
from lpx.te.definition import Compute, Constant, Placeholder
from lpx.te.nest import Nest, TimeLoop, block_nest
from lpx.te.program import Program, plan
from lpx.te.scan import Scan
from lpx.te.shapes import knowledge, symbols_of, tensor_argument
from lpx.te.tensor import AxisVar, Frame, Tensor, check_open
from lpx.te.update import Update


def lower(
    outputs: Tensor | Sequence[Tensor], inputs: Sequence[Tensor] | None = None, name: str = "main"
) -> ir.Function:
    """The function that computes `outputs`, in the `scheduled` stage.

    Parameters are `inputs` in order (default: the placeholders that are used, in order of first use), then the outputs,
    but for those that are updates of a placeholder: they live in it. Each definition that an output depends on becomes
    a loop nest around one block, named after its tensor; a scan becomes a serial loop around the nests of its step.

    Raises: DefinitionError when inputs or outputs are not what they can be, or an update destroys what is needed.
    """
    span = capture()
    results = _parse_outputs(outputs, span)
    program = plan(results)
    params = _params(program, results, _parse_inputs(program, inputs, span))
    constants: dict[Buffer, NDArray[np.generic]] = {
        op.outputs[0].buffer: op.array for op in program.operations() if isinstance(op, Constant)
    }
    given = {*(param.buffer for param in params), *constants}
    scratch = [buffer for buffer in _buffers(program) if buffer not in given]
    extents = _extents([*(param.buffer for param in params), *scratch], program)
    body = ir_traverse.sequence([*_extent_checks(extents, span), *_Writer(program).level(None, ())])
    for buffer in reversed(scratch):
        body = ir.Alloc(buffer, body, span=span)
    symbols = symbols_of([*extents, *_values(program)])
    return ir.Function(name, params, tuple(symbols), body, constants=constants)


class _Writer:
    """Writes the statements of a program, level by level. Blocks get names of their own."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._names: set[str] = set()

    def level(self, frame: Frame | None, around: tuple[TimeLoop, ...]) -> list[ir.Stmt]:
        """The statements of one level, within the loops `around` it."""
        stmts: list[ir.Stmt] = []
        for op in self._program.levels.get(frame, ()):
            if isinstance(op, Compute):
                stmts.append(self._nest(_nest_of(op, self._program), around))
            elif isinstance(op, Scan):
                stmts.extend(self._scan(op, around))
        return stmts

    def _scan(self, op: Scan, around: tuple[TimeLoop, ...]) -> list[ir.Stmt]:
        time = op.frame.time
        loop = build.var(time.name)
        inner = (*around, TimeLoop(time, loop, op.reverse))
        starts = [self._copy(f"{s.before.name}_init", s.init, s.before, op.span, around) for s in op.states]
        kept = [
            self._nest(_copy(output.name, state.after, output.buffer, op.span, time), inner)
            for state, output in zip(op.states, op.outputs, strict=True)
            if state.keep == "all"
        ]
        body = self.level(op.frame, inner)
        ends = [self._copy(f"{s.before.name}_next", s.after, s.before, op.span, inner) for s in op.states]
        step = ir_traverse.sequence([*body, *kept, *(stmt for stmt in ends if stmt is not None)])
        return [*(s for s in starts if s is not None), ir.For(loop, build.const(0), time.extent, step, span=op.span)]

    def _copy(
        self, name: str, source: Tensor, target: Tensor, span: Span | None, around: tuple[TimeLoop, ...]
    ) -> ir.Stmt | None:
        place = self._program.place(target)
        return None if place is self._program.place(source) else self._nest(_copy(name, source, place, span), around)

    def _nest(self, nest: Nest, around: tuple[TimeLoop, ...]) -> ir.Stmt:
        return block_nest(replace(nest, name=self._unique(nest.name)), around, self._program.storage)

    def _unique(self, name: str) -> str:
        found, count = name, 0
        while found in self._names:
            count += 1
            found = f"{name}_{count}"
        self._names.add(found)
        return found


def _nest_of(op: Compute, program: Program) -> Nest:
    return Nest(
        op.outputs[0].name,
        op.axes,
        op.reduce_axes,
        tuple(program.place(tensor) for tensor in op.outputs),
        op.indices if isinstance(op, Update) else op.axes,
        op.values,
        op.span,
        op.checks,
        op.start_checks,
    )


def _copy(name: str, source: Tensor, target: Buffer, span: Span | None, time: AxisVar | None = None) -> Nest:
    """`target[i, ...] = source[i, ...]`, or into the part of `target` at `time`."""
    axes = tuple(AxisVar(dtypes.index, 1, f"i{k}", extent, "spatial") for k, extent in enumerate(source.buffer.shape))
    indices = axes if time is None else (time, *axes)
    return Nest(name, axes, (), (target,), indices, (build.load(source.buffer, axes),), span)


def _params(program: Program, results: Sequence[Tensor], inputs: Sequence[Tensor]) -> tuple[ir.Param, ...]:
    params = [ir.Param(t.buffer, "inout" if cast("Placeholder", t.op).inout else "in") for t in inputs]
    taken = {param.buffer for param in params}
    places = (program.place(tensor) for tensor in results)
    return (*params, *(ir.Param(place, "out") for place in places if place not in taken))


def _buffers(program: Program) -> list[Buffer]:
    """The storage of everything that is computed, each once, in the order of first need."""
    tensors: list[Tensor] = []
    for op in program.operations():
        if isinstance(op, Scan):
            tensors.extend(state.before for state in op.states)
        if isinstance(op, Scan | Compute):
            tensors.extend(op.outputs)
    return list(dict.fromkeys(program.place(tensor) for tensor in tensors))


def _extents(buffers: Sequence[Buffer], program: Program) -> list[Expr]:
    extents = [extent for buffer in buffers for extent in buffer.shape]
    for op in program.operations():
        if isinstance(op, Compute):
            extents.extend(axis.extent for axis in (*op.axes, *op.reduce_axes))
        elif isinstance(op, Scan):
            extents.append(op.frame.time.extent)
    return extents


def _extent_checks(extents: Sequence[Expr], span: Span | None) -> list[ir.Stmt]:
    """Run-time checks of the extents that are negative for some values of the symbols, such as n - 1."""
    analyzer = knowledge((), extents)
    checked: list[Expr] = []
    for extent in extents:
        known = any(expr_traverse.structural_equal(extent, other) for other in checked)
        if not known and not analyzer.prove(build.compare("le", 0, extent)):
            checked.append(extent)
    return [
        ir.Check(build.compare("le", 0, extent), f"the extent {print_expr(extent)} is negative", span=span)
        for extent in checked
    ]


def _values(program: Program) -> list[Expr]:
    return [value for op in program.operations() if isinstance(op, Compute) for value in op.values]


def _parse_outputs(outputs: object, span: Span | None) -> list[Tensor]:
    given = cast("Sequence[object]", outputs) if isinstance(outputs, tuple | list) else (outputs,)
    results = [tensor_argument(entry, "an output", span) for entry in given]
    for tensor in results:
        check_open(tensor, span)
        if isinstance(tensor.op, Placeholder | Constant):
            raise DefinitionError(
                f"the output {tensor.name} is not computed",
                hint=f"copy it: te.compute(shape, lambda *i: {tensor.name}[i])",
                span=span,
            )
    if len(set(results)) != len(results) or not results:
        raise DefinitionError("the outputs are not one tensor or more, each once", span=span)
    return results


def _parse_inputs(program: Program, inputs: object, span: Span | None) -> list[Tensor]:
    used = program.placeholders()
    if inputs is None:
        return used
    given = [tensor_argument(entry, "an input", span) for entry in cast("Sequence[object]", inputs)]
    for tensor in given:
        if not isinstance(tensor.op, Placeholder):
            raise DefinitionError(
                f"the input {tensor.name} is not a placeholder", hint="inputs are what callers pass", span=span
            )
    missing = [tensor.name for tensor in used if tensor not in given]
    if missing:
        raise DefinitionError(
            f"the inputs lack {', '.join(missing)}", hint="the outputs depend on it: add it to inputs=", span=span
        )
    if len(set(given)) != len(given):
        raise DefinitionError("an input is given twice", hint="give each placeholder once", span=span)
    return given
