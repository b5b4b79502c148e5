"""Control flow: a branch is chosen, and a loop unrolled, while the model is imported.

Conditions and trip counts must be known then, from constants, shapes or small inputs whose elements are compiled in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from lpx.errors import ModelError, UnsupportedError
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.registry import Call, handles
from lpx.frontends.onnx.handlers.shape import join, take_slice
from lpx.graph import shapes

MOST_STEPS = 1024
"""Loops of more steps are not unrolled."""


@handles("If")
def branch(ctx: Context, call: Call) -> list[Operand]:
    """The branch that the condition takes."""
    taken = _condition(ctx, call.input(0), "the condition of If")
    then, otherwise = call.attrs.graph("then_branch"), call.attrs.graph("else_branch")
    return call.run_graph(then if taken else otherwise, ())


def _condition(ctx: Context, x: Operand, what: str) -> bool:
    array = ctx.array(x, what)
    if array.size != 1 or array.dtype != np.bool_:
        raise ModelError(f"{what} is {x.value.type_text}, not one bool")
    return bool(array.item())


@handles("Loop")
def loop(ctx: Context, call: Call) -> list[Operand]:
    """The body once for each step, on the values that the step before left."""
    limit, given = call.optional(0), call.optional(1)
    count = None if limit is None else ctx.integer(limit, "the trip count of Loop")
    goes_on = given is None or _condition(ctx, given, "the condition of Loop")
    body, carried = call.attrs.graph("body"), [call.input(k) for k in range(2, len(call.inputs))]
    rows: list[list[Operand]] = []
    while goes_on and (count is None or len(rows) < count):
        if len(rows) == MOST_STEPS:
            raise UnsupportedError(f"a loop of more than {MOST_STEPS} steps")
        goes_on, carried, row = _loop_step(ctx, call, body, len(rows), carried)
        rows.append(row)
    if rows:
        return [*carried, *_stacked(ctx, rows, [0] * len(rows[0]))]
    if len(body.output) == 1 + len(carried):
        return carried
    types = _loop_step(ctx, call, body, 0, carried)[2]  # what a step would give; nothing uses it
    return [*carried, *(ctx.add("full", shape=(0, *t.shape), value=0, dtype=t.dtype.name) for t in types)]


def _loop_step(
    ctx: Context, call: Call, body: onnx.GraphProto, step: int, carried: Sequence[Operand]
) -> tuple[bool, list[Operand], list[Operand]]:
    """Whether the loop goes on, the carried values, and the row of each scanned output."""
    if len(body.input) != 2 + len(carried) or len(body.output) < 1 + len(carried):
        raise ModelError(f"the body of Loop has {len(body.input)} inputs for {len(carried)} carried values")
    started = [ctx.constant(np.asarray(step, np.int64)), ctx.constant(np.asarray(True)), *carried]
    condition, *results = call.run_graph(body, started)
    return _condition(ctx, condition, "the condition of Loop"), results[: len(carried)], results[len(carried) :]


@handles("Scan")
def scan(ctx: Context, call: Call) -> list[Operand]:
    """The body once for each element along the scanned axes."""
    if call.version < 9:
        raise UnsupportedError("Scan before operator set 9")
    body, count = call.attrs.graph("body"), call.attrs.integer("num_scan_inputs")
    operands = [call.input(k) for k in range(len(call.inputs))]
    if not 1 <= count <= len(operands) or len(body.input) != len(operands):
        raise ModelError(f"Scan of {count} of {len(operands)} inputs with a body of {len(body.input)}")
    states, scanned = operands[: len(operands) - count], operands[len(operands) - count :]
    outputs = len(body.output) - len(states)
    in_axes = [
        shapes.normalize_axis(a, x.rank)
        for a, x in zip(call.attrs.integers("scan_input_axes", (0,) * count), scanned, strict=True)
    ]
    backwards = call.attrs.integers("scan_input_directions", (0,) * count)
    steps = scanned[0].shape[in_axes[0]]
    if not 1 <= steps <= MOST_STEPS:
        raise UnsupportedError(f"a scan of {steps} steps", hint=f"scans of 1 to {MOST_STEPS} steps are unrolled")
    rows: list[list[Operand]] = []
    for step in range(steps):
        elements = [
            _element(ctx, x, axis, steps - 1 - step if back else step)
            for x, axis, back in zip(scanned, in_axes, backwards, strict=True)
        ]
        results = call.run_graph(body, [*states, *elements])
        states = results[: len(states)]
        rows.append(results[len(states) :])
    out_axes = call.attrs.integers("scan_output_axes", (0,) * outputs)
    directions = call.attrs.integers("scan_output_directions", (0,) * outputs)
    return [*states, *_stacked(ctx, rows, out_axes, directions)]


def _element(ctx: Context, x: Operand, axis: int, position: int) -> Operand:
    """`x` at one position of an axis, which is dropped."""
    part = take_slice(ctx, x, {axis: (position, 1, 1)})
    return ctx.add("reshape", part, shape=(*x.shape[:axis], *x.shape[axis + 1 :]))


def _stacked(
    ctx: Context, rows: Sequence[Sequence[Operand]], axes: Sequence[int], backwards: Sequence[int] = ()
) -> list[Operand]:
    """Each output's rows, one after another along a new axis."""
    stacked: list[Operand] = []
    for number, axis in enumerate(axes):
        parts = [row[number] for row in rows]
        place = shapes.normalize_axis(axis, parts[0].rank + 1)
        lifted = [ctx.add("reshape", p, shape=(*p.shape[:place], 1, *p.shape[place:])) for p in parts]
        order = list(reversed(lifted)) if backwards and backwards[number] else lifted
        stacked.append(join(ctx, order, place))
    return stacked
