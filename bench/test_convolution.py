"""Convolutions at batch 1: the layers of ResNet-50 and the depthwise ones of MobileNetV2.

pytest bench/test_convolution.py

Weights are constants to libraries that hold some, and arguments to all in a second group.
"""

from __future__ import annotations

import pytest
from bench.compare import Compare

from lpx.cli.comparison.operations import conv2d

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

GROUPED = [(128, 128, 56, 3, 1, 32), (256, 256, 28, 3, 1, 32), (64, 128, 28, 3, 1, 2), (112, 112, 28, 3, 1, 7)]
"""Channels, filters, size of the image, of the window, stride, and groups: ResNeXt, RegNet and two halves."""

WEIGHTS = pytest.mark.parametrize("constant", [True, False], ids=["constants", "arguments"])


@WEIGHTS
@pytest.mark.parametrize(("channels", "filters", "size", "window", "stride"), RESNET50)
def test_resnet50(
    compare: Compare, channels: int, filters: int, size: int, window: int, stride: int, constant: bool
) -> None:
    """The twelve distinct layers."""
    compare(conv2d(channels, filters, size, window, stride, constant=constant))


@WEIGHTS
@pytest.mark.parametrize(("channels", "size", "stride"), MOBILENETV2)
def test_depthwise(compare: Compare, channels: int, size: int, stride: int, constant: bool) -> None:
    """Five depthwise layers."""
    compare(conv2d(channels, channels, size, 3, stride, channels, constant=constant))


@WEIGHTS
@pytest.mark.parametrize(("channels", "filters", "size", "window", "stride", "groups"), GROUPED)
def test_grouped(
    compare: Compare, channels: int, filters: int, size: int, window: int, stride: int, groups: int, constant: bool
) -> None:
    """Layers of several groups of channels."""
    compare(conv2d(channels, filters, size, window, stride, groups, constant=constant))
