"""Transposed convolutions by phases, against the definition: each element adds its multiple of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx import nn

Array = NDArray[Any]


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def reference(x: Array, w: Array, stride: int, pad: int, extra: int, groups: int) -> Array:
    """The definition in float64."""
    batch, channels, height, width = x.shape
    filters, rows, columns = w.shape[1:]
    whole = np.zeros(
        (batch, groups, filters, (height - 1) * stride + rows + extra, (width - 1) * stride + columns + extra)
    )
    images = x.reshape(batch, groups, channels // groups, height, width).astype(np.float64)
    weights = w.reshape(groups, channels // groups, filters, rows, columns).astype(np.float64)
    for i in range(height):
        for j in range(width):
            added = np.einsum("ngc,gcmab->ngmab", images[..., i, j], weights)
            whole[..., i * stride : i * stride + rows, j * stride : j * stride + columns] += added
    cut: Array = whole.reshape(batch, groups * filters, *whole.shape[3:])
    return cut[..., pad : cut.shape[2] - pad, pad : cut.shape[3] - pad]


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "extra"),
    [(2, 2, 0, 0), (4, 2, 1, 0), (3, 2, 1, 1), (5, 3, 2, 2), (2, 3, 0, 0), (1, 2, 0, 1), (6, 2, 4, 0)],
)
@pytest.mark.parametrize("groups", [1, 2])
def test_phases(kernel: int, stride: int, pad: int, extra: int, groups: int) -> None:
    x, w = draw(2, 6, 4, 7), draw(6, 5, kernel, kernel, seed=1)

    def layer(x: Array, w: Array) -> Any:
        return nn.conv_transpose2d(x, w, stride=stride, padding=pad, output_padding=extra, groups=groups)

    want = reference(x, w, stride, pad, extra, groups)
    np.testing.assert_allclose(lpx.jit(layer)(x, w), want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_a_layer_of_constant_weights_is_a_plain_convolution() -> None:
    """What spreads nothing out multiplies nothing by zeros: tiles of pixels by filters of all phases."""
    x, w = draw(1, 16, 9, 9), draw(16, 8, 4, 4, seed=1)
    w.flags.writeable = False

    @lpx.jit
    def layer(x: Array) -> Any:
        return nn.conv_transpose2d(x, w, stride=2, padding=1, activation="relu")

    want = np.maximum(reference(x, w, 2, 1, 0, 1), 0)
    np.testing.assert_allclose(layer(x), want, rtol=0, atol=1e-5 * np.abs(want).max())
    assert "register tiles of 1 x 10 pixels by 32 filters" in layer.lower(x).explain()
