"""Resize and Upsample: each axis is resampled by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lpx.errors import ModelError
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.registry import Call, handles
from lpx.graph import shapes
from lpx.graph.resampling import Axis, Rule, position, resample_axis

_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@handles("Resize")
def resize(ctx: Context, call: Call) -> Operand:
    """By scales or to sizes, along all axes or some."""
    x = call.input(0)
    rule = _rule(call)
    axes = _axes(ctx, call, x)
    return _resample(ctx, x, axes, rule, call.attrs.number("extrapolation_value", 0.0))


@handles("Upsample")
def upsample(ctx: Context, call: Call) -> Operand:
    """By scales, with input and output aligned at the first element."""
    x = call.input(0)
    mode = call.attrs.text("mode", "nearest", legal=("nearest", "linear", "bilinear"))
    if call.version < 7:
        factors: Sequence[float] = (1.0, 1.0, call.attrs.number("height_scale"), call.attrs.number("width_scale"))
    elif call.version < 9:
        factors = call.attrs.numbers("scales")
    else:
        factors = [float(s) for s in ctx.array(call.input(1), "the scales of Upsample")]
    if len(factors) != x.rank:
        raise ModelError(f"{len(factors)} scales for {x.value.type_text}")
    rule = Rule(mode.removeprefix("bi"), "asymmetric", "floor", -0.75, False, False)
    return _resample(ctx, x, [_scaled_axis(d, s) for d, s in zip(x.shape, factors, strict=True)], rule, 0.0)


def _rule(call: Call) -> Rule:
    attrs = call.attrs
    mode = attrs.text("mode", "nearest", legal=("nearest", "linear", "cubic"))
    if call.version < 11:
        return Rule(mode, "asymmetric", "floor", -0.75, False, False)
    return Rule(
        mode,
        attrs.text("coordinate_transformation_mode", "half_pixel", legal=_COORDINATES),
        attrs.text("nearest_mode", "round_prefer_floor", legal=_NEAREST),
        attrs.number("cubic_coeff_a", -0.75),
        attrs.flag("exclude_outside"),
        attrs.flag("antialias"),
    )


def _axes(ctx: Context, call: Call, x: Operand) -> list[Axis]:
    """Extents and scales of every axis."""
    roi = call.optional(1) if call.version >= 11 else None
    scales = call.optional(2 if call.version >= 11 else 1)
    sizes = call.optional(3) if call.version >= 11 else None
    named = call.attrs.integers("axes", tuple(range(x.rank)))
    places = [shapes.normalize_axis(a, x.rank) for a in named]
    policy = call.attrs.text("keep_aspect_ratio_policy", "stretch", legal=("stretch", "not_larger", "not_smaller"))
    found = [Axis(d, d, 1.0) for d in x.shape]
    if sizes is not None and sizes.size:
        wanted = ctx.integers(sizes, "the sizes of Resize")
        made = _sized_axes([x.shape[a] for a in places], wanted, policy)
    elif scales is not None and scales.size:
        factors = [float(s) for s in ctx.array(scales, "the scales of Resize").reshape(-1)]
        if len(factors) != len(places):
            raise ModelError(f"{len(factors)} scales for {len(places)} axes")
        made = [_scaled_axis(x.shape[a], s) for a, s in zip(places, factors, strict=True)]
    else:
        raise ModelError("Resize has neither scales nor sizes")
    if roi is not None and roi.size and call.attrs.text("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        bounds = [float(v) for v in ctx.array(roi, "the region of Resize").reshape(-1)]
        if len(bounds) != 2 * len(places):
            raise ModelError(f"a region of {len(bounds)} numbers for {len(places)} axes")
        made = [Axis(m.before, m.after, m.scale, bounds[k], bounds[k + len(places)]) for k, m in enumerate(made)]
    for a, axis in zip(places, made, strict=True):
        found[a] = axis
    return found


def _scaled_axis(extent: int, scale: float) -> Axis:
    if scale <= 0 or not math.isfinite(scale):
        raise ModelError(f"a scale of {scale}")
    return Axis(extent, math.floor(extent * scale), scale)


def _sized_axes(extents: Sequence[int], wanted: Sequence[int], policy: str) -> list[Axis]:
    if len(wanted) != len(extents) or any(w < 0 for w in wanted) or not all(extents):
        raise ModelError(f"cannot resize extents {tuple(extents)} to {tuple(wanted)}")
    scales = [w / d for w, d in zip(wanted, extents, strict=True)]
    if policy == "stretch":
        return [Axis(d, w, s) for d, w, s in zip(extents, wanted, scales, strict=True)]
    common = min(scales) if policy == "not_larger" else max(scales)
    return [Axis(d, math.floor(common * d + 0.5), common) for d in extents]


def _resample(ctx: Context, x: Operand, axes: Sequence[Axis], rule: Rule, outside: float) -> Operand:
    inside: Operand | None = None
    for number, axis in enumerate(axes):
        if rule.coordinates == "tf_crop_and_resize":
            mask = _inside_mask(ctx, axis, rule, (1,) * (x.rank - 1 - number))
            inside = mask if inside is None else ctx.add("bitand", inside, mask)
        x = resample_axis(ctx, x, number, axis, rule)
    return x if inside is None else ctx.add("where", inside, x, ctx.number(outside, x.dtype))


def _inside_mask(ctx: Context, axis: Axis, rule: Rule, trailing: tuple[int, ...]) -> Operand:
    """Which output elements lie inside the input along an axis."""
    held = [0 <= position(i, axis, rule.coordinates) <= axis.before - 1 for i in range(axis.after)]
    return ctx.constant(np.array(held).reshape(-1, *trailing))
