"""Convolution of signals, images and volumes: [batch, channels, spatial...]."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.frontends.numpy.trace import TracedArray
from lpx.graph.transposed import Windows, convolve_transposed
from lpx.nn.activations import Activation, activated
from lpx.nn.primitive import Array, check_rank, per_axis, per_channel, primitive, same_dtype, traced

PerAxis = int | Sequence[int]
"""One number for all spatial axes, or one for each."""

_LAYOUTS = {"conv1d": "channels length", "conv2d": "channels height width", "conv3d": "channels depth height width"}


@primitive
def conv1d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    activation: Activation | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """activation(convolution + bias) of signals x[n, c, l] with weight[m, c / groups, k] and bias[m]; see `conv2d`."""
    return _convolution("conv1d", x, weight, bias, (stride, padding, dilation), groups, activation)


@primitive
def conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    activation: Activation | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """activation(convolution + bias) of x[n, c, h, w] with weight[m, c / groups, kh, kw] and bias[m]: [n, m, oh, ow].

    It is cross-correlation, padded with zeros on both sides of each axis, so that
    oh = (h + 2 padding - dilation (kh - 1) - 1) // stride + 1. With as many groups as channels it is depthwise. Sums
    are kept in float32 for narrower floats.

    Raises: DTypeError, ShapeError.
    """
    return _convolution("conv2d", x, weight, bias, (stride, padding, dilation), groups, activation)


@primitive
def conv3d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    activation: Activation | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """activation(convolution + bias) of volumes x[n, c, d, h, w] with weight[m, c / groups, kd, kh, kw] and bias[m].

    See `conv2d`.
    """
    return _convolution("conv3d", x, weight, bias, (stride, padding, dilation), groups, activation)


def _convolution(
    name: str,
    x: Array,
    weight: Array,
    bias: Array | None,
    windows: tuple[PerAxis, PerAxis, PerAxis],
    groups: int,
    activation: Activation | None,
) -> TracedArray:
    image, filters = traced(x, weight)
    check_rank(name, image, f"batch {_LAYOUTS[name]}")
    check_rank(name, filters, f"filters {_LAYOUTS[name]}")
    same_dtype(name, image, filters)
    strides, pads, dilations = _windows(windows, image.ndim - 2)
    attrs = {"strides": strides, "dilations": dilations, "pads_before": pads, "pads_after": pads, "groups": groups}
    return _finished(name, image.owner.add("conv", image, filters, **attrs), bias, activation)


def _windows(windows: tuple[PerAxis, PerAxis, PerAxis], count: int) -> list[tuple[int, ...]]:
    """Stride, padding and dilation per spatial axis."""
    names = (("stride", 1), ("padding", 0), ("dilation", 1))
    return [per_axis(value, count, name, least) for value, (name, least) in zip(windows, names, strict=True)]


def _finished(name: str, made: TracedArray, bias: Array | None, activation: Activation | None) -> TracedArray:
    if bias is not None:
        made = made.owner.add("add", made, per_channel(name, made, bias))
    return activated(made, activation)


@primitive
def conv_transpose2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    output_padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    activation: Activation | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """activation(transposed convolution + bias) of x[n, c, h, w] with weight[c, m / groups, kh, kw] and bias[m].

    The result is [n, m, oh, ow] with oh = (h - 1) stride - 2 padding + dilation (kh - 1) + 1 + output_padding: each
    element of x adds its multiple of the weights at `stride` times its place. It undoes the shape of `conv2d`.

    Raises: DTypeError, ShapeError.
    """
    image, filters = traced(x, weight)
    check_rank("conv_transpose2d", image, "batch channels height width")
    check_rank("conv_transpose2d", filters, "channels filters height width")
    same_dtype("conv_transpose2d", image, filters)
    strides, pads, dilations = _windows((stride, padding, dilation), 2)
    extra = per_axis(output_padding, 2, "output_padding")
    after = tuple(p - e for p, e in zip(pads, extra, strict=True))
    made = convolve_transposed(image.owner, image, filters, Windows(strides, dilations, pads, after), groups)
    return _finished("conv_transpose2d", made, bias, activation)
