"""Convolutions of every kind around the edges of tiles, parts and blocks, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx import nn

Array = NDArray[Any]
TOLERANCE = 1e-5


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def reference(x: Array, w: Array, stride: int, pad: int, dilation: int, groups: int) -> Array:
    """The convolution in float64."""
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    height, width = (dilation * (k - 1) + 1 for k in w.shape[2:])
    found = np.lib.stride_tricks.sliding_window_view(wide, (height, width), axis=(2, 3))
    taps = found[:, :, ::stride, ::stride, ::dilation, ::dilation]
    batch, channels, rows, columns = taps.shape[:4]
    taps = taps.reshape(batch, groups, channels // groups, rows, columns, *w.shape[2:])
    filters = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    made: Array = np.einsum("ngchwij,gmcij->ngmhw", taps, filters, optimize=True)
    return made.reshape(batch, -1, rows, columns)


def check(x: Array, w: Array, *, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1) -> list[str]:
    """Compare the layer, with a bias and an activation, with float64; the notes of its schedule."""
    bias = draw(w.shape[0], seed=9)

    def layer(x: Array, w: Array, b: Array) -> Any:
        return nn.conv2d(x, w, b, stride=stride, padding=pad, dilation=dilation, groups=groups, activation="relu")

    compiled = lpx.jit(strict=True)(layer)
    want = np.maximum(reference(x, w, stride, pad, dilation, groups) + bias[:, None, None], 0)
    np.testing.assert_allclose(compiled(x, w, bias), want, rtol=0, atol=TOLERANCE * np.abs(want).max())
    return compiled.lower(x, w, bias).explain().splitlines()


@pytest.mark.parametrize(("filters", "size"), [(31, 7), (32, 14), (33, 15), (65, 6)])
def test_some_channels_at_a_time(filters: int, size: int) -> None:
    notes = check(draw(2, 37, size, size), draw(filters, 37, 3, 3, seed=1), pad=1)
    assert any("channels at a time" in n and "applied to each" in n for n in notes)


@pytest.mark.parametrize(("stride", "dilation"), [(1, 2), (2, 1), (3, 2)])
def test_steps_between_and_inside_of_windows(stride: int, dilation: int) -> None:
    check(draw(1, 40, 17, 19), draw(48, 40, 3, 3, seed=1), pad=2, stride=stride, dilation=dilation)


def test_sums_that_do_not_stay_in_the_second_cache() -> None:
    check(draw(1, 24, 60, 60), draw(96, 24, 5, 5, seed=1), pad=2)


def test_filters_that_do_not_stay_in_the_second_cache() -> None:
    check(draw(1, 272, 5, 5), draw(200, 272, 3, 3, seed=1), pad=1)


def test_a_stride_of_one_tap() -> None:
    check(draw(1, 520, 9, 9), draw(520, 520, 1, 1, seed=1), stride=2)


@pytest.mark.parametrize(("channels", "filters", "size"), [(4, 2, 30), (2, 33, 5), (20, 16, 14), (3, 8, 15)])
def test_groups(channels: int, filters: int, size: int) -> None:
    notes = check(draw(2, 3 * channels, size, size), draw(3 * filters, channels, 3, 3, seed=1), pad=1, groups=3)
    assert any("register tiles" in n for n in notes)


def test_groups_of_many_channels() -> None:
    notes = check(draw(1, 80, 9, 9), draw(96, 40, 3, 3, seed=1), stride=2, pad=1, groups=2)
    assert any("channels at a time" in n for n in notes)


def test_what_makes_the_image_runs_along() -> None:
    w = draw(32, 40, 3, 3, seed=1)

    @lpx.jit(strict=True)
    def layer(x: Array, y: Array, w: Array) -> Any:
        return nn.conv2d(nn.relu(x) + y, w, padding=1)

    x, y = draw(1, 40, 14, 14), draw(1, 40, 14, 14, seed=2)
    want = reference(np.maximum(x, 0) + y, w, 1, 1, 1, 1)
    np.testing.assert_allclose(layer(x, y, w), want, rtol=0, atol=TOLERANCE * np.abs(want).max())


@pytest.mark.parametrize(("size", "window", "stride"), [(15, 7, 1), (28, 5, 2), (33, 3, 3)])
def test_one_filter_for_each_channel(size: int, window: int, stride: int) -> None:
    notes = check(draw(2, 5, size, size), draw(5, 1, window, window, seed=1), pad=window // 2, stride=stride, groups=5)
    assert any("windows side by side" in n for n in notes)
