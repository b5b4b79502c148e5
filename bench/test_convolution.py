"""Convolutions at batch 1: the layers of ResNet-50 and the depthwise ones of MobileNetV2, next to ONNX Runtime.

pytest bench/test_convolution.py

ONNX Runtime holds its weights constant, and so does `lpx`; `lpx arguments` gets them as arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bench import peers
from bench.interleave import Array, compare

import lpx
from lpx import nn

RESNET50 = [
    (3, 64, 224, 7, 2),
    (64, 64, 56, 1, 1),
    (64, 64, 56, 3, 1),
    (64, 256, 56, 1, 1),
    (256, 64, 56, 1, 1),
    (128, 128, 56, 3, 2),
    (128, 128, 28, 3, 1),
    (128, 512, 28, 1, 1),
    (256, 256, 28, 3, 2),
    (256, 256, 14, 3, 1),
    (1024, 512, 14, 1, 2),
    (512, 512, 7, 3, 1),
]
"""Channels, filters, size of the image, of the window, and stride."""

MOBILENETV2 = [(32, 112, 1), (96, 112, 2), (144, 56, 1), (192, 28, 1), (576, 14, 1)]
"""Channels, size and stride of 3 x 3 windows over one channel each."""


def draw(*shape: int, seed: int = 0) -> Array:
    """Normally distributed float32 numbers that are constants to a compiled function."""
    array = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    array.flags.writeable = False
    return array


def compare_layer(benchmark: Any, image: Array, filters: Array, stride: int, groups: int) -> None:
    """One layer, padded so that windows are centred on pixels."""
    size = filters.shape[-1]
    pad = size // 2

    def conv(x: Array, w: Array) -> Any:
        return nn.conv2d(x, w, stride=stride, padding=pad, groups=groups)

    def layer_of(x: Array) -> Any:
        return conv(x, filters)

    layer, general = lpx.jit(layer_of), lpx.jit(conv)
    result, other = layer(image), general(image, filters)
    attrs = {"strides": [stride] * 2, "pads": [pad] * 4, "group": groups, "kernel_shape": [size] * 2}
    candidates = peers.present(
        onnxruntime=peers.onnx_runtime([("Conv", ["x", "w"], "y", attrs)], {"x": image}, "y", {"w": filters}),
        lpx=lambda: layer(image, out=result),
        lpx_arguments=lambda: general(image, filters, out=other),
    )
    compare(benchmark, candidates, tolerance=5e-5, work={"flop": 2.0 * result[0, 0].size * filters.size})


@pytest.mark.parametrize(("channels", "filters", "size", "window", "stride"), RESNET50)
def test_resnet50(benchmark: Any, channels: int, filters: int, size: int, window: int, stride: int) -> None:
    """The twelve distinct layers."""
    benchmark.group = f"conv {window} x {window}, {channels} to {filters}, {size} x {size}, stride {stride}"
    weights = draw(filters, channels, window, window, seed=1)
    compare_layer(benchmark, draw(1, channels, size, size), weights, stride, 1)


@pytest.mark.parametrize(("channels", "size", "stride"), MOBILENETV2)
def test_depthwise(benchmark: Any, channels: int, size: int, stride: int) -> None:
    """Five depthwise layers."""
    benchmark.group = f"depthwise 3 x 3, {channels}, {size} x {size}, stride {stride}"
    weights = draw(channels, 1, 3, 3, seed=1)
    compare_layer(benchmark, draw(1, channels, size, size), weights, stride, channels)
