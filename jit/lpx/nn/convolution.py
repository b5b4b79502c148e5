"""Convolution and pooling of images [batch, channels, height, width]."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.errors import ShapeError
from lpx.frontends.numpy.functions.shaping import reshaped
from lpx.frontends.numpy.trace import TracedArray
from lpx.graph import shapes
from lpx.nn.activations import Activation, activated
from lpx.nn.primitive import Array, check_rank, floats, pair, primitive, same_dtype, traced
from lpx.source import capture

Pair = int | Sequence[int]
"""One number for height and width, or two."""


@primitive
def conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    activation: Activation | None = None,
) -> Array:
    """activation(convolution + bias) of x[n, c, h, w] with weight[m, c / groups, kh, kw] and bias[m]: [n, m, oh, ow].

    It is cross-correlation, padded with zeros on both sides of each axis, so that
    oh = (h + 2 padding - dilation (kh - 1) - 1) // stride + 1. Sums are kept in float32 for narrower floats.

    Raises: DTypeError, ShapeError.
    """
    image, filters = traced(x, weight)
    check_rank("conv2d", image, "batch channels height width")
    check_rank("conv2d", filters, "filters channels height width")
    same_dtype("conv2d", image, filters)
    pads = pair(padding, "padding")
    made = image.owner.add(
        "conv",
        image,
        filters,
        strides=_positive(pair(stride, "stride"), "stride"),
        dilations=_positive(pair(dilation, "dilation"), "dilation"),
        pads_before=pads,
        pads_after=pads,
        groups=groups,
    )
    if bias is not None:
        made = made.owner.add("add", made, _per_channel(made, bias))
    return activated(made, activation)


def _per_channel(image: TracedArray, bias: Array) -> TracedArray:
    values = image.owner.array(bias)
    same_dtype("conv2d", image, values)
    if values.ndim != 1 or not shapes.same_dim(values.shape[0], image.shape[1]):
        raise ShapeError(
            f"a bias of shape {shapes.shape_text(values.shape)} for {image.shape[1]} filters",
            hint="give one number per filter",
            span=capture(),
        )
    return reshaped(values, (*values.shape, 1, 1))


def _positive(values: tuple[int, int], name: str) -> tuple[int, int]:
    if min(values) < 1:
        raise ShapeError(f"{name} is {values}", hint="it must be at least 1", span=capture())
    return values


@primitive
def max_pool(x: Array, kernel: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1) -> Array:
    """The maximum of each window of x[n, c, h, w]: [n, c, oh, ow]; the stride is the kernel unless given.

    Padding never wins; a window with NaN gives NaN.

    Raises: ShapeError.
    """
    (image,) = traced(x)
    check_rank("max_pool", image, "batch channels height width")
    taps, pads = _positive(pair(kernel, "kernel"), "kernel"), pair(padding, "padding")
    return image.owner.add(
        "max_pool",
        image,
        kernel=taps,
        strides=taps if stride is None else _positive(pair(stride, "stride"), "stride"),
        dilations=_positive(pair(dilation, "dilation"), "dilation"),
        pads_before=pads,
        pads_after=pads,
    )


@primitive
def avg_pool(
    x: Array, kernel: Pair, stride: Pair | None = None, padding: Pair = 0, count_padding: bool = True
) -> Array:
    """The mean of each window of x[n, c, h, w]: [n, c, oh, ow]; the stride is the kernel unless given.

    With `count_padding` the zeros of the padding count, else only what lies in the image.

    Raises: DTypeError, ShapeError.
    """
    image = floats("avg_pool", x)
    check_rank("avg_pool", image, "batch channels height width")
    taps, pads = _positive(pair(kernel, "kernel"), "kernel"), pair(padding, "padding")
    return image.owner.add(
        "avg_pool",
        image,
        kernel=taps,
        strides=taps if stride is None else _positive(pair(stride, "stride"), "stride"),
        dilations=(1, 1),
        pads_before=pads,
        pads_after=pads,
        counted_after=pads,
        count_padding=count_padding,
    )
