"""The transposed convolution, as a convolution.

A step of s between places is a convolution of the input as it is: results at places that are equal modulo s are sums
with the same taps, every s-th of the kernel, so each such phase has filters of its own, and phases take turns in the
result (Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016). Where taps have steps as
well, it is a convolution of the spread-out input with the flipped weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

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
    extents, channels = shapes.static(x.shape, "a transposed convolution"), w.shape[0]
    if groups < 1 or channels != extents[1] or extents[1] % groups:
        raise ShapeError(
            f"weights of {channels} channels for {extents[1]} channels in {groups} group(s)",
            hint="weights are [channels, filters / groups, kernel...], and groups divides the channels",
        )
    in_phases = any(s > 1 for s in windows.strides) and all(d == 1 for d in windows.dilations)
    return (_by_phases if in_phases else _spread_out)(graph, x, w, windows, groups)


def _by_phases(graph: Composer[T], x: T, w: T, windows: Windows, groups: int) -> T:
    extents, kernel = shapes.static(x.shape, "a transposed convolution"), shapes.static(w.shape, "its weights")[2:]
    strides, count = windows.strides, len(kernel)
    taps = [-(-k // s) for k, s in zip(kernel, strides, strict=True)]
    pads, one = tuple(t - 1 for t in taps), (1,) * count
    steps = {"strides": one, "dilations": one, "pads_before": pads, "pads_after": pads}
    phases = graph.add("conv", x, _phase_weights(graph, w, taps, strides, groups), groups=groups, **steps)
    filters, places = phases.shape[1] // prod(strides), [d + p for d, p in zip(extents[2:], pads, strict=True)]
    apart = graph.add("reshape", phases, shape=(extents[0], filters, *strides, *places))
    turns = [axis for a in range(count) for axis in (2 + count + a, 2 + a)]
    together = graph.add("transpose", apart, axes=(0, 1, *turns))
    lengths = [p * s for p, s in zip(places, strides, strict=True)]
    whole = graph.add("reshape", together, shape=(extents[0], filters, *lengths))
    before = [-b for b in windows.before]
    after = [
        (d - 1) * s + k - a - length
        for d, s, k, a, length in zip(extents[2:], strides, kernel, windows.after, lengths, strict=True)
    ]
    return pad_or_crop(graph, whole, (0, 0, *before), (0, 0, *after), full(graph, x, 0))


def _phase_weights(graph: Composer[T], w: T, taps: Sequence[int], strides: Sequence[int], groups: int) -> T:
    """w[C, M / groups, kernel...] as filters [M * phases, C / groups, taps...], the last tap first."""
    channels, filters, *kernel = shapes.static(w.shape, "the weights of a transposed convolution")
    count = len(kernel)
    more = [t * s - k for t, s, k in zip(taps, strides, kernel, strict=True)]
    even = pad_or_crop(graph, w, (0,) * (2 + count), (0, 0, *more), full(graph, w, 0))
    split = tuple(n for pair in zip(taps, strides, strict=True) for n in pair)
    apart = graph.add("reshape", even, shape=(groups, channels // groups, filters, *split))
    back = (1, 1, 1, *(n for _ in kernel for n in (-1, 1)))
    starts = (0, 0, 0, *(n for t in taps for n in (t - 1, 0)))
    sizes = (groups, channels // groups, filters, *split)
    flipped = graph.add("slice", apart, starts=starts, steps=back, sizes=sizes)
    phases, places = range(4, 4 + 2 * count, 2), range(3, 3 + 2 * count, 2)
    moved = graph.add("transpose", flipped, axes=(0, 2, *phases, 1, *places))
    return graph.add("reshape", moved, shape=(groups * filters * prod(strides), channels // groups, *taps))


def _spread_out(graph: Composer[T], x: T, w: T, windows: Windows, groups: int) -> T:
    extents, kernel = shapes.static(x.shape, "a transposed convolution"), shapes.static(w.shape, "its weights")[2:]
    reach = [(k - 1) * d for k, d in zip(kernel, windows.dilations, strict=True)]
    before = [r - b for r, b in zip(reach, windows.before, strict=True)]
    after = [r - a for r, a in zip(reach, windows.after, strict=True)]
    flipped = _flipped_weights(graph, w, groups)
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


def _flipped_weights(graph: Composer[T], w: T, groups: int) -> T:
    """w[C, M / groups, kernel...] as w[M, C / groups, kernel reversed...]."""
    channels, filters, *kernel = shapes.static(w.shape, "the weights of a transposed convolution")
    starts, steps = (0, 0, *(k - 1 for k in kernel)), (1, 1, *(-1,) * len(kernel))
    flipped = graph.add("slice", w, starts=starts, steps=steps, sizes=(channels, filters, *kernel))
    lifted = graph.add("reshape", flipped, shape=(groups, channels // groups, filters, *kernel))
    moved = graph.add("transpose", lifted, axes=(0, 2, 1, *range(3, 3 + len(kernel))))
    return graph.add("reshape", moved, shape=(groups * filters, channels // groups, *kernel))
