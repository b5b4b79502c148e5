"""The evaluator that the tests of vector math rely on: `fma` against exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lpx.expr import build
from lpx.expr.vecmath.formats import BINARY32, BINARY64
from tests.vecmath.evaluate import evaluate, fma

FORMATS = {np.float32: BINARY32, np.float64: BINARY64}


def _rounded(value: Fraction, dtype: Any) -> float:
    """`value` as a number of the format: by Python's exact division for float64, by hand for float32."""
    if dtype is np.float64:
        return float(value)
    exponent = max(_exponent(value), -126)
    unit = Fraction(2) ** (exponent - 23)
    return float(round(value / unit) * unit)


def _exponent(value: Fraction) -> int:
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    return exponent - (abs(value) < Fraction(2) ** exponent)


def _operands(dtype: Any, spread: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Factors and a third operand that cancels most of their product."""
    rng = np.random.default_rng(7)
    a, b = (np.ldexp(rng.uniform(1, 2, 2000), rng.integers(-spread, spread, 2000)).astype(dtype) for _ in range(2))
    c = (-(a * b) * (1 + rng.integers(-3, 4, 2000) * np.finfo(dtype).eps)).astype(dtype)
    return a, b, c


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("spread", [4, 60])
def test_fma_is_rounded_once(dtype: Any, spread: int) -> None:
    a, b, c = _operands(dtype, spread)
    c[::2] = np.random.default_rng(8).standard_normal(1000).astype(dtype) * c[::2]
    got = fma(a, b, c)
    for x, y, z, result in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        assert result == (_rounded(exact, dtype) if exact else 0.0)


@pytest.mark.parametrize("dtype", FORMATS)
def test_fma_at_the_middle_between_numbers(dtype: Any) -> None:
    """1 + eps/2 lies midway; a last bit far below decides."""
    eps = float(np.finfo(dtype).eps)
    one, half, tiny = dtype(1), dtype(eps / 2), dtype(2.0**-100)
    up = fma(np.array([half]), np.array([one + dtype(eps)]), np.array([one]))
    even = fma(np.array([half]), np.array([one]), np.array([one]))
    down = fma(np.array([-tiny]), np.array([tiny]), np.array([one + dtype(eps)]))
    assert up[0] == 1 + eps
    assert even[0] == 1
    assert down[0] == 1 + eps


@pytest.mark.parametrize("dtype", FORMATS)
def test_fma_of_special_values(dtype: Any) -> None:
    inf, nan = dtype(np.inf), dtype(np.nan)
    zero = dtype(0)
    with np.errstate(all="ignore"):
        got = fma(
            np.array([inf, inf, zero, -zero, nan], dtype),
            np.array([dtype(1), zero, dtype(1), dtype(1), dtype(1)]),
            np.array([dtype(1), dtype(1), -zero, -zero, dtype(1)]),
        )
    assert got[0] == inf
    assert np.isnan(got[[1, 4]]).all()
    assert np.signbit(got[2:4]).tolist() == [False, True]


def test_shared_nodes_and_shifts() -> None:
    x = build.var("x", "int32")
    doubled = x + x
    values = np.array([1, -5, 1 << 30], np.int32)
    assert evaluate((doubled >> 1) ^ doubled, {x: values}).tolist() == [
        int(np.int32((int(d) >> 1) ^ int(d))) for d in (values + values).tolist()
    ]
