"""Compiled code gives the bits that the evaluation of an expansion gives; on request, all 2**32 float32 operands."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from lpx import te
from lpx.driver.build import Kernel, lower_program
from lpx.driver.build import build as build_kernel
from lpx.expr import build, ops
from lpx.expr.vecmath import ULP_BOUNDS
from tests.vecmath.accuracy import BINARY, UNARY, Array, compute, reference, special_values, worst_ulps

SIZE = 4099
CHUNK = 1 << 16


def _program(name: str, dtype: str, size: int) -> te.Tensor:
    operands = [te.placeholder((size,), dtype, name=x) for x in ("x", "y")[: ops.MATH[name].arity]]
    return te.compute((size,), lambda i: build.call(name, *[x[i] for x in operands]), name="z")


def _kernel(name: str, dtype: str, size: int) -> Kernel:
    return build_kernel(_program(name, dtype, size))


def _bits(x: Array) -> Array:
    """Bits, all NaNs alike."""
    return np.where(np.isnan(x), -1, x.view(f"i{x.itemsize}"))


def _operands(dtype: Any, count: int) -> list[Array]:
    rng = np.random.default_rng(5)
    special = special_values(dtype)
    found: list[Array] = []
    for _ in range(count):
        bits = rng.integers(0, 2**64, 2000, np.uint64).astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
        near = rng.uniform(-5, 5, SIZE - 2000).astype(dtype)
        near[: 4 * special.size] = rng.permutation(np.tile(special, 4))
        found.append(np.concatenate([bits, near]))
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ops.MATH)
def test_compiled_code_agrees_to_the_bit(name: str, dtype: Any) -> None:
    args = _operands(dtype, ops.MATH[name].arity)
    got = _kernel(name, np.dtype(dtype).name, SIZE)(*args)
    np.testing.assert_array_equal(_bits(got), _bits(compute(name, *args)))


BRANCHING = [
    ("exp", "float64"), ("exp2", "float32"), ("exp2", "float64"), ("log", "float32"), ("log", "float64"),
    ("log1p", "float64"), ("rsqrt", "float32"), ("sin", "float32"), ("cos", "float64"), ("tan", "float64"),
    ("pow", "float32"), ("pow", "float64"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), BRANCHING)
def test_common_operands_do_not_wait_for_rare_ones(name: str, dtype: str) -> None:
    """One branch on all lanes, no table in memory, and the slow quotients and roots behind the branch."""
    text = lower_program(_program(name, dtype, 1024), "cpu:avx512").asm
    assert "gather" not in text
    common = text[: text.index("kortest")] if "kortest" in text else ""
    assert common
    assert "sqrt" not in common
    assert "div" not in common or name == "tan"


@pytest.mark.parametrize(("name", "dtype"), [("tanh", "float32"), ("log2", "float32"), ("pow", "float64")])
def test_tables_are_registers(name: str, dtype: str) -> None:
    assert re.search(r"vperm([it]2)?p?[sdq]\s.*zmm", lower_program(_program(name, dtype, 1024), "cpu:avx512").asm)


@pytest.mark.long
@pytest.mark.parametrize("name", UNARY)
def test_every_float32_is_within_the_bound(name: str) -> None:
    """`pytest -m long tests/vecmath` tries all numbers: a minute or two for each function."""
    kernel = _kernel(name, "float32", CHUNK)
    worst, at = 0.0, 0.0
    for first in range(0, 2**32, CHUNK):
        x = np.arange(first, first + CHUNK, dtype=np.uint64).astype(np.uint32).view(np.float32)
        error, index = worst_ulps(kernel(x), reference(name, x))
        if error > worst:
            worst, at = error, float(x[index])
    assert worst <= ULP_BOUNDS[name][0], at


@pytest.mark.long
@pytest.mark.parametrize("name", BINARY)
def test_a_billion_pairs_are_within_the_bound(name: str) -> None:
    kernel = _kernel(name, "float32", CHUNK)
    rng = np.random.default_rng(6)
    for _ in range(240 * 64):
        x, y = _random_pairs(name, rng)
        error, _ = worst_ulps(kernel(x, y), reference(name, x, y))
        assert error <= max(ULP_BOUNDS[name][0], 0.5)  # of exact functions, whose other errors are whole units


def _random_pairs(name: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """Half of all bits, half of common size; half of the results of `pow` fill the range of exponents."""
    bits = rng.integers(0, 2**32, (2, CHUNK), np.uint64).astype(np.uint32).view(np.float32)
    near = np.ldexp(rng.uniform(1, 2, (2, CHUNK)), rng.integers(-8, 8, (2, CHUNK))).astype(np.float32)
    x, y = np.where(rng.random((2, CHUNK)) < 0.5, bits, near)
    if name != "pow":
        return x, y
    with np.errstate(all="ignore"):
        x = np.where(rng.random(CHUNK) < 0.25, rng.uniform(0.9, 1.1, CHUNK), np.abs(x)).astype(np.float32)
        fitting = rng.uniform(-152, 130, CHUNK) / np.log2(x.astype(np.float64))
        return x, np.where(rng.random(CHUNK) < 0.5, fitting, y).astype(np.float32)
