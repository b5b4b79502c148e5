"""float32: dense samples of all numbers, region borders and special values against float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lpx.expr.vecmath import ULP_BOUNDS
from tests.vecmath.accuracy import BINARY, UNARY, Array, compute, reference, special_values, ulps

BORDERS = [0.55, 0.5, 1.0, 1.25, 2 / 3, 4 / 3, 0.375, 0.34657359, 1.0397207, 2.625, 4.0, 9.5, 9.01, 10.05, 17.3, 18.0,
           88.72, 89.4159, 87.336, 103.97, 2.0**-25, 2.0**-13, 2.0**23, 2.0**24, 2.0**50, 2.0**76, 2.0**102, 2.0**127,
           np.pi / 4, np.pi / 2, np.pi, 1e-38, 2.0**16, 2.0, 3.0, 7.0, 9.25, 49 / 48, 47 / 48]  # fmt: skip
STEP = 49_999
"""Every so manieth float32 number is tried: 86,000 of them."""


def _all_scales() -> Array:
    return np.arange(0, 2**32, STEP, dtype=np.int64).astype(np.uint32).view(np.float32)


def _around_borders() -> Array:
    bits = np.array(BORDERS, np.float32).view(np.int32)[:, None] + np.arange(-40, 41, dtype=np.int32)
    values = bits.ravel().view(np.float32)
    return np.concatenate([values, -values])


def _common() -> Array:
    return np.random.default_rng(1).uniform(-12, 12, 20_000).astype(np.float32)


def _worst(name: str, *args: Array) -> tuple[float, list[float]]:
    errors = ulps(compute(name, *args), reference(name, *args))
    at = int(np.argmax(errors))
    return float(errors[at]), [float(a[at]) for a in args]


@pytest.mark.parametrize("name", UNARY)
def test_error_is_within_the_bound(name: str) -> None:
    x = np.concatenate([_all_scales(), _around_borders(), _common(), special_values(np.float32)])
    worst, at = _worst(name, x)
    assert worst <= ULP_BOUNDS[name][0], at


def _pairs(name: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 2**32, (2, 20_000), np.uint64).astype(np.uint32)
    near = np.ldexp(rng.uniform(1, 2, (2, 20_000)), rng.integers(-8, 8, (2, 20_000))).astype(np.float32)
    x, y = (np.concatenate([bits[i].view(np.float32), near[i] * np.float32(1 - 2 * i)]) for i in range(2))
    if name == "pow":  # results that fill the range of exponents
        base = rng.uniform(0.4, 2.5, 20_000).astype(np.float32)
        exponent = (rng.uniform(-150, 128, 20_000) / np.log2(base)).astype(np.float32)
        x, y = np.concatenate([x, base]), np.concatenate([y, exponent])
    return x, y


@pytest.mark.parametrize("name", BINARY)
def test_error_of_pairs_is_within_the_bound(name: str) -> None:
    worst, at = _worst(name, *_pairs(name))
    assert worst <= ULP_BOUNDS[name][0], at


@pytest.mark.parametrize("name", BINARY)
def test_pairs_of_special_values(name: str) -> None:
    values = special_values(np.float32)
    x, y = (np.array(side) for side in zip(*itertools.product(values, values), strict=True))
    worst, at = _worst(name, x, y)
    assert worst <= ULP_BOUNDS[name][0], at


@pytest.mark.parametrize("name", ["fmod", "nextafter"])
def test_exact_functions_are_exact(name: str) -> None:
    x, y = _pairs(name)
    np.testing.assert_array_equal(compute(name, x, y), reference(name, x, y).astype(np.float32))
