"""Every ufunc of the table on every dtype NumPy takes that lpx has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lpx
from lpx.frontends.numpy import registry
from tests.frontends.numpy.comparing import Array, assert_same, flat, run_numpy

INTEGERS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64".split()
FLOATS = "float16 float32 float64".split()
LOOPS = ["bool", "int8", "uint16", "int64", *FLOATS]
"""Dtypes that reach each loop of a ufunc of floats: small integers compute in float16 and float32, large in float64."""

EXACT = set(
    "add subtract multiply divide negative positive conjugate absolute fabs sqrt square reciprocal maximum minimum "
    "fmax fmin rint floor ceil trunc copysign nextafter spacing ldexp frexp modf sign signbit isnan isinf isfinite "
    "heaviside equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not "
    "bitwise_and bitwise_or bitwise_xor invert left_shift right_shift bitwise_count "
    "floor_divide remainder fmod divmod".split()
)
ULPS = {"logaddexp2": 4.0, "power": 3.0, "float_power": 3.0, "logaddexp": 4.0}
ZEROS = ("maximum", "minimum", "fmax", "fmin", "nextafter")
"""Of two zeros of different sign, NumPy gives either."""

DIVISIONS = ("floor_divide", "remainder", "fmod", "divmod", "reciprocal")
ELEMENTWISE = sorted((u for u in registry.UFUNCS if u.signature is None), key=lambda u: str(u.__name__))


def samples(dtype: str, shift: int) -> Array:
    """Nine elements with the extremes of the dtype, rotated by `shift` so that operands meet in many ways."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        values: Array = np.array([1, 0, 1, 1, 0, 0, 1, 0, 1], kind)
    elif kind.kind == "f":
        values = np.array([0.0, -0.0, 1.5, -2.5, np.nan, np.inf, -np.inf, 0.3, 7.0], kind)
    else:
        info = np.iinfo(kind)
        small = [0, 1, 2, 3, 5, 7] if kind.kind == "u" else [0, -1, 2, -3, 5, -7]
        values = np.array([*small, info.max, info.min, info.max - 1], kind)
    return np.roll(values, shift)


def operands(ufunc: np.ufunc, dtype: str) -> list[Array]:
    """Samples of a dtype that NumPy computes without an error."""
    arrays = [samples(dtype, shift) for shift in range(ufunc.nin)]
    if ufunc is np.ldexp:
        arrays[1] = np.array([0, 1, -3, 5, 2000, -2000, 3, -30, 10], np.int32)
    if ufunc.__name__ in DIVISIONS and np.dtype(dtype).kind != "f":
        arrays[-1] = np.where(arrays[-1] == 0, 1, arrays[-1]).astype(dtype)
    if ufunc is np.power and np.dtype(dtype).kind != "f":
        arrays[1] = np.arange(9).astype(dtype)
    return arrays


def takes(ufunc: np.ufunc, arrays: list[Array]) -> bool:
    try:
        run_numpy(lambda: ufunc(*arrays), {})
    except TypeError:
        return False
    return True


def calling(ufunc: np.ufunc) -> Callable[..., Any]:
    """A function that applies the ufunc to each `nin` of its arguments in turn."""

    def apply(*arrays: Any) -> Any:
        return tuple(flat(*(ufunc(*arrays[k : k + ufunc.nin]) for k in range(0, len(arrays), ufunc.nin))))

    return apply


@pytest.mark.parametrize("ufunc", ELEMENTWISE, ids=lambda u: str(u.__name__))
def test_ufunc_on_all_dtypes(ufunc: np.ufunc) -> None:
    name = str(ufunc.__name__)
    dtypes = ["bool", *INTEGERS, *FLOATS] if name in EXACT else LOOPS
    groups = [arrays for dtype in dtypes if takes(ufunc, arrays := operands(ufunc, dtype))]
    assert groups, "no dtype is tested"
    arguments = [a for arrays in groups for a in arrays]
    function = calling(ufunc)
    wanted = run_numpy(lambda: function(*arguments), {})
    got = flat(lpx.jit(function)(*arguments))
    for k, (g, w) in enumerate(zip(got, wanted, strict=True)):
        label = f"np.{name} of {[str(a.dtype) for a in groups[k // ufunc.nout]]}"
        if name in EXACT or w.dtype.kind != "f":
            assert_same(label, g, w)
            if name not in ZEROS:
                np.testing.assert_array_equal(signs(g), signs(w), err_msg=label)
        else:
            assert_near(label, g, w, ULPS.get(name, 2.0))


def signs(x: Array) -> Array:
    """The sign bits, those of zeros among them; NaN counts as positive."""
    numbers = x.astype(np.float64)
    return np.signbit(numbers) & ~np.isnan(numbers)


def assert_near(label: str, got: Array, wanted: Array, ulps: float) -> None:
    """Equal but for `ulps` units in the last place of each element."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), label
    ordinary = np.isfinite(wanted) & np.isfinite(got)
    np.testing.assert_array_equal(got[~ordinary], wanted[~ordinary], err_msg=label)
    distance = np.abs(got[ordinary].astype(np.float64) - wanted[ordinary].astype(np.float64))
    assert np.all(distance <= ulps * np.spacing(np.abs(wanted[ordinary])).astype(np.float64)), (label, got, wanted)


def test_every_ufunc_is_tested() -> None:
    products = [u for u in registry.UFUNCS if u.signature is not None]
    assert {u.__name__ for u in products} == {"matmul", "vecdot", "matvec", "vecmat"}
    assert len(ELEMENTWISE) + len(products) == len(registry.UFUNCS)


def test_products() -> None:
    rng = np.random.default_rng(0)
    for dtype in ("bool", "int8", "uint64", "float32", "float64"):
        a, b = (rng.integers(-5, 5, shape).astype(dtype) for shape in ((2, 3, 4), (2, 4, 3)))
        v = rng.integers(-5, 5, 4).astype(dtype)

        def products(a: Any, b: Any, v: Any) -> Any:
            return a @ b, v @ b, a @ v, v @ v, np.vecdot(a, v), np.matvec(a, v), np.vecmat(v, b)

        for got, want in zip(lpx.jit(products)(a, b, v), products(a, b, v), strict=True):
            assert_same(dtype, got, np.asarray(want), 4.0)


def test_mixed_signs_compare_as_numbers() -> None:
    signed = np.array([-1, 0, 1, 2**63 - 1, -(2**63)], np.int64)
    unsigned = np.array([2**64 - 1, 0, 2**63, 2**63 - 1, 2**63], np.uint64)

    def compare(a: Any, b: Any) -> Any:
        return a < b, a <= b, a > b, a >= b, a == b, a != b, b < a, b <= a, b > a, b >= a, b == a, b != a

    for got, want in zip(lpx.jit(compare)(signed, unsigned), compare(signed, unsigned), strict=True):
        np.testing.assert_array_equal(got, want)


def test_integers_beyond_the_dtype_compare_as_numbers() -> None:
    x = np.array([0, 1, 255], np.uint8)

    def compare(x: Any) -> Any:
        return x < 300, x == -1, x > -5, x < 300, x != 256, x >= 300, x < 2**70, x == -(2**70)

    for got, want in zip(lpx.jit(compare)(x), compare(x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_methods_of_ufuncs() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)

    def methods(x: Any) -> Any:
        return (
            np.add.reduce(x),
            np.add.reduce(x, axis=None),
            np.maximum.reduce(x, axis=1, keepdims=True),
            np.multiply.accumulate(x, axis=1),
            np.add.accumulate(x),
            np.subtract.outer(x[0], x[1]),
            np.logical_or.reduce(x),
        )

    for got, want in zip(lpx.jit(methods)(x), methods(x), strict=True):
        assert_same("method", got, np.asarray(want))


def test_out_where_and_dtype() -> None:
    x = np.arange(6, dtype=np.float32)

    def options(x: Any) -> Any:
        out = np.zeros_like(x)
        np.divide(1, x, out=out, where=x != 0)
        quotient, remainder = np.empty_like(x), np.empty_like(x)
        np.divmod(x, 4, out=(quotient, remainder))
        return out, quotient, remainder, np.add(x, x, dtype=np.float64), np.sqrt(x.astype(np.int8), dtype=np.float32)

    for got, want in zip(lpx.jit(options)(x), run_numpy(options, {"x": x}), strict=True):
        assert_same("options", got, want)


@pytest.mark.parametrize("power", [-1, 0, 0.5, 1, 2, 3, 2.5])
def test_known_powers(power: float) -> None:
    x = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan], np.float32)
    i = np.array([0, 1, -2, 7, 127], np.int8)

    def powers(x: Any, i: Any) -> Any:
        return (x**power, np.power(x, power)) + ((i**power,) if power in (0, 1, 2, 3) else ())

    for got, want in zip(lpx.jit(powers)(x, i), run_numpy(powers, {"x": x, "i": i}), strict=True):
        assert_near(f"power {power}", got, want, 2.0) if want.dtype.kind == "f" else assert_same("power", got, want)
