"""Resampling an axis by a table of places and weights, as the Resize operator of ONNX (operator set 19) specifies it.

The table says, for each output element, which input elements are near it and how they are weighted.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lpx import dtypes
from lpx.graph.composing import Composer, T
from lpx.graph.operators.contraction import accumulator
from lpx.graph.shapes import static
from lpx.records import record


@record
class Rule:
    """How elements are interpolated, the same for all axes.

    `mode` is nearest, linear or cubic; `nearest` says how ties go: round_prefer_floor, round_prefer_ceil, floor, ceil.
    """

    mode: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


@record
class Axis:
    """One axis: extents before and after, the scale, and the part of it that is resized (tf_crop_and_resize)."""

    before: int
    after: int
    scale: float
    start: float = 0.0
    end: float = 1.0


def resample_axis(graph: Composer[T], x: T, number: int, axis: Axis, rule: Rule) -> T:
    """Axis `number` of `x` resampled; repeated or picked elements where the table says no more."""
    table = [_taps(i, axis, rule) for i in range(axis.after)]
    if axis.before == axis.after and all(taps == [(i, 1.0)] for i, taps in enumerate(table)):
        return x
    if all(len(taps) == 1 for taps in table):
        places = [taps[0][0] for taps in table]
        factor = axis.after // axis.before if axis.before else 0
        if factor and places == [i // factor for i in range(axis.before * factor)]:
            return _repeat_elements(graph, x, number, factor)
        return graph.add("gather", x, graph.constant(np.array(places, np.int64)), axes=(number,))
    width = max(len(taps) for taps in table)
    padded = [taps + [(0, 0.0)] * (width - len(taps)) for taps in table]
    places_table = np.array([[place for place, _ in taps] for taps in padded], np.int64)
    weights = np.array([[weight for _, weight in taps] for taps in padded], np.float64)
    wide = accumulator(dtypes.parse(x.dtype)).to_numpy()
    return graph.add("resample", x, graph.constant(places_table), graph.constant(weights.astype(wide)), axis=number)


def _repeat_elements(graph: Composer[T], x: T, number: int, factor: int) -> T:
    shape = static(x.shape, "resampling")
    lifted = graph.add("reshape", x, shape=(*shape[: number + 1], 1, *shape[number + 1 :]))
    wide = graph.add("broadcast", lifted, shape=(*shape[: number + 1], factor, *shape[number + 1 :]))
    return graph.add("reshape", wide, shape=(*shape[:number], shape[number] * factor, *shape[number + 1 :]))


def _taps(i: int, axis: Axis, rule: Rule) -> list[tuple[int, float]]:
    """Places in the input, clamped to it, and their weights, for output element `i`."""
    place = position(i, axis, rule.coordinates)
    base = math.ceil(place) - 1  # the neighbour on the left; `ratio` is above 0 and at most 1
    ratio = place - base
    if rule.mode == "nearest":
        return [(_clamp(base + _nearest_step(ratio, rule.nearest), axis), 1.0)]
    shrink = min(axis.scale, 1.0) if rule.antialias else 1.0
    reach = 1 if rule.mode == "linear" else 2
    first = math.floor(-reach / shrink) + 1
    kernel: Callable[[float], float] = _linear if rule.mode == "linear" else lambda d: _cubic(d, rule.cubic)
    weighted = [(base + k, kernel(abs(k - ratio) * shrink)) for k in range(first, 2 - first)]
    if rule.exclude_outside:
        weighted = [(p, w if 0 <= p < axis.before else 0.0) for p, w in weighted]
    total = sum(w for _, w in weighted) if rule.exclude_outside or rule.antialias else 1.0
    merged: dict[int, float] = {}
    for place, weight in weighted:
        if weight:
            merged[_clamp(place, axis)] = merged.get(_clamp(place, axis), 0.0) + weight / total
    return list(merged.items())


def position(i: int, axis: Axis, coordinates: str) -> float:
    """Where output element `i` lies among the input elements."""
    full = axis.scale * axis.before
    match coordinates:
        case "asymmetric":
            return i / axis.scale
        case "align_corners":
            return 0.0 if full == 1 else i * (axis.before - 1) / (full - 1)
        case "pytorch_half_pixel" if axis.after == 1:
            return 0.0
        case "half_pixel_symmetric":
            return axis.before / 2 * (1 - axis.after / full) + (i + 0.5) / axis.scale - 0.5
        case "tf_crop_and_resize":
            if axis.after == 1:
                return (axis.start + axis.end) / 2 * (axis.before - 1)
            step = (axis.end - axis.start) * (axis.before - 1) / (axis.after - 1)
            return axis.start * (axis.before - 1) + i * step
        case _:
            return (i + 0.5) / axis.scale - 0.5


def _nearest_step(ratio: float, mode: str) -> int:
    if ratio == 1:
        return 1
    match mode:
        case "floor":
            return 0
        case "ceil":
            return 1
        case "round_prefer_floor":
            return int(ratio > 0.5)
        case _:
            return int(ratio >= 0.5)


def _linear(distance: float) -> float:
    return max(1 - distance, 0.0)


def _cubic(distance: float, a: float) -> float:
    """Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981."""
    if distance <= 1:
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1
    if distance < 2:
        return ((distance - 5) * distance + 8) * distance * a - 4 * a
    return 0.0


def _clamp(place: int, axis: Axis) -> int:
    return min(max(place, 0), axis.before - 1)
