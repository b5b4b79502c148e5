"""float64: many samples against the 80-bit extended format; on request a hundred million for each function."""

from __future__ import annotations

import numpy as np
import pytest

from lpx import te
from lpx.driver.build import Kernel
from lpx.driver.build import build as build_kernel
from lpx.expr import build, ops
from lpx.expr.vecmath import ULP_BOUNDS
from tests.vecmath.accuracy import Array, exact, working_precision
from tests.vecmath.extended import IS_EXTENDED, extended, ulps_extended
from tests.vecmath.multiprecision import mp

pytestmark = pytest.mark.skipif(not IS_EXTENDED, reason="needs the extended format")

CHUNK = 1 << 16
MANY = 100_000_000

RANGES: dict[str, tuple[int, int, float, float]] = {
    "exp": (-60, 10, -746, 710),
    "exp2": (-60, 11, -1076, 1025),
    "expm1": (-60, 10, -40, 710),
    "sigmoid": (-60, 10, -746, 746),
    "tanh": (-60, 6, -22, 22),
    "erf": (-60, 3, -6, 6),
    "log": (-1074, 1024, 0, np.inf),
    "log2": (-1074, 1024, 0, np.inf),
    "log10": (-1074, 1024, 0, np.inf),
    "rsqrt": (-1074, 1024, 0, np.inf),
    "log1p": (-60, 1024, -1, np.inf),
    "sin": (-30, 1024, -np.inf, np.inf),
    "cos": (-30, 1024, -np.inf, np.inf),
    "tan": (-30, 1024, -np.inf, np.inf),
    "asinh": (-60, 1024, -np.inf, np.inf),
    "acosh": (0, 1024, 1, np.inf),
    "atanh": (-60, 0, -1, 1),
}
"""Exponents from and up to which a function of one operand is tried, and the open interval of operands."""
NAMES = [*RANGES, "pow"]


def samples(name: str, rng: np.random.Generator, count: int) -> tuple[Array, ...]:
    """Operands: half of them of all exponents, half of common size; results of `pow` fill the range of exponents."""
    if name == "pow":
        x = _scaled(rng, count, -1074, 1024)
        x[::2] = rng.uniform(0.3, 3, x[::2].size)
        y = rng.uniform(-1080, 1030, count) / np.log2(x)
        y[::3] = _scaled(rng, y[::3].size, -40, 4)
        return x, y
    first, last, low, high = RANGES[name]
    x = _scaled(rng, count, first, last)
    x[::2] = _scaled(rng, x[::2].size, max(first, -5), min(last, 6))
    x *= rng.choice([-1.0, 1.0], count)
    return (np.where(x < low, -x, np.where((low < x) & (x < high), x, np.clip(rng.uniform(-1, 1, count), low, high))),)


def _scaled(rng: np.random.Generator, count: int, first: int, last: int) -> Array:
    return np.ldexp(rng.uniform(1, 2, count), rng.integers(first, last, count))


def _kernel(name: str, size: int) -> Kernel:
    operands = [te.placeholder((size,), "float64", name=x) for x in ("x", "y")[: ops.MATH[name].arity]]
    return build_kernel(te.compute((size,), lambda i: build.call(name, *[x[i] for x in operands]), name="z"))


def _worst(name: str, chunks: int) -> tuple[float, list[float]]:
    kernel, rng = _kernel(name, CHUNK), np.random.default_rng(sum(map(ord, name)))
    worst, at = 0.0, [0.0]
    for _ in range(chunks):
        args = samples(name, rng, CHUNK)
        errors = ulps_extended(kernel(*args), extended(name, *args))
        index = int(np.argmax(errors))
        if errors[index] > worst:
            worst, at = float(errors[index]), [float(a[index]) for a in args]
    return worst, at


@pytest.mark.parametrize("name", NAMES)
def test_error_is_within_the_bound(name: str) -> None:
    worst, at = _worst(name, 2)
    assert worst <= ULP_BOUNDS[name][1], at


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_error_of_a_hundred_million_samples_is_within_the_bound(name: str) -> None:
    worst, at = _worst(name, -(-MANY // CHUNK))
    assert worst <= ULP_BOUNDS[name][1], at


@pytest.mark.parametrize("name", NAMES)
def test_extended_reference_is_that_of_mpmath(name: str) -> None:
    """To a few units of the extended format's last place, 2**-11 of float64's."""
    args = samples(name, np.random.default_rng(9), 200)
    for got, row in zip(extended(name, *args), zip(*[a.tolist() for a in args], strict=True), strict=True):
        with mp.workprec(working_precision(name, *row)):
            true = exact(name, *row)
            if abs(true) >= mp.mpf(2) ** 1024 or abs(true) < mp.mpf(2) ** -1074:
                continue
            value = mp.mpf(int(np.ldexp(np.frexp(got)[0], 64))) * mp.mpf(2) ** (int(np.frexp(got)[1]) - 64)
            assert abs(value - true) <= abs(true) * mp.mpf(2) ** -61, row
