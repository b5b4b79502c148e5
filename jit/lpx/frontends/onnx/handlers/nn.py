"""Operators of neural networks: convolution, pooling, matrix products, softmax."""

from __future__ import annotations

from math import prod

from lpx.errors import ModelError
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.elementwise import cast
from lpx.frontends.onnx.handlers.reduction import average, wider
from lpx.frontends.onnx.handlers.registry import Call, handles
from lpx.frontends.onnx.handlers.windows import Windows, ceil_padding, read_windows
from lpx.graph import shapes, transposed
from lpx.records import replace


def per_channel(ctx: Context, x: Operand, rank: int) -> Operand:
    """`x[C]` so that it broadcasts along axis 1 of a tensor of this rank."""
    if x.rank != 1:
        raise ModelError(f"{x.value.type_text} should hold one number per channel")
    return ctx.add("reshape", x, shape=(*x.shape, *(1,) * (rank - 2)))


@handles("Conv")
def conv(ctx: Context, call: Call) -> Operand:
    """Convolution of x[N, C, spatial...] with w[M, C/group, kernel...], and a bias per filter."""
    x, w, bias = call.input(0), call.input(1), call.optional(2)
    if w.rank != x.rank:
        raise ModelError(f"input {x.value.type_text} and weights {w.value.type_text} differ in rank")
    result = convolve(ctx, x, w, read_windows(call, x, w.shape[2:]), call.attrs.integer("group", 1))
    return result if bias is None else ctx.add("add", result, per_channel(ctx, bias, x.rank))


def convolve(ctx: Context, x: Operand, w: Operand, windows: Windows, groups: int) -> Operand:
    """A convolution whose last axis is worth vectorizing: without axes that do nothing, if that is one of them."""
    idle = windows.idle_axes(x.shape[2:])
    if x.rank - 3 not in idle or len(idle) == x.rank - 2:
        return ctx.add("conv", x, w, groups=groups, **windows.attrs())
    squeezed = [
        ctx.add("reshape", t, shape=tuple(d for axis, d in enumerate(t.shape) if axis - 2 not in idle)) for t in (x, w)
    ]
    result = ctx.add("conv", *squeezed, groups=groups, **windows.without(idle).attrs())
    rest = iter(result.shape[2:])
    spatial = (1 if axis in idle else next(rest) for axis in range(x.rank - 2))
    return ctx.add("reshape", result, shape=(*result.shape[:2], *spatial))


@handles("ConvTranspose")
def conv_transpose(ctx: Context, call: Call) -> Operand:
    """The transposed convolution, with a bias per filter."""
    x, w, bias = call.input(0), call.input(1), call.optional(2)
    if w.rank != x.rank:
        raise ModelError(f"input {x.value.type_text} and weights {w.value.type_text} differ in rank")
    groups = call.attrs.integer("group", 1)
    windows = read_windows(call, x, w.shape[2:])
    extra = call.attrs.integers("output_padding", (0,) * (x.rank - 2))
    windows, extra = _transposed_padding(call, windows, x, extra)
    after = tuple(a - e for a, e in zip(windows.after, extra, strict=True))
    cut = transposed.Windows(windows.strides, windows.dilations, windows.before, after)
    result = transposed.convolve_transposed(ctx, x, w, cut, groups)
    return result if bias is None else ctx.add("add", result, per_channel(ctx, bias, x.rank))


def _transposed_padding(call: Call, w: Windows, x: Operand, extra: tuple[int, ...]) -> tuple[Windows, tuple[int, ...]]:
    """Padding of a transposed convolution: given, or such that the output has the shape that is asked for."""
    full = [(d - 1) * w.strides[a] + w.span(a) + extra[a] for a, d in enumerate(x.shape[2:])]
    if "output_shape" in call.attrs:
        wanted = call.attrs.integers("output_shape")[-len(full) :]
    elif w.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(d * s for d, s in zip(x.shape[2:], w.strides, strict=True))
    else:
        return w, extra
    totals = [f - o for f, o in zip(full, wanted, strict=True)]
    cut = [max(t, 0) for t in totals]
    grown = tuple(e + max(-t, 0) for e, t in zip(extra, totals, strict=True))
    small, large = tuple(t // 2 for t in cut), tuple(t - t // 2 for t in cut)
    before, after = (small, large) if w.auto_pad == "SAME_UPPER" else (large, small)
    return replace(w, before=before, after=after), grown


@handles("MaxPool")
def max_pool(ctx: Context, call: Call) -> tuple[Operand, ...]:
    """Window maxima; padding never wins."""
    x = call.input(0)
    windows = read_windows(call, x, None)
    ceil, column_major = call.attrs.flag("ceil_mode"), call.attrs.flag("storage_order")
    if ceil and windows.auto_pad == "NOTSET":
        windows = replace(windows, after=ceil_padding(windows, x.shape[2:]))
    values = ctx.add("max_pool", x, kernel=windows.kernel, **windows.attrs())
    if not call.wants(1):
        return (values,)
    found = ctx.add("max_pool_indices", x, kernel=windows.kernel, column_major=column_major, **windows.attrs())
    return values, found


@handles("AveragePool")
def average_pool(ctx: Context, call: Call) -> Operand:
    """Window means, over taps inside the data or, with `count_include_pad`, inside data and padding."""
    x = call.input(0)
    windows = read_windows(call, x, None)
    counted = windows.after
    if call.attrs.flag("ceil_mode") and windows.auto_pad == "NOTSET":
        windows = replace(windows, after=ceil_padding(windows, x.shape[2:]))
    count = call.attrs.flag("count_include_pad")
    return ctx.add("avg_pool", x, kernel=windows.kernel, counted_after=counted, count_padding=count, **windows.attrs())


@handles("GlobalAveragePool")
def global_average_pool(ctx: Context, call: Call) -> Operand:
    """The mean of each channel."""
    x = call.input(0)
    wide = wider(x)
    return cast(ctx, average(ctx, cast(ctx, x, wide), tuple(range(2, x.rank)), True), x.dtype)


@handles("GlobalMaxPool")
def global_max_pool(ctx: Context, call: Call) -> Operand:
    """The maximum of each channel."""
    x = call.input(0)
    return ctx.add("reduce_max", x, axes=tuple(range(2, x.rank)), keepdims=True)


@handles("MatMul")
def matmul(ctx: Context, call: Call) -> Operand:
    """NumPy's matmul."""
    return ctx.add("matmul", call.input(0), call.input(1))


@handles("Gemm")
def gemm(ctx: Context, call: Call) -> Operand:
    """alpha * A' B' + beta * C."""
    a, b, c = call.input(0), call.input(1), call.optional(2)
    call.attrs.ignore("broadcast")
    if a.rank != 2 or b.rank != 2:
        raise ModelError(f"Gemm of {a.value.type_text} and {b.value.type_text}")
    if call.attrs.flag("transA"):
        a = ctx.add("transpose", a, axes=(1, 0))
    if call.attrs.flag("transB"):
        b = ctx.add("transpose", b, axes=(1, 0))
    result = scaled(ctx, ctx.add("matmul", a, b), call.attrs.number("alpha", 1.0))
    beta = call.attrs.number("beta", 1.0)
    return result if c is None or beta == 0 else ctx.add("add", result, scaled(ctx, c, beta))


def scaled(ctx: Context, x: Operand, factor: float) -> Operand:
    """`x` times a number; itself for 1. Integers take the whole part of it."""
    if factor == 1:
        return x
    return ctx.add("mul", x, ctx.number(factor if x.dtype.is_float else int(factor), x.dtype))


@handles("Softmax", "LogSoftmax")
def softmax(ctx: Context, call: Call) -> Operand:
    """Along one axis; before operator set 13 over all axes from `axis` on."""
    x, log = call.input(0), call.op == "LogSoftmax"
    if call.version >= 13:
        return ctx.add("softmax", x, axis=shapes.normalize_axis(call.attrs.integer("axis", -1), x.rank), log=log)
    axis = call.attrs.integer("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    if axis == x.rank - 1:
        return ctx.add("softmax", x, axis=axis, log=log)
    rows = ctx.add("reshape", x, shape=(prod(x.shape[:axis]), prod(x.shape[axis:])))
    return ctx.add("reshape", ctx.add("softmax", rows, axis=1, log=log), shape=x.shape)


@handles("LpPool")
def lp_pool(ctx: Context, call: Call) -> Operand:
    """The p-norm of each window: sums of |x| ** p are window means over a constant count, times that count."""
    x, p = call.input(0), call.attrs.integer("p", 2)
    windows = read_windows(call, x, None)
    if call.attrs.flag("ceil_mode") and windows.auto_pad == "NOTSET":
        windows = replace(windows, after=ceil_padding(windows, x.shape[2:]))
    powers = raised(ctx, ctx.add("abs", x), p)
    means = ctx.add(
        "avg_pool",
        powers,
        kernel=windows.kernel,
        counted_after=windows.after,
        count_padding=True,
        **windows.attrs(),
    )
    return rooted(ctx, scaled(ctx, means, prod(windows.kernel)), p)


@handles("GlobalLpPool")
def global_lp_pool(ctx: Context, call: Call) -> Operand:
    """The p-norm of each channel."""
    x, p = call.input(0), call.attrs.integer("p", 2)
    powers = raised(ctx, ctx.add("abs", x), p)
    return rooted(ctx, ctx.add("reduce_sum", powers, axes=tuple(range(2, x.rank)), keepdims=True), p)


def raised(ctx: Context, x: Operand, p: int) -> Operand:
    """`x ** p` of floats."""
    if p == 1:
        return x
    return ctx.add("mul", x, x) if p == 2 else ctx.add("pow", x, ctx.number(p, x.dtype))


def rooted(ctx: Context, x: Operand, p: int) -> Operand:
    """`x ** (1 / p)` of floats."""
    if p == 1:
        return x
    return ctx.add("sqrt", x) if p == 2 else ctx.add("pow", x, ctx.number(1 / p, x.dtype))
