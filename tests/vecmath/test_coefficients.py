"""The stored polynomials: how good they are, and that they can be found again."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.vecmath.fits import FITS
from tests.vecmath.multiprecision import mp
from tests.vecmath.remez import BITS, Grid, minimax, to_nearest


@pytest.mark.parametrize("name", FITS)
def test_stored_coefficients_are_as_close_as_stated(name: str) -> None:
    with mp.workprec(BITS):
        assert math.log2(FITS[name].error()) <= FITS[name].bits


@pytest.mark.parametrize("name", FITS)
def test_stored_coefficients_are_numbers_of_the_format(name: str) -> None:
    fit = FITS[name]
    assert [float(fit.dtype(c)) for c in fit.stored] == list(fit.stored)


@pytest.mark.parametrize(
    "name", ["exp_32", "expm1_32", "log_32", "sin_32", "cos_64", "sinh_64", "tanh_32_0", "tanh_32_2", "pow_32"]
)
def test_coefficients_are_found_again(name: str) -> None:
    with mp.workprec(BITS):
        np.testing.assert_allclose(FITS[name].derive(), FITS[name].stored, rtol=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("name", FITS)
def test_all_coefficients_are_found_again(name: str) -> None:
    with mp.workprec(BITS):
        np.testing.assert_allclose(FITS[name].derive()[:4], FITS[name].stored[:4], rtol=1e-3)


def test_minimax_polynomial_of_known_form() -> None:
    """The best approximation of x**3 by 1, x, x**2 on [-1, 1] is 3/4 x, whose error is a Chebyshev polynomial."""
    with mp.workprec(BITS):
        grid = Grid.of(lambda x: x**3, -1, 1, 60, lambda x: mp.mpf(1))
        found = [float(c) for c in minimax(grid, 0, 3)]
    np.testing.assert_allclose(found, [0, 0.75, 0], atol=0.01)


def test_rounding_to_a_format() -> None:
    with mp.workprec(BITS):
        third = mp.mpf(1) / 3
        assert to_nearest(third, np.float32) == float(np.float32(1 / 3))
        assert to_nearest(third, np.float64) == 1 / 3
