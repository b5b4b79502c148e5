"""Images in other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from lpx.frontends.numpy.trace import TracedArray
from lpx.graph import shapes
from lpx.graph.resampling import Axis, Rule, resample_axis
from lpx.nn.primitive import Array, check_rank, floats, per_axis, primitive


@primitive
def resize(
    x: Array,
    size: int | Sequence[int],
    mode: Literal["nearest", "linear", "cubic"] = "linear",
    align_corners: bool = False,
    *,
    out: Array | None = None,
) -> Array:
    """x[n, c, h, w] in another `size` (height, width): [n, c, *size] of the same dtype.

    Elements are squares whose edges meet those of the whole image, or with `align_corners` points, of which the first
    and the last stay where they are. "linear" weighs two neighbours on each axis, "cubic" four (Keys, "Cubic
    Convolution Interpolation for Digital Image Processing", 1981, with a = -0.75), "nearest" takes the nearest, the
    lower of two; sums are kept in float32 or wider.

    Raises: DTypeError, ShapeError.
    """
    image = floats("resize", x)
    check_rank("resize", image, "batch channels height width")
    found: TracedArray = image
    rule = Rule(mode, "align_corners" if align_corners else "half_pixel")
    extents = shapes.static(image.shape[2:], "resize")
    for number, (before, after) in enumerate(zip(extents, per_axis(size, 2, "size", 1), strict=True), 2):
        found = resample_axis(image.owner, found, number, Axis(before, after, after / before), rule)
    return found
