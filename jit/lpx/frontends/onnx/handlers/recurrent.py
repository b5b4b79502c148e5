"""RNN, GRU, LSTM: each direction is a scan over time, after one product for the inputs of all steps."""

from __future__ import annotations

from lpx import dtypes
from lpx.errors import ModelError, UnsupportedError
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.elementwise import cast
from lpx.frontends.onnx.handlers.reduction import wider
from lpx.frontends.onnx.handlers.registry import Call, handles
from lpx.frontends.onnx.handlers.shape import join, take_slice
from lpx.graph.composing import pad_or_crop
from lpx.records import record

_ACTIVATIONS = {"sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu"}
_DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@record
class _Layer:
    """One node: its inputs with time first, and what holds for every direction."""

    x: Operand
    lengths: Operand
    hidden: int
    directions: int
    clip: float | None
    gates: int


@handles("RNN", "GRU", "LSTM")
def recurrent(ctx: Context, call: Call) -> list[Operand]:
    """All steps of all directions, and the last state (for LSTM also the last cell)."""
    dtype = call.input(0).dtype
    batch_first = call.attrs.flag("layout")
    call.attrs.ignore("output_sequence")
    direction = call.attrs.text("direction", "forward", legal=("forward", "reverse", "bidirectional"))
    layer = _layer(ctx, call, 2 if direction == "bidirectional" else 1, batch_first)
    reverse = [direction == "reverse"] if layer.directions == 1 else [False, True]
    states = [_direction(ctx, call, layer, k, r, batch_first) for k, r in enumerate(reverse)]
    steps = layer.x.shape[0]
    ended = _ended_mask(ctx, layer)
    zero = ctx.number(0, layer.x.dtype)
    outputs = [ctx.add("where", ended, zero, h) for h, *_ in states]
    outputs = [_reversed(ctx, y, layer) if r else y for y, r in zip(outputs, reverse, strict=True)]
    every = join(ctx, [_lifted(ctx, y, 1) for y in outputs], 1)
    last = [
        join(ctx, [_lifted(ctx, _step(ctx, s[part], steps - 1), 0) for s in states], 0)
        for part in range(len(states[0]))
    ]
    if batch_first:
        every = ctx.add("transpose", every, axes=(2, 0, 1, 3))
        last = [ctx.add("transpose", s, axes=(1, 0, 2)) for s in last]
    return [cast(ctx, y, dtype) for y in (every, *last)]


def _layer(ctx: Context, call: Call, directions: int, batch_first: bool) -> _Layer:
    given, r = call.input(0), call.input(2)
    x = cast(ctx, given, wider(given))
    if x.rank != 3 or r.rank != 3 or r.shape[0] != directions or call.input(1).shape[0] != directions:
        raise ModelError(f"x {given.value.type_text} and r {r.value.type_text} do not make {directions} direction(s)")
    x = ctx.add("transpose", x, axes=(1, 0, 2)) if batch_first else x
    hidden, gates = r.shape[2], _GATES[call.op]
    if call.attrs.integer("hidden_size", hidden) != hidden or r.shape[1] != gates * hidden:
        raise ModelError(f"r {r.value.type_text} does not have {gates} gates of the hidden size")
    clip = call.attrs.number("clip") if "clip" in call.attrs else None
    lengths = call.optional(4)
    steps, batch, _ = x.shape
    if lengths is None:
        lengths = ctx.add("full", shape=(batch,), value=steps, dtype="int64")
    return _Layer(x, cast(ctx, lengths, dtypes.int64), hidden, directions, clip, gates)


def _direction(
    ctx: Context, call: Call, layer: _Layer, number: int, reverse: bool, batch_first: bool
) -> tuple[Operand, ...]:
    """States after each step, in the order in which they are made; for LSTM the cells too."""
    wide = layer.x.dtype
    x = _reversed(ctx, layer.x, layer) if reverse else layer.x
    w, r = (_part(ctx, cast(ctx, call.input(k), wide), number) for k in (1, 2))
    pre = ctx.add("matmul", x, ctx.add("transpose", w, axes=(1, 0)))
    linear = call.op == "GRU" and call.attrs.flag("linear_before_reset")
    size, extras = layer.gates * layer.hidden, list[Operand]()
    if (bias := call.optional(3)) is not None:
        both = _part(ctx, cast(ctx, bias, wide), number)
        own, state = (take_slice(ctx, both, {0: (start, 1, size)}) for start in (0, size))
        pre = ctx.add("add", pre, own)
        shared = 2 * layer.hidden if linear else size
        part = take_slice(ctx, state, {0: (0, 1, shared)})
        pre = ctx.add("add", pre, pad_or_crop(ctx, part, (0,), (size - shared,), ctx.number(0, wide)))
        if linear:
            extras = [take_slice(ctx, state, {0: (shared, 1, layer.hidden)})]
    elif linear:
        extras = [ctx.add("full", shape=(layer.hidden,), value=0, dtype=wide.name)]
    starts = [_start(ctx, call, layer, 5, number, batch_first)]
    attrs = {"activations": _activations(call, number), "clip": layer.clip}
    if call.op == "RNN":
        return (ctx.add("rnn", pre, r, layer.lengths, *starts, **attrs),)
    if call.op == "GRU":
        return (ctx.add("gru", pre, r, layer.lengths, *starts, *extras, linear_before_reset=linear, **attrs),)
    if call.attrs.flag("input_forget"):
        raise UnsupportedError("LSTM with input_forget=1")
    starts.append(_start(ctx, call, layer, 6, number, batch_first))
    if (peepholes := call.optional(7)) is not None:
        extras = [_part(ctx, cast(ctx, peepholes, wide), number)]
    return ctx.add_multi("lstm", (pre, r, layer.lengths, *starts, *extras), attrs)


def _activations(call: Call, number: int) -> tuple[str, ...]:
    defaults = _DEFAULTS[call.op]
    names = defaults
    if "activations" in call.attrs:
        given = call.attrs.texts("activations")
        names = given[number * len(defaults) : (number + 1) * len(defaults)]
    call.attrs.ignore("activation_alpha", "activation_beta")  # the functions that are supported have none
    unknown = [n for n in names if n.lower() not in _ACTIVATIONS]
    if unknown or len(names) != len(defaults):
        raise UnsupportedError(f"activations {names}", hint=f"supported are {', '.join(_ACTIVATIONS)}")
    return tuple(_ACTIVATIONS[n.lower()] for n in names)


def _start(ctx: Context, call: Call, layer: _Layer, position: int, number: int, batch_first: bool) -> Operand:
    given, batch = call.optional(position), layer.x.shape[1]
    if given is None:
        return ctx.add("full", shape=(batch, layer.hidden), value=0, dtype=layer.x.dtype.name)
    if batch_first:
        given = ctx.add("transpose", given, axes=(1, 0, 2))
    return _part(ctx, cast(ctx, given, layer.x.dtype), number)


def _part(ctx: Context, x: Operand, number: int) -> Operand:
    """What belongs to one direction: a slice of the first axis."""
    return _step(ctx, x, number)


def _step(ctx: Context, x: Operand, position: int) -> Operand:
    """`x[position]`."""
    return ctx.add("reshape", take_slice(ctx, x, {0: (position, 1, 1)}), shape=x.shape[1:])


def _lifted(ctx: Context, x: Operand, axis: int) -> Operand:
    return ctx.add("reshape", x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))


def _times(ctx: Context, layer: _Layer) -> tuple[Operand, Operand]:
    """Steps as [t, 1, 1] and lengths as [1, b, 1]."""
    steps, batch, _ = layer.x.shape
    counted = ctx.add("arange", start=0, step=1, size=steps, dtype="int64")
    lengths = ctx.add("reshape", layer.lengths, shape=(1, batch, 1))
    return ctx.add("reshape", counted, shape=(steps, 1, 1)), lengths


def _ended_mask(ctx: Context, layer: _Layer) -> Operand:
    """Which steps lie past the end of their sequence."""
    steps, lengths = _times(ctx, layer)
    return ctx.add("le", lengths, steps)


def _reversed(ctx: Context, x: Operand, layer: _Layer) -> Operand:
    """Each sequence backwards, within its length."""
    steps, lengths = _times(ctx, layer)
    mirrored = ctx.add("sub", ctx.add("sub", lengths, ctx.number(1, dtypes.int64)), steps)
    return ctx.add("take_along", x, ctx.add("where", ctx.add("lt", steps, lengths), mirrored, steps), axis=0)
