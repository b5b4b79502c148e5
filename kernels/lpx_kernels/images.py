"""Images in other sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpx import nn
from lpx_kernels.convolution import PerAxis, per_axis
from lpx_kernels.registry import Array, case, register


def _resize(x: Any, size: PerAxis, mode: str = "linear", align_corners: bool = False) -> Any:
    """One matrix for the rows and one for the columns."""
    rows, columns = (
        _weights(before, after, mode, align_corners)
        for before, after in zip(x.shape[2:], per_axis(size, 2), strict=True)
    )
    return rows @ x @ columns.T


def _weights(before: int, after: int, mode: str, align_corners: bool) -> Any:
    """How much each element counts for each new one: [after, before]."""
    place = np.arange(after)
    if align_corners:
        centres = place * ((before - 1) / (after - 1) if after > 1 else 0.0)
    else:
        centres = (place + 0.5) * (before / after) - 0.5
    if mode == "nearest":
        return np.eye(before)[np.clip(np.ceil(centres - 0.5).astype(int), 0, before - 1)]
    first = np.floor(centres).astype(int)
    found = np.zeros((after, before))
    for near in range(-1, 3):
        distance = np.abs(centres - first - near)
        np.add.at(found, (place, np.clip(first + near, 0, before - 1)), _influence(distance, mode))
    return found


def _influence(distance: Array, mode: str) -> Any:
    """How much an element counts at a distance."""
    if mode == "linear":
        return np.maximum(1 - distance, 0)
    a, d = -0.75, distance
    return np.where(
        d <= 1,
        (a + 2) * d**3 - (a + 3) * d**2 + 1,
        np.where(d < 2, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a, 0),
    )


def _extent_squared(x: Any, *_: Any, **__: Any) -> int:
    return max(map(int, x.shape[2:])) ** 2


resize = register(
    nn.resize,
    "image",
    _resize,
    *(case((1, 64, 56, 56), size=(112, 112), mode=mode) for mode in ("nearest", "linear", "cubic")),
    terms=_extent_squared,  # places, which are rounded, are as large as the extents
)
