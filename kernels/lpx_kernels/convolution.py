"""Convolutions of signals, images and volumes: strided, padded, dilated, grouped, depthwise, transposed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from lpx import nn
from lpx_kernels.activations import activated
from lpx_kernels.registry import Array, Draw, case, register

PerAxis = int | Sequence[int]


def per_axis(value: PerAxis, count: int) -> tuple[int, ...]:
    """One number for each of `count` axes."""
    return (value,) * count if isinstance(value, int) else tuple(value)


def windows(x: Array, kernel: Sequence[int], stride: PerAxis, dilation: PerAxis) -> Array:
    """All windows of x[n, c, spatial...], as a view [n, c, places..., taps...]."""
    rank = len(kernel)
    strides, dilations = per_axis(stride, rank), per_axis(dilation, rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    places = [max(n - span + 1, 0) for n, span in zip(x.shape[2:], spans, strict=True)]
    if 0 in places:
        return np.empty((*x.shape[:2], *(-(-p // s) for p, s in zip(places, strides, strict=True)), *kernel))
    seen = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(2, 2 + rank)))
    steps = [slice(None, None, step) for step in (*strides, *dilations)]
    return seen[(slice(None), slice(None), *steps)]


def _convolution(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    activation: str | None = None,
) -> Any:
    rank = x.ndim - 2
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in per_axis(padding, rank))])
    taps = windows(padded, weight.shape[2:], stride, dilation)
    places, kernel = "opq"[:rank], "ijk"[:rank]
    lifted = taps.reshape(len(x), groups, x.shape[1] // groups, *taps.shape[2:])
    filters = weight.reshape(groups, len(weight) // groups, *weight.shape[1:])
    sums = np.einsum(f"ngc{places}{kernel},gmc{kernel}->ngm{places}", lifted, filters, optimize=True)
    return _finished(sums.reshape(len(x), len(weight), *sums.shape[3:]), bias, activation)


def _finished(sums: Any, bias: Any, activation: str | None) -> Any:
    shift = 0 if bias is None else bias.reshape(-1, *(1,) * (sums.ndim - 2))
    return activated(sums + shift, activation)


def _conv_transpose2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    output_padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    activation: str | None = None,
) -> Any:
    """Each element of x adds its multiple of the weights, tap by tap."""
    strides, dilations = per_axis(stride, 2), per_axis(dilation, 2)
    extents, kernel = x.shape[2:], weight.shape[2:]
    reach = [(n - 1) * s + 1 for n, s in zip(extents, strides, strict=True)]
    spans = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    extra = per_axis(output_padding, 2)
    whole = [r + s + e for r, s, e in zip(reach, spans, extra, strict=True)]
    per_group = weight.shape[1]
    sums: Any = np.zeros((len(x), groups, per_group, *whole))
    lifted = x.reshape(len(x), groups, x.shape[1] // groups, *extents)
    filters: Any = weight.reshape(groups, x.shape[1] // groups, *weight.shape[1:])
    for tap in itertools.product(*map(range, kernel)):
        starts = [t * d for t, d in zip(tap, dilations, strict=True)]
        into = tuple(slice(a, a + r, s) for a, r, s in zip(starts, reach, strides, strict=True))
        sums[(..., *into)] += np.einsum("ngcop,gcm->ngmop", lifted, filters[(..., *tap)])
    cut = tuple(slice(p, n - p) for p, n in zip(per_axis(padding, 2), whole, strict=True))
    return _finished(sums.reshape(len(x), groups * per_group, *whole)[(..., *cut)], bias, activation)


def _taps(_: Any, weight: Any, *__: Any, **___: Any) -> int:
    return int(weight[0].size)


def _filters(_: Any, weight: Any, *__: Any, **___: Any) -> int:
    return int(weight[:, 0].size)


def _layer(size: int, channels: int, filters: int, taps: int, **options: Any) -> Any:
    """An image of one sample and a filter bank of one of the networks named below."""
    groups = options.get("groups", 1)
    return case((1, channels, size, size), (filters, channels // groups, taps, taps), bias=Draw((filters,)), **options)


_RELU = {"activation": "relu"}
_RESNET50 = (
    _layer(224, 3, 64, 7, stride=2, padding=3, **_RELU),
    _layer(56, 64, 64, 1, **_RELU),
    _layer(56, 64, 64, 3, padding=1, **_RELU),
    _layer(56, 256, 128, 1, **_RELU),
    _layer(28, 128, 128, 3, padding=1, **_RELU),
    _layer(28, 512, 1024, 1, stride=2),
    _layer(14, 256, 256, 3, padding=1, **_RELU),
    _layer(7, 512, 512, 3, padding=1, **_RELU),
)
_MOBILENET_V2 = (
    _layer(112, 32, 32, 3, padding=1, groups=32),
    _layer(56, 144, 144, 3, stride=2, padding=1, groups=144),
    _layer(14, 384, 384, 3, padding=1, groups=384),
    _layer(7, 960, 960, 3, padding=1, groups=960),
)
_RESNEXT = _layer(56, 128, 128, 3, padding=1, groups=32)
_DEEPLAB = _layer(28, 256, 256, 3, padding=6, dilation=6)

conv1d = register(
    nn.conv1d,
    "convolution",
    _convolution,
    case((1, 80, 3000), (384, 80, 3), Draw((384,)), padding=1, activation="gelu"),
    terms=_taps,
)
conv2d = register(nn.conv2d, "convolution", _convolution, *_RESNET50, *_MOBILENET_V2, _RESNEXT, _DEEPLAB, terms=_taps)
conv3d = register(
    nn.conv3d,
    "convolution",
    _convolution,
    case((1, 32, 8, 28, 28), (64, 32, 3, 3, 3), Draw((64,)), padding=1, activation="relu"),
    terms=_taps,
)
conv_transpose2d = register(
    nn.conv_transpose2d,
    "convolution",
    _conv_transpose2d,
    case((1, 128, 28, 28), (128, 64, 2, 2), Draw((64,)), stride=2),
    case((1, 64, 28, 28), (64, 32, 4, 4), stride=2, padding=1),
    terms=_filters,
)
