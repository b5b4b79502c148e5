"""Maxima and means of windows of images [batch, channels, height, width], and of whole channels."""

from __future__ import annotations

import numpy as np

from lpx.nn.convolution import PerAxis
from lpx.nn.primitive import Array, check_rank, floats, per_axis, primitive, traced


@primitive
def max_pool(
    x: Array,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    *,
    out: Array | None = None,
) -> Array:
    """The maximum of each window of x[n, c, h, w]: [n, c, oh, ow]; the stride is the kernel unless given.

    Padding never wins; a window with NaN gives NaN.

    Raises: ShapeError.
    """
    (image,) = traced(x)
    check_rank("max_pool", image, "batch channels height width")
    taps, pads = per_axis(kernel, 2, "kernel", 1), per_axis(padding, 2, "padding")
    return image.owner.add(
        "max_pool",
        image,
        kernel=taps,
        strides=taps if stride is None else per_axis(stride, 2, "stride", 1),
        dilations=per_axis(dilation, 2, "dilation", 1),
        pads_before=pads,
        pads_after=pads,
    )


@primitive
def avg_pool(
    x: Array,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    count_padding: bool = True,
    *,
    out: Array | None = None,
) -> Array:
    """The mean of each window of x[n, c, h, w]: [n, c, oh, ow]; the stride is the kernel unless given.

    With `count_padding` the zeros of the padding count, else only what lies in the image.

    Raises: DTypeError, ShapeError.
    """
    image = floats("avg_pool", x)
    check_rank("avg_pool", image, "batch channels height width")
    taps, pads = per_axis(kernel, 2, "kernel", 1), per_axis(padding, 2, "padding")
    return image.owner.add(
        "avg_pool",
        image,
        kernel=taps,
        strides=taps if stride is None else per_axis(stride, 2, "stride", 1),
        dilations=(1, 1),
        pads_before=pads,
        pads_after=pads,
        counted_after=pads,
        count_padding=count_padding,
    )


@primitive
def global_max_pool(x: Array, *, out: Array | None = None) -> Array:
    """The maximum of each channel of x[n, c, h, w]: [n, c, 1, 1]; NaN where there is one.

    Raises: ShapeError.
    """
    (image,) = traced(x)
    check_rank("global_max_pool", image, "batch channels height width")
    return np.max(image, axis=(2, 3), keepdims=True)


@primitive
def global_avg_pool(x: Array, *, out: Array | None = None) -> Array:
    """The mean of each channel of x[n, c, h, w]: [n, c, 1, 1]. Sums are kept in float32 for narrower floats.

    Raises: DTypeError, ShapeError.
    """
    image = floats("global_avg_pool", x)
    check_rank("global_avg_pool", image, "batch channels height width")
    return np.mean(image, axis=(2, 3), keepdims=True)
