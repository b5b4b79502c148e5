"""Conversions between every two dtypes: exhaustive over the 16- and 8-bit formats, on the host and on bare x86-64."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from lpx import dtypes
from lpx.dtypes import DType
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.ir.scalars import cast as reference_cast
from lpx.ir.traverse import sequence
from lpx.target import Target
from tests.codegen.harness import (
    BASELINE,
    HOST,
    Array,
    assert_same_bits,
    buffer,
    check,
    elementwise,
    function,
    run,
    store,
)

NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
TARGETS = [pytest.param(HOST, id="host"), pytest.param(BASELINE, id="x86-64")]
LANES = 16


def converted(values: Array, source: str, target_dtype: str, target: Target, lanes: int = LANES) -> Array:
    """`values` after the compiled conversion."""
    size = len(values)

    def compute(a: Expr) -> Expr:
        return build.cast(a, target_dtype)

    program = elementwise("convert", target_dtype, [("A", source)], compute, size, lanes)
    result = np.zeros(size, dtypes.parse(target_dtype).to_numpy())
    assert run(program, [values, result], target=target) == 0
    return result


def expected(values: Array, source: str, target_dtype: str) -> Array:
    convert = reference_cast(dtypes.parse(source), dtypes.parse(target_dtype))
    kind = float if dtypes.parse(source).is_float else int
    return np.array([convert(kind(v)) for v in values], dtypes.parse(target_dtype).to_numpy())


def all_codes(dtype: str) -> Array:
    """Every bit pattern of an 8- or 16-bit dtype."""
    bits = dtypes.parse(dtype).bits
    return np.arange(1 << bits, dtype=f"u{bits // 8}").view(dtypes.parse(dtype).to_numpy())


def neighbours(dtype: str, wide: str) -> Array:
    """Values of a wide float around which rounding to a narrow one changes: the narrow values, the midpoints between
    them, and the wide values right beside both.
    """
    with np.errstate(invalid="ignore"):  # signalling NaNs
        codes = all_codes(dtype).astype(np.float64)
    values = np.unique(codes[np.isfinite(codes)])
    midpoints = (values[1:] + values[:-1]) / 2
    beyond = np.array([values[-1] * f for f in (1.0625, 1.125, 1.25, 1.5, 2, 1e30)])
    points = np.concatenate([values, midpoints, beyond, -beyond, [np.nan, np.inf, -np.inf, -0.0]])
    with np.errstate(over="ignore"):
        points = points.astype(wide)
    beside = [np.nextafter(points, np.array(d, wide)) for d in (-np.inf, np.inf)]
    everything = np.concatenate([points, *beside])
    return np.resize(everything, -(-len(everything) // LANES) * LANES)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", NARROW)
def test_every_narrow_value_widens_exactly(dtype: str, target: Target) -> None:
    codes = all_codes(dtype)
    for wide in ("float32", "float64"):
        with np.errstate(invalid="ignore"):  # signalling NaNs
            want = codes.astype(wide)
        assert_same_bits(converted(codes, dtype, wide, target), want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("wide", ["float32", "float64"])
def test_narrowing_rounds_to_nearest_even_around_every_value(dtype: str, wide: str, target: Target) -> None:
    values = neighbours(dtype, wide)
    assert_same_bits(converted(values, wide, dtype, target), expected(values, wide, dtype))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_scalar_code_narrows_as_vector_code_does(dtype: str, target: Target) -> None:
    values = neighbours(dtype, "float64")[::7].copy()
    assert_same_bits(converted(values, "float64", dtype, target, lanes=1), expected(values, "float64", dtype))


def test_random_bits_narrow_correctly() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 1 << 64, 4096, np.uint64, endpoint=False).view(np.float64)
    for dtype in NARROW:
        assert_same_bits(converted(values, "float64", dtype, BASELINE), expected(values, "float64", dtype), dtype)


INTEGERS = ("bool", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64", *NARROW)


def corner_values(dtype: DType) -> Array:
    if dtype.is_float:
        edges = [
            0.0,
            0.3,
            0.5,
            0.9999,
            1.0,
            1.5,
            2.5,
            3.0,
            7.0,
            8.0,
            15.5,
            127.0,
            128.0,
            255.5,
            256.0,
            32767.0,
            65535.0,
        ]
        powers = [2.0**k * s for k in (15, 16, 31, 32, 53, 62, 63, 64, 70) for s in (1 - 2.0**-24, 1, 1 + 2.0**-23)]
        both = [s * v for v in edges + powers for s in (1, -1)]
        with np.errstate(over="ignore"):
            return np.array([*both, np.inf, -np.inf, np.nan, 1e-40], np.float64).astype(dtype.to_numpy())
    if dtype.is_bool:
        return np.array([True, False])
    offsets = range(-2, 3)
    around = {c + o for c in (0, 1 << 24, 1 << 53, 1 << 62, 3 << 40, dtype.max_value, dtype.min_value) for o in offsets}
    ties = {(1 << 40) + (1 << 32) + o for o in (-1, 0, 1)} | {(1 << 56) + (1 << 48) + o for o in (-1, 0, 1)}
    legal = sorted(v for v in around | ties | {-t for t in ties} if dtype.min_value <= v <= dtype.max_value)
    return np.array([*legal], np.int64 if dtype.is_signed else np.uint64).astype(dtype.to_numpy())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS])
def test_every_pair_of_dtypes(source: str, target: Target) -> None:
    values = corner_values(dtypes.parse(source))
    values = np.resize(values, -(-len(values) // LANES) * LANES)
    for result in (*INTEGERS, *FLOATS):
        if result != source:
            for lanes in (1, LANES) if target.is_host else (LANES,):
                got = converted(values, source, result, target, lanes)
                if dtypes.parse(result).bits == 4:
                    got = got.astype(np.int8).astype(got.dtype)
                want = expected(values, source, result)
                assert_same_bits(got, want, f"{source} to {result}, {lanes} lanes")


def test_bitcasts_keep_bits() -> None:
    for source, result in (
        ("float32", "int32"),
        ("int64", "float64"),
        ("float16", "bfloat16"),
        ("uint8", "float8_e5m2"),
    ):
        bits = dtypes.parse(source).bits
        values = np.random.default_rng(2).integers(0, 1 << bits, 64, np.uint64, endpoint=False).astype(f"u{bits // 8}")
        values = values.view(dtypes.parse(source).to_numpy())
        program = elementwise(
            "view", result, [("A", source)], functools.partial(build.bitcast, dtype=result), 64, LANES
        )
        got = np.zeros(64, dtypes.parse(result).to_numpy())
        assert run(program, [values, got]) == 0
        assert got.tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_constants_of_every_dtype(dtype: str) -> None:
    kind = dtypes.parse(dtype)
    values = [0, 1] if not kind.is_float else [0.0, -0.0, 1.0, -1.5, 0.25, np.nan, 448.0, 2.0**-9, 1e-5, np.inf]
    values += [kind.min_value, kind.max_value] if not kind.is_float else []
    consts = [build.const(v, kind) for v in values]
    out = buffer("R", kind, len(values))
    program = function("constants", {out: "out"}, sequence([store(out, i, c) for i, c in enumerate(consts)]))
    check(program, {"R": np.zeros(len(values), kind.to_numpy())})
