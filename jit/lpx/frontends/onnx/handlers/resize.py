"""Resize and Upsample: each axis is resampled by itself, by a table of places and weights made here.

The tables follow the specification of Resize (operator set 19): where an output element lies in the input, which input
elements are near it, and how they are weighted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from lpx.errors import ModelError
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.reduction import wider
from lpx.frontends.onnx.handlers.registry import Call, handles
from lpx.graph import shapes
from lpx.records import record

_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@record
class _Rule:
    """How elements are interpolated, the same for all axes."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude_outside: bool
    antialias: bool


@record
class _Axis:
    """One axis: extents before and after, the scale, and the part of it that is resized (tf_crop_and_resize)."""

    before: int
    after: int
    scale: float
    start: float = 0.0
    end: float = 1.0


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
    rule = _Rule(mode.removeprefix("bi"), "asymmetric", "floor", -0.75, False, False)
    return _resample(ctx, x, [_scaled_axis(d, s) for d, s in zip(x.shape, factors, strict=True)], rule, 0.0)


def _rule(call: Call) -> _Rule:
    attrs = call.attrs
    mode = attrs.text("mode", "nearest", legal=("nearest", "linear", "cubic"))
    if call.version < 11:
        return _Rule(mode, "asymmetric", "floor", -0.75, False, False)
    return _Rule(
        mode,
        attrs.text("coordinate_transformation_mode", "half_pixel", legal=_COORDINATES),
        attrs.text("nearest_mode", "round_prefer_floor", legal=_NEAREST),
        attrs.number("cubic_coeff_a", -0.75),
        attrs.flag("exclude_outside"),
        attrs.flag("antialias"),
    )


def _axes(ctx: Context, call: Call, x: Operand) -> list[_Axis]:
    """Extents and scales of every axis."""
    roi = call.optional(1) if call.version >= 11 else None
    scales = call.optional(2 if call.version >= 11 else 1)
    sizes = call.optional(3) if call.version >= 11 else None
    named = call.attrs.integers("axes", tuple(range(x.rank)))
    places = [shapes.normalize_axis(a, x.rank) for a in named]
    policy = call.attrs.text("keep_aspect_ratio_policy", "stretch", legal=("stretch", "not_larger", "not_smaller"))
    found = [_Axis(d, d, 1.0) for d in x.shape]
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
        made = [_Axis(m.before, m.after, m.scale, bounds[k], bounds[k + len(places)]) for k, m in enumerate(made)]
    for a, axis in zip(places, made, strict=True):
        found[a] = axis
    return found


def _scaled_axis(extent: int, scale: float) -> _Axis:
    if scale <= 0 or not math.isfinite(scale):
        raise ModelError(f"a scale of {scale}")
    return _Axis(extent, math.floor(extent * scale), scale)


def _sized_axes(extents: Sequence[int], wanted: Sequence[int], policy: str) -> list[_Axis]:
    if len(wanted) != len(extents) or any(w < 0 for w in wanted) or not all(extents):
        raise ModelError(f"cannot resize extents {tuple(extents)} to {tuple(wanted)}")
    scales = [w / d for w, d in zip(wanted, extents, strict=True)]
    if policy == "stretch":
        return [_Axis(d, w, s) for d, w, s in zip(extents, wanted, scales, strict=True)]
    common = min(scales) if policy == "not_larger" else max(scales)
    return [_Axis(d, math.floor(common * d + 0.5), common) for d in extents]


def _resample(ctx: Context, x: Operand, axes: Sequence[_Axis], rule: _Rule, outside: float) -> Operand:
    inside: Operand | None = None
    for number, axis in enumerate(axes):
        if rule.coordinates == "tf_crop_and_resize":
            mask = _inside_mask(ctx, axis, rule, (1,) * (x.rank - 1 - number))
            inside = mask if inside is None else ctx.add("bitand", inside, mask)
        x = _resample_axis(ctx, x, number, axis, rule)
    return x if inside is None else ctx.add("where", inside, x, ctx.number(outside, x.dtype))


def _inside_mask(ctx: Context, axis: _Axis, rule: _Rule, trailing: tuple[int, ...]) -> Operand:
    """Which output elements lie inside the input along an axis."""
    held = [0 <= _position(i, axis, rule.coordinates) <= axis.before - 1 for i in range(axis.after)]
    return ctx.constant(np.array(held).reshape(-1, *trailing))


def _resample_axis(ctx: Context, x: Operand, number: int, axis: _Axis, rule: _Rule) -> Operand:
    table = [_taps(i, axis, rule) for i in range(axis.after)]
    if axis.before == axis.after and all(taps == [(i, 1.0)] for i, taps in enumerate(table)):
        return x
    if all(len(taps) == 1 for taps in table):
        places = [taps[0][0] for taps in table]
        factor = axis.after // axis.before if axis.before else 0
        if factor and places == [i // factor for i in range(axis.before * factor)]:
            return _repeat_elements(ctx, x, number, factor)
        return ctx.add("gather", x, ctx.constant(np.array(places, np.int64)), axes=(number,))
    width = max(len(taps) for taps in table)
    padded = [taps + [(0, 0.0)] * (width - len(taps)) for taps in table]
    places_table = np.array([[place for place, _ in taps] for taps in padded], np.int64)
    weights = np.array([[weight for _, weight in taps] for taps in padded], np.float64)
    wide = wider(x).to_numpy()
    return ctx.add("resample", x, ctx.constant(places_table), ctx.constant(weights.astype(wide)), axis=number)


def _repeat_elements(ctx: Context, x: Operand, number: int, factor: int) -> Operand:
    shape = x.shape
    lifted = ctx.add("reshape", x, shape=(*shape[: number + 1], 1, *shape[number + 1 :]))
    wide = ctx.add("broadcast", lifted, shape=(*shape[: number + 1], factor, *shape[number + 1 :]))
    return ctx.add("reshape", wide, shape=(*shape[:number], shape[number] * factor, *shape[number + 1 :]))


def _taps(i: int, axis: _Axis, rule: _Rule) -> list[tuple[int, float]]:
    """Places in the input, clamped to it, and their weights, for output element `i`."""
    position = _position(i, axis, rule.coordinates)
    base = math.ceil(position) - 1  # the neighbour on the left; `ratio` is above 0 and at most 1
    ratio = position - base
    if rule.mode == "nearest":
        return [(_clamp(base + _nearest_step(ratio, rule.nearest), axis), 1.0)]
    shrink = min(axis.scale, 1.0) if rule.antialias else 1.0
    reach = 1 if rule.mode == "linear" else 2
    first = math.floor(-reach / shrink) + 1
    kernel: Callable[[float], float] = _linear if rule.mode == "linear" else lambda d: _cubic(d, rule.cubic)
    weighted = [(base + k, kernel(abs(k - ratio) * shrink)) for k in range(first, 2 - first)]
    if rule.exclude_outside:
        weighted = [(p, w if 0 <= p < axis.before else 0.0) for p, w in weighted]
    total = sum(w for _, w in weighted) if rule.exclude_outside or rule.antialias else 1.0
    merged: dict[int, float] = {}
    for place, weight in weighted:
        if weight:
            merged[_clamp(place, axis)] = merged.get(_clamp(place, axis), 0.0) + weight / total
    return list(merged.items())


def _position(i: int, axis: _Axis, coordinates: str) -> float:
    """Where output element `i` lies among the input elements."""
    full = axis.scale * axis.before
    match coordinates:
        case "asymmetric":
            return i / axis.scale
        case "align_corners":
            return 0.0 if full == 1 else i * (axis.before - 1) / (full - 1)
        case "pytorch_half_pixel" if axis.after == 1:
            return 0.0
        case "half_pixel_symmetric":
            return axis.before / 2 * (1 - axis.after / full) + (i + 0.5) / axis.scale - 0.5
        case "tf_crop_and_resize":
            if axis.after == 1:
                return (axis.start + axis.end) / 2 * (axis.before - 1)
            step = (axis.end - axis.start) * (axis.before - 1) / (axis.after - 1)
            return axis.start * (axis.before - 1) + i * step
        case _:
            return (i + 0.5) / axis.scale - 0.5


def _nearest_step(ratio: float, mode: str) -> int:
    if ratio == 1:
        return 1
    match mode:
        case "floor":
            return 0
        case "ceil":
            return 1
        case "round_prefer_floor":
            return int(ratio > 0.5)
        case _:
            return int(ratio >= 0.5)


def _linear(distance: float) -> float:
    return max(1 - distance, 0.0)


def _cubic(distance: float, a: float) -> float:
    """Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981."""
    if distance <= 1:
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1
    if distance < 2:
        return ((distance - 5) * distance + 8) * distance * a - 4 * a
    return 0.0


def _clamp(place: int, axis: _Axis) -> int:
    return min(max(place, 0), axis.before - 1)
