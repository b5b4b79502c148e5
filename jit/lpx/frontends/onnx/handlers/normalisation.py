"""Normalisation: batch, layer, instance, group, local response, Lp."""

from __future__ import annotations

from math import prod

from lpx import dtypes
from lpx.errors import ModelError, UnsupportedError
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.elementwise import cast
from lpx.frontends.onnx.handlers.nn import per_channel, raised, rooted, scaled
from lpx.frontends.onnx.handlers.reduction import average, wider
from lpx.frontends.onnx.handlers.registry import Call, handles
from lpx.graph import shapes


@handles("BatchNormalization")
def batch_normalization(ctx: Context, call: Call) -> Operand:
    """x * factor + shift per channel, with factor = scale / sqrt(var + eps) and shift = bias - mean * factor.

    This rounds elsewhere than (x - mean) * factor + bias does; factor and shift are constants where the statistics are.
    """
    x = call.input(0)
    call.attrs.ignore("momentum", "consumed_inputs")
    spatial = call.attrs.flag("spatial", True)
    trains = call.attrs.flag("training_mode") or (call.version < 7 and not call.attrs.flag("is_test", True))
    if trains:
        raise UnsupportedError("BatchNormalization in training mode", hint="export the model for inference")
    if not spatial:
        raise UnsupportedError("BatchNormalization with spatial=0")
    wide = wider(x)
    scale, bias, mean, var = (cast(ctx, call.input(k), wide) for k in range(1, 5))
    eps = ctx.number(call.attrs.number("epsilon", 1e-5), wide)
    factor = ctx.add("div", scale, ctx.add("sqrt", ctx.add("add", var, eps)))
    shift = ctx.add("sub", bias, ctx.add("mul", mean, factor))
    return cast(
        ctx,
        _affine(ctx, cast(ctx, x, wide), per_channel(ctx, factor, x.rank), per_channel(ctx, shift, x.rank)),
        x.dtype,
    )


def _affine(ctx: Context, x: Operand, scale: Operand | None, bias: Operand | None) -> Operand:
    if scale is not None:
        x = ctx.add("mul", x, scale)
    return x if bias is None else ctx.add("add", x, bias)


@handles("LayerNormalization")
def layer_normalization(ctx: Context, call: Call) -> tuple[Operand, ...]:
    """Normalised over the axes from `axis` on, scaled and shifted."""
    x, scale, bias = call.input(0), call.input(1), call.optional(2)
    axis = shapes.normalize_axis(call.attrs.integer("axis", -1), x.rank)
    eps = call.attrs.number("epsilon", 1e-5)
    if call.attrs.integer("stash_type", 1) != 1:
        raise UnsupportedError("LayerNormalization that does not compute in float32")
    axes = tuple(range(axis, x.rank))
    y = _affine(ctx, ctx.add("layer_norm", x, axes=axes, eps=eps), scale, bias)
    if not call.wants(1) and not call.wants(2):
        return (y,)
    wide = cast(ctx, x, wider(x))
    mean = average(ctx, wide, axes, True)
    centred = ctx.add("sub", wide, mean)
    variance = average(ctx, ctx.add("mul", centred, centred), axes, True)
    deviation = ctx.add("sqrt", ctx.add("add", variance, ctx.number(eps, wide.dtype)))
    inverse = ctx.add("div", ctx.number(1, wide.dtype), deviation)
    return y, cast(ctx, mean, dtypes.float32), cast(ctx, inverse, dtypes.float32)


@handles("RMSNormalization")
def rms_normalization(ctx: Context, call: Call) -> Operand:
    """Divided by the root mean square over the axes from `axis` on, and scaled."""
    x, scale = call.input(0), call.input(1)
    axis = shapes.normalize_axis(call.attrs.integer("axis", -1), x.rank)
    eps = call.attrs.number("epsilon", 1e-5)
    if call.attrs.integer("stash_type", 1) != 1:
        raise UnsupportedError("RMSNormalization that does not compute in float32")
    normal = ctx.add("rms_norm", x, axes=tuple(range(axis, x.rank)), eps=eps)
    return cast(ctx, ctx.add("mul", cast(ctx, normal, scale.dtype), scale), scale.dtype)


@handles("InstanceNormalization")
def instance_normalization(ctx: Context, call: Call) -> Operand:
    """Each channel of each sample by itself."""
    x = call.input(0)
    call.attrs.ignore("consumed_inputs")
    eps = call.attrs.number("epsilon", 1e-5)
    normal = ctx.add("layer_norm", x, axes=tuple(range(2, x.rank)), eps=eps)
    scale, bias = (per_channel(ctx, call.input(k), x.rank) for k in (1, 2))
    return _affine(ctx, normal, scale, bias)


@handles("GroupNormalization")
def group_normalization(ctx: Context, call: Call) -> Operand:
    """Groups of channels of each sample; scale and bias are per group before operator set 21, per channel since."""
    x, scale, bias = call.input(0), call.input(1), call.input(2)
    groups, eps = call.attrs.integer("num_groups"), call.attrs.number("epsilon", 1e-5)
    call.attrs.ignore("stash_type")
    if groups < 1 or x.rank < 2 or x.shape[1] % groups:
        raise ModelError(f"{groups} groups do not divide the channels of {x.value.type_text}")
    size = x.shape[1] // groups
    rows = ctx.add("reshape", x, shape=(x.shape[0], groups, size * prod(x.shape[2:])))
    normal = ctx.add("reshape", ctx.add("layer_norm", rows, axes=(2,), eps=eps), shape=x.shape)
    if call.version < 21:
        scale, bias = (_repeat_each(ctx, v, size) for v in (scale, bias))
    return _affine(ctx, normal, per_channel(ctx, scale, x.rank), per_channel(ctx, bias, x.rank))


def _repeat_each(ctx: Context, x: Operand, times: int) -> Operand:
    (count,) = x.shape
    wide = ctx.add("broadcast", ctx.add("reshape", x, shape=(count, 1)), shape=(count, times))
    return ctx.add("reshape", wide, shape=(count * times,))


@handles("LRN")
def local_response(ctx: Context, call: Call) -> Operand:
    """x / (bias + alpha / size * sum of squares over neighbouring channels) ** beta."""
    x, size = call.input(0), call.attrs.integer("size")
    alpha, beta = call.attrs.number("alpha", 1e-4), call.attrs.number("beta", 0.75)
    bias = call.attrs.number("bias", 1.0)
    squares = ctx.add("mul", x, x)
    rest = (0,) * (x.rank - 2)
    padded = ctx.add(
        "pad",
        squares,
        ctx.number(0, x.dtype),
        before=(0, (size - 1) // 2, *rest),
        after=(0, size - 1 - (size - 1) // 2, *rest),
    )
    total: Operand | None = None
    for k in range(size):
        part = ctx.add("slice", padded, starts=(0, k, *rest), steps=(1,) * x.rank, sizes=x.shape)
        total = part if total is None else ctx.add("add", total, part)
    if total is None:
        raise ModelError(f"LRN over {size} channels")
    level = ctx.add("add", scaled(ctx, total, alpha / size), ctx.number(bias, x.dtype))
    return ctx.add("div", x, ctx.add("pow", level, ctx.number(beta, x.dtype)))


@handles("LpNormalization")
def lp_normalization(ctx: Context, call: Call) -> Operand:
    """x divided by its p-norm along an axis; 0 where that norm is 0."""
    x, p = call.input(0), call.attrs.integer("p", 2)
    axis = shapes.normalize_axis(call.attrs.integer("axis", -1), x.rank)
    powers = raised(ctx, ctx.add("abs", x), p)
    norm = rooted(ctx, ctx.add("reduce_sum", powers, axes=(axis,), keepdims=True), p)
    zero = ctx.number(0, x.dtype)
    return ctx.add("where", ctx.add("eq", norm, zero), zero, ctx.add("div", x, norm))
