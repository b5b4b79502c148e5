"""Neural-network operators made of several computes: activations, softmax, normalisation, pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from lpx import te
from lpx.errors import DTypeError
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.contraction import accumulator, finish, window_count
from lpx.graph.operators.elementwise import elementwise
from lpx.graph.operators.movement import Attrs, Inputs, Outputs, ints, operands, pad
from lpx.graph.operators.reduction import reduce_axes, reduced

_SQRT_HALF = math.sqrt(0.5)


def _relu(x: Expr) -> Expr:
    return build.maximum(x, 0)


def _gelu(x: Expr) -> Expr:
    return x * 0.5 * (build.call("erf", x * _SQRT_HALF) + 1.0)


def _gelu_tanh(x: Expr) -> Expr:
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (build.call("tanh", inner) + 1.0)


def _silu(x: Expr) -> Expr:
    return x * build.call("sigmoid", x)


def _softplus(x: Expr) -> Expr:
    return build.maximum(x, 0.0) + build.call("log1p", build.call("exp", -build.call("abs", x)))


def _hard_sigmoid(x: Expr, alpha: float, beta: float) -> Expr:
    return build.maximum(build.minimum(x * alpha + beta, 1.0), 0.0)


def _leaky_relu(x: Expr, alpha: float) -> Expr:
    return build.select(x < 0.0, x * alpha, x)


def _elu(x: Expr, alpha: float) -> Expr:
    return build.select(x < 0.0, build.call("expm1", x) * alpha, x)


for _name, _scalar in {
    "relu": _relu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
    "softplus": _softplus,
    "hard_sigmoid": _hard_sigmoid,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
}.items():
    elementwise(_name, _scalar)


def _one_float(inputs: Inputs, name: str) -> te.Tensor:
    x = operands(inputs)[0]
    if not x.dtype.is_float:
        raise DTypeError(f"{name} takes floats, not {x.dtype}", hint="cast first")
    return x


def widened(x: te.Tensor) -> te.Tensor:
    """`x` in the dtype its sums are kept in."""
    wide = accumulator(x.dtype)
    return x if wide == x.dtype else te.compute(x.shape, lambda *i: te.cast(x[i], wide), name=f"{x.name}_wide")


def _kept(indices: Sequence[Expr], axes: Sequence[int]) -> tuple[Expr, ...]:
    return tuple(i for a, i in enumerate(indices) if a not in axes)


def _define_softmax(inputs: Inputs, attrs: Attrs) -> Outputs:
    """exp(x - max) / sum along `axis`; `log` gives (x - max) - log(sum)."""
    given = _one_float(inputs, "softmax")
    axes = (shapes.normalize_axis(cast("int", attrs["axis"]), len(given.shape)),)
    x = widened(given)
    largest = reduced(x, axes, False, te.max, "row_max")
    exps = te.compute(x.shape, lambda *i: build.call("exp", x[i] - largest[_kept(i, axes)]), name="exps")
    total = reduced(exps, axes, False, te.sum, "row_sum")

    def probability(*i: Expr) -> Expr:
        return exps[i] / total[_kept(i, axes)]

    def log_probability(*i: Expr) -> Expr:
        return x[i] - largest[_kept(i, axes)] - build.call("log", total[_kept(i, axes)])

    name, at = ("log_softmax", log_probability) if attrs["log"] else ("softmax", probability)
    return (finish(te.compute(x.shape, at, name=name), given.dtype),)


register(Operator("softmax", "reduction", _define_softmax))


def _define_layer_norm(inputs: Inputs, attrs: Attrs) -> Outputs:
    """(x - mean) / sqrt(var + eps) over `axes`, in float32 or wider; variance from the centred values (two passes)."""
    given = _one_float(inputs, "layer_norm")
    x = widened(given)
    axes = shapes.normalize_axes(ints(attrs, "axes"), len(x.shape))
    count = _count(x, axes)
    mean = _divide(reduced(x, axes, False, te.sum, "total"), count, "mean")
    centred = te.compute(x.shape, lambda *i: x[i] - mean[_kept(i, axes)], name="centred")
    axis_list, index = reduce_axes(x, axes)
    squares = te.compute(
        mean.shape, lambda *i: te.sum(centred[index(i)] * centred[index(i)], axis=axis_list), name="squares"
    )
    eps = build.const(attrs["eps"], x.dtype)
    scale = te.compute(
        mean.shape, lambda *i: build.const(1, x.dtype) / build.call("sqrt", squares[i] / count + eps), name="scale"
    )
    normal = te.compute(x.shape, lambda *i: centred[i] * scale[_kept(i, axes)], name="layer_norm")
    return (finish(normal, given.dtype),)


register(Operator("layer_norm", "reduction", _define_layer_norm))


def _define_rms_norm(inputs: Inputs, attrs: Attrs) -> Outputs:
    """x / sqrt(mean(x * x) + eps) over `axes`, in float32 or wider."""
    given = _one_float(inputs, "rms_norm")
    x = widened(given)
    axes = shapes.normalize_axes(ints(attrs, "axes"), len(x.shape))
    count = _count(x, axes)
    axis_list, index = reduce_axes(x, axes)
    kept = tuple(d for a, d in enumerate(x.shape) if a not in axes)
    squares = te.compute(kept, lambda *i: te.sum(x[index(i)] * x[index(i)], axis=axis_list), name="squares")
    eps = build.const(attrs["eps"], x.dtype)
    scale = te.compute(
        kept, lambda *i: build.const(1, x.dtype) / build.call("sqrt", squares[i] / count + eps), name="scale"
    )
    normal = te.compute(x.shape, lambda *i: x[i] * scale[_kept(i, axes)], name="rms_norm")
    return (finish(normal, given.dtype),)


register(Operator("rms_norm", "reduction", _define_rms_norm))


def _count(x: te.Tensor, axes: Sequence[int]) -> Expr:
    total: Expr = build.const(1, "int64")
    for a in axes:
        total = total * build.as_expr(x.shape[a])
    static = math.prod(d for a in axes if isinstance(d := shapes.dim(x.shape[a]), int))
    symbolic = any(not isinstance(shapes.dim(x.shape[a]), int) for a in axes)
    return build.cast(total, x.dtype) if symbolic else build.const(static, x.dtype)


def _divide(x: te.Tensor, count: Expr, name: str) -> te.Tensor:
    return te.compute(x.shape, lambda *i: x[i] / count, name=name)


def _windows(x: te.Tensor, attrs: Attrs, fill: Expr) -> tuple[te.Tensor, list[shapes.Dim]]:
    kernel, strides, dilations = ints(attrs, "kernel"), ints(attrs, "strides"), ints(attrs, "dilations")
    padded = pad(x, (0, 0, *ints(attrs, "pads_before")), (0, 0, *ints(attrs, "pads_after")), fill)
    sizes = [
        window_count(shapes.dim(d), k, s, dil)
        for d, k, s, dil in zip(padded.shape[2:], kernel, strides, dilations, strict=True)
    ]
    return padded, sizes


def _define_max_pool(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Window maxima over the spatial axes of x[N, C, spatial...]; padding never wins."""
    (x,) = operands(inputs)
    lowest = build.const(-math.inf if x.dtype.is_float else x.dtype.min_value, x.dtype)
    padded, sizes = _windows(x, attrs, lowest)
    taps = [te.reduce_axis(k, name=f"k{i}") for i, k in enumerate(ints(attrs, "kernel"))]
    strides, dilations = ints(attrs, "strides"), ints(attrs, "dilations")

    def at(n: Expr, c: Expr, *spatial: Expr) -> Expr:
        places = [p * s + t * d for p, s, t, d in zip(spatial, strides, taps, dilations, strict=True)]
        return te.max(padded[(n, c, *places)], axis=taps)

    return (te.compute((*x.shape[:2], *sizes), at, name="max_pool"),)


register(Operator("max_pool", "reduction", _define_max_pool))


def _define_avg_pool(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Window means over the spatial axes of x[N, C, spatial...].

    A window's divisor is the number of its taps inside the input, or inside input and padding when
    `count_padding`; `pads_after` may reach past the declared padding `counted_after` (ceil mode), which never counts.
    """
    (x,) = operands(inputs)
    kernel, strides, dilations = ints(attrs, "kernel"), ints(attrs, "strides"), ints(attrs, "dilations")
    before, counted_after = ints(attrs, "pads_before"), ints(attrs, "counted_after")
    padded, sizes = _windows(x, attrs, build.const(0, x.dtype))
    taps = [te.reduce_axis(k, name=f"k{i}") for i, k in enumerate(kernel)]
    wide = accumulator(x.dtype)

    def window_sum(n: Expr, c: Expr, *spatial: Expr) -> Expr:
        places = [p * s + t * d for p, s, t, d in zip(spatial, strides, taps, dilations, strict=True)]
        return te.sum(te.cast(padded[(n, c, *places)], wide), axis=taps)

    sums = te.compute((*x.shape[:2], *sizes), window_sum, name="window_sum")

    def count(axis: int, place: Expr) -> Expr:
        low, high = (-before[axis], counted_after[axis]) if attrs["count_padding"] else (0, 0)
        start, dilation = place * strides[axis] - before[axis], dilations[axis]
        end = build.as_expr(x.shape[2 + axis]) + high
        first = build.maximum((low - start + (dilation - 1)) // dilation, 0)
        last = build.minimum((end - start + (dilation - 1)) // dilation, kernel[axis])
        return last - first

    def mean(n: Expr, c: Expr, *spatial: Expr) -> Expr:
        taps_inside: Expr = build.const(1, "int64")
        for axis, place in enumerate(spatial):
            taps_inside = taps_inside * count(axis, place)
        return sums[(n, c, *spatial)] / build.cast(taps_inside, wide)

    return (finish(te.compute(sums.shape, mean, name="avg_pool"), x.dtype),)


register(Operator("avg_pool", "reduction", _define_avg_pool))
