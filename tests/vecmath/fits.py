"""What every stored polynomial approximates, and how closely: the way to find its coefficients again.

`python -m tests.vecmath.fits NAME` prints the coefficients of one fit; the tests compare stored ones with their error.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lpx.expr.vecmath import (
    error_function,
    exponential,
    hyperbolic,
    inverse_trigonometric,
    logarithm,
    power,
    tanh_table,
    trigonometric,
)
from tests.vecmath.multiprecision import Real, mp
from tests.vecmath.remez import BITS, Function, Grid, polynomial, rounded_minimax


@dataclass(frozen=True, slots=True)
class Fit:
    """`stored` approximates `function` on [low, high] with weighted errors of at most 2**bits.

    `refit` is how many coefficients were rounded one by one, as `rounded_minimax` takes it.
    """

    name: str
    stored: Sequence[float]
    dtype: type[np.floating[Any]]
    function: Function
    low: Any
    high: Any
    weight: Function
    bits: float
    refit: int = 4

    def grid(self) -> Grid:
        return Grid.of(self.function, self.low, self.high, len(self.stored), self.weight)

    def error(self) -> float:
        """The largest weighted error of the stored coefficients."""
        return float(max(abs(e) for e in self.grid().errors([mp.mpf(c) for c in self.stored], 0)))

    def derive(self) -> list[float]:
        """The coefficients anew."""
        return rounded_minimax(self.grid(), 0, len(self.stored), self.dtype, self.refit)


def _even(function: Function, terms: Sequence[Real]) -> Callable[[Real], Real]:
    """function(x) less leading `terms` in z = x**2, divided by the next power of z, as a function of z."""

    def rest(z: Real) -> Real:
        return (function(mp.sqrt(z)) - polynomial(terms, z)) / z ** len(terms)

    return rest


def _odd(function: Function) -> Function:
    """(function(x) / x - 1) / x**2 as a function of z = x**2."""
    return lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - 1) / z


def _exp_tail(r: Real) -> Real:
    return (mp.expm1(r) - r) / r**2


def _log_tail(r: Real) -> Real:
    return (mp.log1p(r) - r) / r**2


def _log_cubic(r: Real) -> Real:
    return (mp.log1p(r) - r + r**2 / 2) / r**3


def _scaled_erfc(centre: float) -> Function:
    def scaled(q: Real) -> Real:
        x = centre * (1 + q) / (1 - q)
        return mp.exp(x * x) * mp.erfc(x) * (x + centre)

    return scaled


def _q_of(limit: float, centre: float) -> Real:
    return (mp.mpf(limit) - centre) / (mp.mpf(limit) + centre)


def _ratio(function: Function) -> Function:
    """function(x) / x as a function of z = x**2."""
    return lambda z: function(mp.sqrt(z)) / mp.sqrt(z)


def _tanh_pieces() -> list[Fit]:
    """The pieces of tanh in float32: the one that begins at 0, without its constant term, and the others."""
    columns = list(zip(*tanh_table.TANH_COEFFICIENTS, strict=True))
    edges = sorted({*tanh_table.TANH_EDGES})
    fits: list[Fit] = []
    for number, (edge, end) in enumerate(itertools.pairwise([*edges, tanh_table.LAST])):
        stored = columns[(_FIRST_PIECE + number) % len(columns)]
        if number:
            tanh = _moved(mp.tanh, edge)
        else:
            stored, tanh = stored[1:], _tanh_ratio
        high = mp.mpf(end) - edge
        fits.append(Fit(f"tanh_32_{number}", stored, np.float32, tanh, 0, high, _inverse(tanh), -24.1, 3))
    return fits


_FIRST_PIECE = 6
"""The place of the piece that begins at 0, by the bits of 1.0."""


def _tanh_ratio(x: Real) -> Real:
    return mp.tanh(x) / x


def _moved(function: Function, start: float) -> Function:
    return lambda t: function(start + t)


def _inverse(function: Function) -> Function:
    return lambda t: 1 / function(t)


def _both(
    name: str,
    stored: tuple[Sequence[float], Sequence[float]],
    bits: tuple[float, float],
    function: Function,
    low: Real,
    high: Real,
    weight: Function,
) -> list[Fit]:
    """The fits of one function for both formats."""
    return [
        Fit(f"{name}_32", stored[0], np.float32, function, low, high, weight, bits[0]),
        Fit(f"{name}_64", stored[1], np.float64, function, low, high, weight, bits[1]),
    ]


def _fits() -> list[Fit]:
    single, double = np.float32, np.float64
    half_ln2, third = mp.log(2) / 2 * mp.mpf("1.001"), mp.mpf(1) / 3
    half = mp.mpf("0.5005")
    table, short_table = mp.mpf("0.0303"), mp.mpf("0.0495")
    turn_single, turn_double = (mp.mpf("0.563") * mp.pi / 2) ** 2, (mp.mpf("0.501") * mp.pi / 2) ** 2
    quarter = mp.mpf("0.2501")

    erfc_32, erfc_64 = error_function.ERFC_CENTRES
    limit_32, limit_64 = error_function.ERFC_LIMITS
    small_32, small_64 = error_function.SMALL
    error_ratio = _ratio(mp.erf)
    sine = _odd(mp.sin)
    cosine = _even(mp.cos, [mp.mpf(1), mp.mpf(-1) / 2])

    def cosine_weight(z: Real) -> Real:
        return z**2 / mp.cos(mp.sqrt(z))

    return [
        *_both("exp", (exponential.EXP_32, exponential.EXP_64), (-28.2, -57.8),
              _exp_tail, -half_ln2, half_ln2, lambda r: r**2 / mp.exp(r)),
        *_both("expm1", (exponential.EXPM1_32, exponential.EXPM1_64), (-26.0, -61.6),
              _exp_tail, -half_ln2, half_ln2, lambda r: r**2 / mp.expm1(r)),
        *_both("exp2", (exponential.EXP2_32, exponential.EXP2_64), (-26.2, -57.1),
              lambda r: (2**r - 1) / r, -half, half, lambda r: r / 2**r),
        Fit("log_32", (-0.5, *logarithm.LOG_32), single, lambda f: (mp.log1p(f) - f) / f**2, -third, third,
            lambda f: f**2 / mp.log1p(f), -27.5),
        Fit("short_log_32", logarithm.SHORT_LOG_32, single, _log_tail, -table, table, lambda r: r**2 / mp.log1p(r),
            -30.6, 0),
        Fit("short_log_64", logarithm.SHORT_LOG_64, double, _log_tail, -table, table, lambda r: r**2 / mp.log1p(r),
            -56.6, 0),
        Fit("tanh_64", hyperbolic.TANH_64, double, _odd(mp.tanh), 0, mp.mpf(hyperbolic.TANH_NEAR) ** 2,
            lambda z: z / _ratio(mp.tanh)(z), -60.5),
        *_tanh_pieces(),
        *_both("sinh", (hyperbolic.SINH_32, hyperbolic.SINH_64), (-34.3, -61.6),
              _odd(mp.sinh), 0, half_ln2**2, lambda z: z),
        *_both("cosh", (hyperbolic.COSH_32, hyperbolic.COSH_64), (-33.2, -69.9),
              _even(mp.cosh, [mp.mpf(1), mp.mpf(1) / 2]), 0, half_ln2**2, lambda z: z**2),
        Fit("sin_32", trigonometric.SIN_32, single, sine, 0, turn_single, lambda z: z, -26.6),
        Fit("sin_64", trigonometric.SIN_64, double, sine, 0, turn_double, lambda z: z, -57.9),
        Fit("cos_32", trigonometric.COS_32, single, cosine, 0, turn_single, cosine_weight, -31.2),
        Fit("cos_64", trigonometric.COS_64, double, cosine, 0, turn_double, cosine_weight, -63.8),
        *_both("asin", (inverse_trigonometric.ASIN_32, inverse_trigonometric.ASIN_64), (-31.6, -59.8),
              _odd(mp.asin), 0, quarter, lambda z: z),
        *_both("atan", (inverse_trigonometric.ATAN_32, inverse_trigonometric.ATAN_64), (-28.3, -56.6),
              _odd(mp.atan), 0, 1, lambda z: z / _ratio(mp.atan)(z)),
        Fit("pow_32", power.LOG_CUBIC_32, single, _log_cubic, -short_table, short_table, lambda r: r**3, -38.3, 0),
        Fit("pow_64", power.LOG_CUBIC_64, double, _log_cubic, -short_table, short_table, lambda r: r**3, -67.9, 0),
        Fit("erf_32", error_function.ERF_32, single, lambda z: error_ratio(z) - 1, 0, mp.mpf(small_32) ** 2,
            lambda z: 1 / error_ratio(z), -28.5),
        Fit("erf_64", error_function.ERF_64, double, lambda z: error_ratio(z) - 1, 0, mp.mpf(small_64) ** 2,
            lambda z: 1 / error_ratio(z), -55.9),
        Fit("erf_complement_32", error_function.ERFC_32, single,
            lambda w: mp.erfc(w + mp.mpf(error_function.CENTRE_32)), mp.mpf("-1.375"), mp.mpf("1.375"),
            lambda w: mp.mpf(1), -27.6, 0),
        Fit("erf_complement_64", error_function.LOG_ERFC_64, double, lambda t: mp.log(mp.erfc(t)) / t, 1,
            mp.mpf(error_function.LIMIT_64), lambda t: mp.erfc(t) * t, -57.9),
        Fit("erfc_32", error_function.SCALED_ERFC_32, single, _scaled_erfc(erfc_32), -1, _q_of(limit_32, erfc_32),
            lambda q: 1 / _scaled_erfc(erfc_32)(q), -26.6),
        Fit("erfc_64", error_function.SCALED_ERFC_64, double, _scaled_erfc(erfc_64), -1, _q_of(limit_64, erfc_64),
            lambda q: 1 / _scaled_erfc(erfc_64)(q), -53.9, 0),
    ]  # fmt: skip


with mp.workprec(BITS):
    FITS = {fit.name: fit for fit in _fits()}

if __name__ == "__main__":
    with mp.workprec(BITS):
        print(*map(repr, FITS[sys.argv[1]].derive()), sep=",\n")
