"""Pad: constant, edge, reflect, wrap; negative amounts cut."""

from __future__ import annotations

from lpx.errors import ModelError
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.registry import Call, handles
from lpx.graph import shapes
from lpx.graph.composing import pad_or_crop


@handles("Pad")
def pad(ctx: Context, call: Call) -> Operand:
    """Amounts before and after each axis, or each of `axes`."""
    x = call.input(0)
    mode = call.attrs.text("mode", "constant", legal=("constant", "edge", "reflect", "wrap"))
    before, after = _amounts(ctx, call, x)
    fill = _fill_value(ctx, call, x)
    if mode == "constant":
        return pad_or_crop(ctx, x, before, after, fill)
    cut = pad_or_crop(ctx, x, tuple(min(b, 0) for b in before), tuple(min(a, 0) for a in after), fill)
    grown_before, grown_after = (tuple(max(v, 0) for v in amounts) for amounts in (before, after))
    if not any((*grown_before, *grown_after)):
        return cut
    return ctx.add("pad_repeating", cut, before=grown_before, after=grown_after, mode=mode)


def _amounts(ctx: Context, call: Call, x: Operand) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if call.version < 11:
        pads = call.attrs.integers("paddings" if call.version < 2 else "pads")
    else:
        pads = ctx.integers(call.input(1), "the pads of Pad")
    given = call.optional(3)
    axes = tuple(range(x.rank)) if given is None else ctx.integers(given, "the axes of Pad")
    places = [shapes.normalize_axis(a, x.rank) for a in axes]
    if len(pads) != 2 * len(places) or len(set(places)) != len(places):
        raise ModelError(f"pads {pads} do not fit the axes {tuple(axes)} of {x.value.type_text}")
    before, after = [0] * x.rank, [0] * x.rank
    for k, axis in enumerate(places):
        before[axis], after[axis] = pads[k], pads[k + len(places)]
    return tuple(before), tuple(after)


def _fill_value(ctx: Context, call: Call, x: Operand) -> Operand:
    if call.version < 11:
        return ctx.number(call.attrs.number("value", 0.0), x.dtype)
    given = call.optional(2)
    if given is None:
        return ctx.number(0, x.dtype)
    return ctx.add("reshape", given, shape=()) if given.rank else given
