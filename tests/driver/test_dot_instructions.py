"""Products of narrow numbers by dot-product instructions: which one is taken, and that results are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import lpx
from lpx import dtypes, te
from lpx.codegen.cpu import lower_to_llvm
from lpx.ir.nodes import Function
from lpx.passes import pipeline
from lpx.rules.default import DefaultSchedule, default_schedule
from lpx.schedule import Trace, replay
from lpx.schedule.testing import check_equivalent
from lpx.target import Target
from tests.codegen import harness

TILES = Target.parse("cpu:sapphirerapids")
VECTORS = Target.parse("cpu:sapphirerapids,-amx-tile")
NEITHER = Target.parse("cpu:haswell")
FEATURES = {TILES: ("amx-int8", "amx-bf16"), VECTORS: ("avx512vnni", "avx512bf16")}
BYTES = ("uint8", "int8", "int32")
PAIRS = ("bfloat16", "bfloat16", "float32")

Kinds = tuple[str, str, str]
Array = NDArray[Any]


def product(m: int, k: int, n: int, kinds: Kinds, *, left: bool = False, right: bool = False) -> te.Tensor:
    """A B in a wider dtype; A or B may be stored by columns."""
    a = te.placeholder((k, m) if left else (m, k), kinds[0], name="A")
    b = te.placeholder((n, k) if right else (k, n), kinds[1], name="B")
    r = te.reduce_axis(k, name="r")

    def term(i: te.Scalar, j: te.Scalar) -> te.Scalar:
        factors = (a[r, i] if left else a[i, r], b[j, r] if right else b[r, j])
        return te.cast(factors[0], kinds[2]) * te.cast(factors[1], kinds[2])

    return te.compute((m, n), lambda i, j: te.sum(term(i, j), axis=r), name="C")


def drawn(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if dtype == "bfloat16":
        return rng.standard_normal(shape).astype(dtypes.bfloat16.to_numpy())
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def run(made: DefaultSchedule, target: Target, *arrays: Array, result: Array) -> Array:
    """The result of the machine code, run next to forbidden pages in a child process."""
    if not all(harness.HOST.cpu.has(feature) for feature in FEATURES.get(target, ())):
        pytest.skip("this processor does not have the instructions")
    function: Function = pipeline.lower(made.schedule.function, harness.HOST).function
    assert harness.run(function, [*arrays, result], []) == 0
    return result


def check_product(a: Array, b: Array, got: Array) -> None:
    """To the bit for integers; for bfloat16 within the rounding of each addition in float32."""
    if got.dtype == np.int32:
        np.testing.assert_array_equal(got, (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32))
        return
    a, b = a.astype(np.float64), b.astype(np.float64)
    bound = (a.shape[1] + 1) * 2.0**-24 * (np.abs(a) @ np.abs(b))
    assert np.all(np.abs(got - a @ b) <= bound + 1e-30)


@pytest.mark.parametrize(
    ("target", "kinds", "says"),
    [
        (TILES, BYTES, "x86.tdpbusd in tiles of 32 x 32"),
        (TILES, ("int8", "int8", "int32"), "x86.tdpbssd"),
        (TILES, ("int8", "uint8", "int32"), "x86.tdpbsud"),
        (TILES, ("uint8", "uint8", "int32"), "x86.tdpbuud"),
        (TILES, PAIRS, "x86.tdpbf16ps"),
        (VECTORS, BYTES, "x86.vpdpbusd.16 in tiles of 13 x 32"),
        (VECTORS, ("int8", "uint8", "int32"), "x86.vpdpbusd.16.swapped"),
        (VECTORS, PAIRS, "x86.vdpbf16ps.16"),
        (Target.parse("cpu:alderlake"), BYTES, "x86.vpdpbusd.8 in tiles of 6 x 16"),
        (NEITHER, BYTES, "contraction in register tiles"),
        (TILES, ("int8", "int8", "int64"), "contraction in register tiles"),
        (TILES, ("bfloat16", "bfloat16", "float64"), "contraction in register tiles"),
    ],
)
def test_the_widest_instruction_is_taken(target: Target, kinds: Kinds, says: str) -> None:
    notes = default_schedule(te.lower(product(64, 64, 64, kinds)), target).notes
    assert any(says in note for note in notes), notes


EDGES = [(1, 64, 16), (5, 3, 7), (17, 65, 33), (31, 64, 15), (32, 63, 32), (33, 1, 31), (64, 128, 96), (13, 4, 40)]


@pytest.mark.parametrize("shape", EDGES)
@pytest.mark.parametrize("kinds", [BYTES, PAIRS])
@pytest.mark.parametrize("target", [TILES, VECTORS])
def test_edges_of_tiles(target: Target, kinds: Kinds, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    made = default_schedule(te.lower(product(m, k, n, kinds)), target)
    a, b = drawn((m, k), kinds[0]), drawn((k, n), kinds[1], 1)
    check_product(a, b, run(made, target, a, b, result=np.zeros((m, n), kinds[2])))


@settings(max_examples=12)
@given(st.data())
def test_any_shape_and_signs(data: st.DataObject) -> None:
    m, k, n = (data.draw(st.integers(0, 70)) for _ in range(3))
    signs = (data.draw(st.sampled_from(["int8", "uint8"])), data.draw(st.sampled_from(["int8", "uint8"])), "int32")
    target = data.draw(st.sampled_from([TILES, VECTORS]))
    left, right = data.draw(st.booleans()), data.draw(st.booleans())
    made = default_schedule(te.lower(product(m, k, n, signs, left=left, right=right)), target)
    a, b = drawn((m, k), signs[0]), drawn((k, n), signs[1], 1)
    stored = [np.ascontiguousarray(x.T) if turned else x for x, turned in ((a, left), (b, right))]
    check_product(a, b, run(made, target, *stored, result=np.zeros((m, n), np.int32)))


@pytest.mark.parametrize("target", [TILES, VECTORS])
def test_the_interpreter_agrees_and_traces_replay(target: Target) -> None:
    function = te.lower(product(17, 65, 18, BYTES))
    made = default_schedule(function, target)
    check_equivalent(function, made.schedule.function)
    assert str(replay(Trace.from_json(made.schedule.trace.to_json()), function)) == str(made.schedule)


@pytest.mark.parametrize("target", [TILES, VECTORS])
@pytest.mark.parametrize("shared", [True, False])
def test_batches(target: Target, shared: bool) -> None:
    a = te.placeholder((3, 18, 20), "uint8", name="A")
    b = te.placeholder((20, 40) if shared else (3, 20, 40), "int8", name="B")
    r = te.reduce_axis(20, name="r")

    def element(z: te.Scalar, i: te.Scalar, j: te.Scalar) -> te.Scalar:
        return te.sum(te.cast(a[z, i, r], "int32") * te.cast(b[r, j] if shared else b[z, r, j], "int32"), axis=r)

    made = default_schedule(te.lower(te.compute((3, 18, 40), element, name="C")), target)
    x, y = drawn((3, 18, 20), "uint8"), drawn((20, 40) if shared else (3, 20, 40), "int8", 1)
    got = run(made, target, x, y, result=np.zeros((3, 18, 40), np.int32))
    np.testing.assert_array_equal(got, x.astype(np.int32) @ y.astype(np.int32))


@pytest.mark.parametrize("target", [TILES, VECTORS])
def test_an_epilogue_is_applied_to_each_tile(target: Target) -> None:
    """The sum becomes floats, is scaled by column, and loses its sign."""
    total = product(40, 64, 50, BYTES)
    scale = te.placeholder((50,), name="scale")
    scaled = te.compute((40, 50), lambda i, j: te.maximum(te.cast(total[i, j], "float32") * scale[j], 0.0), name="D")
    made = default_schedule(te.lower(scaled), target)
    assert any("D applied to each tile" in note for note in made.notes)
    a, b, s = drawn((40, 64), "uint8"), drawn((64, 50), "int8", 1), np.linspace(-1, 1, 50, dtype=np.float32)
    want = np.maximum((a.astype(np.int32) @ b.astype(np.int32)).astype(np.float32) * s, 0)
    params = [p.buffer.name for p in made.schedule.function.params]
    arrays = {"A": a, "B": b, "scale": s}
    got = run(made, target, *(arrays[name] for name in params[:-1]), result=np.zeros((40, 50), np.float32))
    np.testing.assert_array_equal(got, want)


def test_sums_wrap_and_do_not_saturate() -> None:
    """255 * 127 four times over is more than a pair of 16-bit sums would hold."""
    a, b = np.full((16, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    for target in (TILES, VECTORS):
        made = default_schedule(te.lower(product(16, 64, 16, BYTES)), target)
        assert np.all(run(made, target, a, b, result=np.zeros((16, 16), np.int32)) == 255 * 127 * 64)


def test_tile_registers_are_used_in_full() -> None:
    """Four tiles of sums, and each of the four operand tiles is loaded once for two products."""
    made = default_schedule(te.lower(product(64, 128, 64, BYTES)), TILES)
    flat = pipeline.lower(made.schedule.function, TILES).function
    text = harness.assembly(lower_to_llvm(flat, TILES), TILES)
    body = text[: text.index("tilestored")]
    assert body.count("tdpbusd") == body.count("tileloadd") == body.count("tilezero") == 4


@pytest.mark.parametrize(("kinds", "fewest"), [(BYTES, 4), (PAIRS, 8)])
def test_a_matrix_that_is_used_rarely_is_not_copied(kinds: Kinds, fewest: int) -> None:
    for rows in (1, fewest - 1, fewest):
        made = default_schedule(te.lower(product(rows, 256, 64, kinds)), TILES)
        assert any("packed" in note and "x86." in note for note in made.notes) == (rows == fewest), made.notes


def test_jit_multiplies_numbers_as_they_are_stored() -> None:
    """A cast for a product alone is part of its kernel; one that is a result too is not repeated."""
    a, b = drawn((8, 64), "int8"), drawn((64, 32), "int8", seed=1)
    wide = np.matmul(a.astype(np.int32), b.astype(np.int32))

    def product_of(x: Array, y: Array) -> Any:
        return np.matmul(x.astype(np.int32), y.astype(np.int32))

    def both(x: Array, y: Array) -> Any:
        left = x.astype(np.int32)
        return np.matmul(left, y.astype(np.int32)), left

    alone = lpx.jit(product_of)
    np.testing.assert_array_equal(alone(a, b), wide)
    assert len(alone.lower(a, b).kernels) == 1
    got, left = lpx.jit(both)(a, b)
    np.testing.assert_array_equal(got, wide)
    np.testing.assert_array_equal(left, a)
