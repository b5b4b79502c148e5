"""The transposed convolution: a convolution of the spread-out input with the flipped weights."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.errors import ShapeError
from lpx.graph import shapes
from lpx.graph.composing import Composer, T, full, pad_or_crop
from lpx.records import record


@record
class Windows:
    """Per spatial axis: steps between places that an element adds to, between its taps, and what is cut off the result.

    Negative `after` adds to the result.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


def convolve_transposed(graph: Composer[T], x: T, w: T, windows: Windows, groups: int) -> T:
    """x[N, C, spatial...] with w[C, M / groups, kernel...]: each element adds its multiple of the weights.

    Raises: ShapeError.
    """
    extents, kernel = shapes.static(x.shape, "a transposed convolution"), shapes.static(w.shape, "its weights")[2:]
    reach = [(k - 1) * d for k, d in zip(kernel, windows.dilations, strict=True)]
    before = [r - b for r, b in zip(reach, windows.before, strict=True)]
    after = [r - a for r, a in zip(reach, windows.after, strict=True)]
    flipped = _flipped_weights(graph, w, extents[1], groups)
    spread = _spread(graph, x, extents, windows.strides)
    padded = pad_or_crop(graph, spread, (0, 0, *before), (0, 0, *after), full(graph, x, 0))
    one, none = (1,) * len(kernel), (0,) * len(kernel)
    steps = {"strides": one, "dilations": windows.dilations, "pads_before": none, "pads_after": none}
    return graph.add("conv", padded, flipped, groups=groups, **steps)


def _spread(graph: Composer[T], x: T, extents: Sequence[int], strides: Sequence[int]) -> T:
    """`x` with stride - 1 zeros between neighbours along each spatial axis."""
    if all(s == 1 for s in strides):
        return x
    wide = (max((d - 1) * s + 1, 0) for d, s in zip(extents[2:], strides, strict=True))
    zeros = full(graph, x, 0, (*extents[:2], *wide))
    return graph.add("update_slice", zeros, x, starts=(0,) * len(extents), steps=(1, 1, *strides))


def _flipped_weights(graph: Composer[T], w: T, given: int, groups: int) -> T:
    """w[C, M / groups, kernel...] as w[M, C / groups, kernel reversed...]."""
    channels, filters, *kernel = shapes.static(w.shape, "the weights of a transposed convolution")
    if groups < 1 or channels != given or channels % groups:
        raise ShapeError(
            f"weights of {channels} channels for {given} channels in {groups} group(s)",
            hint="weights are [channels, filters / groups, kernel...], and groups divides the channels",
        )
    starts, steps = (0, 0, *(k - 1 for k in kernel)), (1, 1, *(-1,) * len(kernel))
    flipped = graph.add("slice", w, starts=starts, steps=steps, sizes=(channels, filters, *kernel))
    lifted = graph.add("reshape", flipped, shape=(groups, channels // groups, filters, *kernel))
    moved = graph.add("transpose", lifted, axes=(0, 2, 1, *range(3, 3 + len(kernel))))
    return graph.add("reshape", moved, shape=(groups * filters, channels // groups, *kernel))
