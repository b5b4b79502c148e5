"""Maxima and means of windows of images, and of whole channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lpx import nn
from lpx_kernels.convolution import PerAxis, per_axis, windows
from lpx_kernels.registry import FLOATS, case, register


def _padded(x: Any, padding: PerAxis, fill: float) -> Any:
    return np.pad(x, [(0, 0), (0, 0), *((p, p) for p in per_axis(padding, 2))], constant_values=fill)


def _max_pool(x: Any, kernel: PerAxis, stride: Any = None, padding: PerAxis = 0, dilation: PerAxis = 1) -> Any:
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    seen = windows(_padded(x, padding, lowest), per_axis(kernel, 2), kernel if stride is None else stride, dilation)
    return seen.max((-2, -1)).astype(x.dtype)


def _avg_pool(x: Any, kernel: PerAxis, stride: Any = None, padding: PerAxis = 0, count_padding: bool = True) -> Any:
    taps, steps = per_axis(kernel, 2), kernel if stride is None else stride
    sums = windows(_padded(x, padding, 0), taps, steps, 1).sum((-2, -1))
    counted = windows(_padded(np.ones_like(x), padding, float(count_padding)), taps, steps, 1).sum((-2, -1))
    return sums / counted


def _global_max_pool(x: Any) -> Any:
    return x.max((2, 3), keepdims=True)


def _global_avg_pool(x: Any) -> Any:
    return x.mean((2, 3), keepdims=True)


def _taps(_: Any, kernel: PerAxis, *__: Any, **___: Any) -> int:
    return math.prod(per_axis(kernel, 2))


def _pixels(x: Any) -> int:
    return int(x.shape[2] * x.shape[3])


_IMAGE = (8, 64, 112, 112)
_FEATURES = case((8, 512, 7, 7))

max_pool = register(
    nn.max_pool, "pooling", _max_pool, case(_IMAGE, 3, 2, 1), case(_IMAGE, 2), dtypes=(*FLOATS, "int8", "int32")
)
avg_pool = register(nn.avg_pool, "pooling", _avg_pool, case(_IMAGE, 3, 2, 1), case(_IMAGE, 2), terms=_taps)
global_max_pool = register(
    nn.global_max_pool, "pooling", _global_max_pool, _FEATURES, dtypes=(*FLOATS, "int8", "int32")
)
global_avg_pool = register(nn.global_avg_pool, "pooling", _global_avg_pool, _FEATURES, terms=_pixels)
