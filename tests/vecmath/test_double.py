"""float64: samples of all exponents, region borders and special values against mpmath."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from lpx.expr.vecmath import ULP_BOUNDS
from tests.vecmath.accuracy import (
    BINARY,
    UNARY,
    Array,
    compute,
    exact,
    reference,
    special_values,
    ulps_exact,
    working_precision,
)
from tests.vecmath.multiprecision import mp

BORDERS = [0.55, 0.5, 1.0, 2 / 3, 4 / 3, math.log(2) / 2, 1.5 * math.log(2), 5.95, 20.0, 27.2, 38.5, 709.78, 710.47,
           -745.13, -708.3, 2.0**-28, 2.0**-30, 2.0**53, 2.0**107, 2.0**160, math.pi / 2, math.pi, 1e22,
           2.0**25, 708.0, 1022.0, 49 / 48, 47 / 48]  # fmt: skip
HARD_ANGLES = [6381956970095103.0 * 2.0**797, 2.0**1023 * 1.9, 5.0**20 * 2.0**700, 1e300]
"""No float64 number is closer to a multiple of pi/2 than the first: J.-M. Muller, "Elementary Functions", 2016."""


def _samples(name: str) -> Array:
    rng = np.random.default_rng(sum(map(ord, name)))
    bits = rng.integers(0, 2**64, 60, np.uint64).view(np.float64)
    common = np.ldexp(rng.uniform(1, 2, 120), rng.integers(-14, 7, 120)) * rng.choice([-1, 1], 120)
    unit = rng.uniform(-1, 1, 60)
    borders = np.array([np.nextafter(b, side) for b in BORDERS for side in (-np.inf, b, np.inf)])
    hard = HARD_ANGLES if name in ("sin", "cos", "tan") else []
    values = np.concatenate([bits, common, unit, borders, -borders, hard])
    finite: Array = values[np.isfinite(values)]
    return finite


def _pairs(name: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    x, y = (np.ldexp(rng.uniform(1, 2, 200), rng.integers(-12, 12, 200)) * rng.choice([-1, 1], 200) for _ in range(2))
    if name == "pow":
        x = np.abs(x)
        y[100:] = rng.uniform(-1070, 1020, 100) / np.log2(x[100:])
    if name in ("fmod", "hypot", "atan2"):
        wide = rng.integers(0, 2**64, (2, 60), np.uint64).view(np.float64)
        x, y = np.concatenate([x, wide[0]]), np.concatenate([y, wide[1]])
    finite = np.isfinite(x) & np.isfinite(y)
    return x[finite], y[finite]


def _worst(name: str, *args: Array) -> tuple[float, Any]:
    rows = list(zip(*[a.tolist() for a in args], strict=True))
    errors: list[float] = []
    for got, row in zip(compute(name, *args).tolist(), rows, strict=True):
        with mp.workprec(working_precision(name, *row)):
            errors.append(ulps_exact(got, exact(name, *row)))
    worst = max(errors)
    return worst, rows[errors.index(worst)]


@pytest.mark.parametrize("name", UNARY)
def test_error_is_within_the_bound(name: str) -> None:
    x = _samples(name)
    x = x[_in_domain(name, x)]
    worst, at = _worst(name, x)
    assert worst <= ULP_BOUNDS[name][1], at


def _in_domain(name: str, x: Array) -> Array:
    """Where mpmath has a finite real value, and computes it in reasonable time."""
    match name:
        case "log" | "log2" | "log10" | "rsqrt":
            return x > 0
        case "log1p":
            return x > -1
        case "acosh":
            return x >= 1
        case "asin" | "acos" | "atanh":
            return np.abs(x) < 1
        case _ if name in ("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "sigmoid", "erf", "erfc"):
            return np.abs(x) < 1100
        case _:
            return np.isfinite(x)


@pytest.mark.parametrize("name", [name for name in BINARY if name != "nextafter"])
def test_error_of_pairs_is_within_the_bound(name: str) -> None:
    worst, at = _worst(name, *_pairs(name))
    assert worst <= ULP_BOUNDS[name][1], at


def _every_pair(values: Array) -> tuple[Array, ...]:
    return tuple(np.array(list(itertools.product(values, repeat=2))).T)


def test_nextafter_and_fmod_are_those_of_numpy() -> None:
    x, y = _every_pair(special_values(np.float64))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(compute("nextafter", x, y), np.nextafter(x, y))
        np.testing.assert_array_equal(compute("fmod", x, y), np.fmod(x, y))


@pytest.mark.parametrize("name", [*UNARY, "pow", "atan2", "hypot"])
def test_special_values_are_those_of_c(name: str) -> None:
    """Where NumPy's result is NaN, infinite, a zero or a small integer, ours is the same, signs of zeros included."""
    values = special_values(np.float64)
    args = (values,) if name in UNARY else _every_pair(values)
    got, want = compute(name, *args), reference(name, *args)
    small = np.isnan(want) | np.isinf(want) | (want == 0) | (want == 1)
    np.testing.assert_array_equal(got[small], want[small])
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


def test_exact_reference_knows_the_hard_angle() -> None:
    """The reference itself: the angle is within 2**-60 of a multiple of pi/2."""
    with mp.workprec(1400):
        assert abs(exact("cos", HARD_ANGLES[0])) < mp.mpf(2) ** -60
