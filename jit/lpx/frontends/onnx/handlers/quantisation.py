"""Quantised tensors: to and from integers, and products of integers."""

from __future__ import annotations

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import ModelError, UnsupportedError
from lpx.frontends.onnx import tensors
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.elementwise import cast, clamped
from lpx.frontends.onnx.handlers.nn import convolve
from lpx.frontends.onnx.handlers.registry import Call, handles
from lpx.frontends.onnx.handlers.shape import take_slice
from lpx.frontends.onnx.handlers.windows import read_windows
from lpx.graph import shapes


@handles("QuantizeLinear")
def quantize_linear(ctx: Context, call: Call) -> Operand:
    """saturate(round(x / scale) + zero_point), with ties to even; `scale` per tensor, per axis or per block."""
    x, scale, zero = call.input(0), call.input(1), call.optional(2)
    call.attrs.ignore("saturate")
    precision = call.attrs.integer("precision", 0)
    code = call.attrs.integer("output_dtype", 0)
    dtype = zero.dtype if zero is not None else tensors.dtype_of(code, "output_dtype") if code else dtypes.uint8
    wide = dtypes.float32 if not precision else tensors.dtype_of(precision, "precision")
    if not dtype.is_integer:
        return _quantize_float(ctx, call, x, scale, dtype)
    axis, block = call.attrs.integer("axis", 1), call.attrs.integer("block_size", 0)
    divisor = _spread(ctx, scale, x, axis, block)
    if scale.dtype.bits < 32 and not precision:  # divide as float16 rounds, so that ties are where the model saw them
        wide = scale.dtype
    quotient = ctx.add("div", cast(ctx, x, wide), cast(ctx, divisor, wide))
    offset = None if zero is None else _spread(ctx, zero, x, axis, block)
    return saturate(ctx, ctx.add("rint", cast(ctx, quotient, dtypes.float32)), offset, dtype)


def saturate(ctx: Context, whole: Operand, zero: Operand | None, dtype: DType) -> Operand:
    """Whole floats plus a zero point, clamped to an integer dtype."""
    total = whole if zero is None else ctx.add("add", whole, cast(ctx, zero, whole.dtype))
    return cast(ctx, cast(ctx, clamped(ctx, total, dtype), dtypes.int32), dtype)


def _quantize_float(ctx: Context, call: Call, x: Operand, scale: Operand, dtype: DType) -> Operand:
    """To an 8-bit float: a division and a rounding, saturated to the largest number."""
    axis, block = call.attrs.integer("axis", 1), call.attrs.integer("block_size", 0)
    wide = dtypes.float32
    quotient = ctx.add("div", cast(ctx, x, wide), cast(ctx, _spread(ctx, scale, x, axis, block), wide))
    return cast(ctx, clamped(ctx, quotient, dtype), dtype)


@handles("DequantizeLinear")
def dequantize_linear(ctx: Context, call: Call) -> Operand:
    """(x - zero_point) * scale."""
    x, scale, zero = call.input(0), call.input(1), call.optional(2)
    axis, block = call.attrs.integer("axis", 1), call.attrs.integer("block_size", 0)
    code = call.attrs.integer("output_dtype", 0)
    dtype = tensors.dtype_of(code, "output_dtype") if code else scale.dtype
    wide = dtypes.float32
    difference = cast(ctx, x, dtypes.int32 if x.dtype.is_integer else wide)
    if zero is not None and x.dtype.is_integer:
        difference = ctx.add("sub", difference, cast(ctx, _spread(ctx, zero, x, axis, block), dtypes.int32))
    product = ctx.add("mul", cast(ctx, difference, wide), cast(ctx, _spread(ctx, scale, x, axis, block), wide))
    return cast(ctx, product, dtype)


def _spread(ctx: Context, parameter: Operand, x: Operand, axis: int, block: int) -> Operand:
    """A scale or zero point so that it broadcasts to `x`: per tensor, along an axis, or repeated over blocks of it."""
    if parameter.size == 1 and not block:
        return ctx.add("reshape", parameter, shape=()) if parameter.rank else parameter
    axis = shapes.normalize_axis(axis, x.rank)
    if not block:
        if parameter.shape != x.shape[axis : axis + 1]:
            raise ModelError(f"{parameter.value.type_text} is not one number per element of axis {axis}")
        return ctx.add("reshape", parameter, shape=(*parameter.shape, *(1,) * (x.rank - 1 - axis)))
    shape = parameter.shape
    if parameter.rank != x.rank or -(-x.shape[axis] // block) != shape[axis]:
        raise ModelError(f"{parameter.value.type_text} is not one number per block of {block} on axis {axis}")
    lifted = ctx.add("reshape", parameter, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    wide = ctx.add("broadcast", lifted, shape=(*shape[: axis + 1], block, *shape[axis + 1 :]))
    flat = ctx.add("reshape", wide, shape=(*shape[:axis], shape[axis] * block, *shape[axis + 1 :]))
    return take_slice(ctx, flat, {axis: (0, 1, x.shape[axis])})


@handles("MatMulInteger")
def matmul_integer(ctx: Context, call: Call) -> Operand:
    """(A - a_zero) (B - b_zero) in int32."""
    a, b = call.input(0), call.input(1)
    left = _centred(ctx, a, call.optional(2), -2)
    return ctx.add("matmul", left, _centred(ctx, b, call.optional(3), -1))


def _centred(ctx: Context, x: Operand, zero: Operand | None, axis: int) -> Operand:
    """x - zero in int32; a zero point of rank 1 goes along `axis`."""
    wide = cast(ctx, x, dtypes.int32)
    if zero is None:
        return wide
    if zero.rank == 1 and zero.size > 1 and axis == -2:
        zero = ctx.add("reshape", zero, shape=(*zero.shape, 1))
    return ctx.add("sub", wide, cast(ctx, zero, dtypes.int32))


@handles("ConvInteger")
def conv_integer(ctx: Context, call: Call) -> Operand:
    """A convolution of (x - x_zero) with (w - w_zero) in int32; padding holds x_zero."""
    x, w = call.input(0), call.input(1)
    return _integer_conv(ctx, call, x, call.optional(2), w, call.optional(3))


def _integer_conv(
    ctx: Context, call: Call, x: Operand, x_zero: Operand | None, w: Operand, w_zero: Operand | None
) -> Operand:
    if w.rank != x.rank:
        raise ModelError(f"input {x.value.type_text} and weights {w.value.type_text} differ in rank")
    windows = read_windows(call, x, w.shape[2:])
    if w_zero is not None and w_zero.rank == 1:
        w_zero = ctx.add("reshape", w_zero, shape=(*w_zero.shape, *(1,) * (w.rank - 1)))
    left, right = _centred(ctx, x, x_zero, -1), _centred(ctx, w, w_zero, -1)
    return convolve(ctx, left, right, windows, call.attrs.integer("group", 1))


@handles("QLinearMatMul")
def qlinear_matmul(ctx: Context, call: Call) -> Operand:
    """MatMulInteger, rescaled and saturated."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (call.input(k) for k in range(8))
    total = ctx.add("matmul", _centred(ctx, a, a_zero, -2), _centred(ctx, b, b_zero, -1))
    if a_scale.rank == 1 and a_scale.size > 1:
        a_scale = ctx.add("reshape", a_scale, shape=(*a_scale.shape, 1))
    return _rescaled(ctx, total, (a_scale, b_scale), y_scale, y_zero)


@handles("QLinearConv")
def qlinear_conv(ctx: Context, call: Call) -> Operand:
    """ConvInteger and an int32 bias, rescaled and saturated."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (call.input(k) for k in range(8))
    total, bias = _integer_conv(ctx, call, x, x_zero, w, w_zero), call.optional(8)
    trailing = (1,) * (x.rank - 2)
    if bias is not None:
        total = ctx.add("add", total, ctx.add("reshape", bias, shape=(*bias.shape, *trailing)))
    if w_scale.rank == 1 and w_scale.size > 1:
        w_scale = ctx.add("reshape", w_scale, shape=(*w_scale.shape, *trailing))
    return _rescaled(ctx, total, (x_scale, w_scale), y_scale, y_zero)


def _rescaled(
    ctx: Context, total: Operand, scales: tuple[Operand, Operand], y_scale: Operand, y_zero: Operand
) -> Operand:
    left, right, below = (
        cast(ctx, ctx.add("reshape", s, shape=()) if s.size == 1 else s, dtypes.float32) for s in (*scales, y_scale)
    )
    factor = ctx.add("div", ctx.add("mul", left, right), below)
    scaled = ctx.add("mul", cast(ctx, total, dtypes.float32), factor)
    if y_zero.size != 1:
        raise UnsupportedError("an output zero point per row")
    zero = ctx.add("reshape", y_zero, shape=())
    return saturate(ctx, ctx.add("rint", scaled), zero, y_zero.dtype)
