"""Loads and stores of every shape, next to pages that must not be touched; register, local and scratch buffers."""

from __future__ import annotations

import numpy as np
import pytest

from lpx import dtypes
from lpx.codegen.cpu import lower_to_llvm
from lpx.expr import build
from lpx.expr.buffer import Scope
from lpx.expr.nodes import Expr, Var
from lpx.ir.nodes import Alloc, Check, Function, Stmt
from lpx.ir.traverse import sequence
from lpx.target import Target
from tests.codegen.harness import (
    BASELINE,
    HOST,
    Array,
    Guard,
    assembly,
    buffer,
    check,
    function,
    load,
    run,
    serial,
    store,
)

AVX2 = Target.parse("cpu:x86-64-v3")
TARGETS = tuple(t for t in (HOST, AVX2, BASELINE) if t.runs_here)
STORABLE = ("bool", "int4", "int8", "int16", "float16", "float32", "int64", "float64")
SIDES: tuple[Guard, ...] = ("after", "before")


def numbers(dtype: str, size: int) -> Array:
    """Small distinct numbers, or a mix of bools."""
    if dtype == "bool":
        return np.array(np.arange(size) % 3 == 0)
    return (np.arange(size) % 7 + 1).astype(dtypes.parse(dtype).to_numpy())


def copy_through(dtype: str, source_size: int, index: Expr, lanes: int, mask: Expr | None = None) -> Function:
    """`R[0..lanes] = A[index]`, under a mask."""
    a, r = buffer("A", dtype, source_size), buffer("R", dtype, lanes)
    body = store(r, build.ramp(0, 1, lanes), load(a, index, mask))
    return function("read", {a: "in", r: "out"}, body)


@pytest.mark.parametrize("guard", SIDES)
@pytest.mark.parametrize("dtype", STORABLE)
def test_contiguous_reversed_and_strided_reads_stay_inside(dtype: str, guard: Guard) -> None:
    for lanes, stride in [
        (8, 1),
        (8, -1),
        (8, 2),
        (5, 2),
        (8, 3),
        (16, 3),
        (8, 4),
        (2, 4),
        (8, 5),
        (8, -2),
        (3, 1),
        (8, 0),
    ]:
        span = abs(stride) * (lanes - 1) + 1
        first = span - 1 if stride < 0 else 0
        program = copy_through(dtype, span, build.ramp(first, stride, lanes), lanes)
        check(program, {"A": numbers(dtype, span), "R": numbers(dtype, lanes)}, targets=TARGETS, guard=guard)


@pytest.mark.parametrize("guard", SIDES)
@pytest.mark.parametrize("dtype", STORABLE)
@pytest.mark.parametrize("stride", [1, -1, 2, 3])
def test_masked_reads_touch_only_lanes_that_are_on(dtype: str, stride: int, guard: Guard) -> None:
    lanes, count = 16, 11
    span = abs(stride) * (count - 1) + 1
    first = span - 1 if stride < 0 else 0
    on = build.compare("lt", build.ramp(0, 1, lanes), count)
    program = copy_through(dtype, span, build.ramp(first, stride, lanes), lanes, on)
    check(program, {"A": numbers(dtype, span), "R": numbers(dtype, lanes)}, targets=TARGETS, guard=guard)


@pytest.mark.parametrize("guard", SIDES)
@pytest.mark.parametrize("dtype", STORABLE)
@pytest.mark.parametrize("stride", [1, -1, 2, 3])
def test_masked_writes_touch_only_lanes_that_are_on(dtype: str, stride: int, guard: Guard) -> None:
    lanes, count = 16, 9
    span = abs(stride) * (count - 1) + 1
    first = span - 1 if stride < 0 else 0
    a, r = buffer("A", dtype, lanes), buffer("R", dtype, span)
    on = build.compare("le", build.ramp(1, 1, lanes), count)
    body = store(r, build.ramp(first, stride, lanes), load(a, build.ramp(0, 1, lanes)), on)
    program = function("write", {a: "in", r: "inout"}, body)
    check(program, {"A": numbers(dtype, lanes), "R": numbers(dtype, span)[::-1].copy()}, targets=TARGETS, guard=guard)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "float64"])
def test_gathers_and_scatters(dtype: str) -> None:
    lanes, size = 8, 40
    rng = np.random.default_rng(5)
    where = rng.permutation(size)[:lanes].astype(np.int64)
    i, a, r = buffer("I", "int64", lanes), buffer("A", dtype, size), buffer("R", dtype, size)
    indices = load(i, build.ramp(0, 1, lanes))
    on = build.compare("ne", build.binary("floormod", build.ramp(0, 1, lanes), 3), 1)
    for mask in (None, on):
        body = store(r, indices, load(a, indices, mask), mask)
        program = function("move", {i: "in", a: "in", r: "inout"}, body)
        inputs = {"I": where, "A": numbers(dtype, size), "R": numbers(dtype, size)[::-1].copy()}
        check(program, inputs, targets=TARGETS)


def test_off_lanes_of_gathers_may_have_any_index() -> None:
    lanes = 8
    i, a, r = buffer("I", "int64", lanes), buffer("A", "float32", 4), buffer("R", "float32", lanes)
    indices = load(i, build.ramp(0, 1, lanes))
    on = build.compare("lt", indices, 4)
    program = function("gather", {i: "in", a: "in", r: "out"}, store(r, build.ramp(0, 1, lanes), load(a, indices, on)))
    where = np.array([0, 1 << 40, 2, 1 << 60, 1, 10, 3, 99], np.int64)
    check(program, {"I": where, "A": numbers("float32", 4), "R": np.zeros(lanes, np.float32)}, targets=TARGETS)


def test_repeated_scatter_indices_keep_the_last_lane() -> None:
    a, r = buffer("A", "float32", 8), buffer("R", "float32", 1)
    program = function("last", {a: "in", r: "out"}, store(r, build.ramp(0, 0, 8), load(a, build.ramp(0, 1, 8))))
    check(program, {"A": numbers("float32", 8), "R": np.zeros(1, np.float32)}, targets=TARGETS)


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_scalar_masked_access_is_a_branch(dtype: str) -> None:
    a, r = buffer("A", dtype, 3), buffer("R", dtype, 8)
    i = build.var("i")
    inside = build.compare("lt", i, 3)
    body = serial(i, 8, store(r, i, load(a, i, inside), build.compare("ne", i, 5)))
    program = function("scalars", {a: "in", r: "inout"}, body)
    check(program, {"A": numbers(dtype, 3), "R": numbers(dtype, 8)[::-1].copy()}, targets=TARGETS)


def test_select_with_masked_loads_on_both_sides() -> None:
    a, b, r = buffer("A", "float32", 8), buffer("B", "float32", 8), buffer("R", "float32", 16)
    where = build.ramp(0, 1, 16)
    low = build.compare("lt", where, 8)
    value = build.select(low, load(a, where, low), load(b, build.ramp(-8, 1, 16), ~low))
    program = function("concat", {a: "in", b: "in", r: "out"}, store(r, where, value))
    inputs = {"A": numbers("float32", 8), "B": numbers("float32", 8) * 2, "R": np.zeros(16, np.float32)}
    for guard in SIDES:
        check(program, inputs, targets=TARGETS, guard=guard)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("lanes", [4, 16, 130])
def test_tail_masks_of_loops(lanes: int, dtype: str) -> None:
    n, i = build.var("n", dtype), build.var("i", dtype)
    a, r = buffer("A", "int8", n), buffer("R", "int8", n)
    index = build.ramp(i * lanes, 1, lanes)
    on = build.compare("lt", index, build.broadcast(n, lanes))
    trips = (n + (lanes - 1)) // lanes
    body = serial(i, trips, store(r, index, load(a, index, on), on), start=build.const(0, dtype))
    program = function("tail", {a: "in", r: "out"}, body, n)
    for size in (0, 1, lanes - 1, lanes, lanes + 1, 3 * lanes - 2):
        inputs = {"A": numbers("int8", size), "R": np.zeros(size, np.int8)}
        check(program, inputs, {"n": size}, targets=TARGETS if lanes < 100 else TARGETS[:1])


# --- buffers inside functions ---------------------------------------------------------------------------------------


def dot_product(scope: Scope, places: str) -> Function:
    """Sum of A * B over 64 elements with 8 partial sums in a temporary."""
    a, b, r = buffer("A", "float32", 64), buffer("B", "float32", 64), buffer("R", "float32", 1)
    t = buffer("T", "float32", 8, scope=scope)
    k = build.var("k")
    lanes = build.ramp(k * 8, 1, 8)
    wide = build.ramp(0, 1, 8)
    product = load(a, lanes) * load(b, lanes)
    if places == "overlapping":  # the sums are also read one by one
        total: Expr = load(t, 0)
        for lane in range(1, 8):
            total = total + load(t, lane)
    else:
        total = build.horizontal_reduce("add", load(t, wide))
    body = sequence(
        [
            store(t, wide, build.broadcast(build.const(0.0), 8)),
            serial(k, 8, store(t, wide, load(t, wide) + product)),
            store(r, 0, total),
        ]
    )
    return function("dot", {a: "in", b: "in", r: "out"}, Alloc(t, body))


@pytest.mark.parametrize("places", ["disjoint", "overlapping"])
@pytest.mark.parametrize("scope", ["register", "local", "global"])
def test_temporaries_of_every_scope(scope: Scope, places: str) -> None:
    rng = np.random.default_rng(6)
    inputs = {name: rng.standard_normal(64).astype(np.float32) for name in "AB"}
    check(dot_product(scope, places), {**inputs, "R": np.zeros(1, np.float32)}, targets=TARGETS)


def test_register_slots_are_promoted() -> None:
    text = assembly(lower_to_llvm(dot_product("register", "disjoint"), HOST), HOST)
    assert "rsp" not in text


def test_masked_register_stores_keep_other_lanes() -> None:
    t, a, r = buffer("T", "int32", 8, scope="register"), buffer("A", "int32", 8), buffer("R", "int32", 8)
    wide = build.ramp(0, 1, 8)
    on = build.compare("lt", load(a, wide), 4)
    body = sequence(
        [
            store(t, wide, build.broadcast(build.const(7, "int32"), 8)),
            store(t, wide, load(a, wide), on),
            store(r, wide, load(t, wide, ~on)),
        ]
    )
    program = function("blend", {a: "in", r: "out"}, Alloc(t, body))
    check(program, {"A": np.arange(8, dtype=np.int32), "R": np.zeros(8, np.int32)}, targets=TARGETS)


def scratch_program(size: int | Expr, *symbols: Var, failing: bool = False) -> Function:
    """Doubles A through a temporary of `size` elements; with a check between that may fail."""
    a, r = buffer("A", "float32", size), buffer("R", "float32", size)
    t = buffer("T", "float32", size, scope="local")
    i, j = build.var("i"), build.var("j")
    checks: list[Stmt] = [Check(build.compare("lt", load(a, 0), 100.0), "too large")] if failing else []
    body = sequence([serial(i, size, store(t, i, load(a, i) * 2.0)), *checks, serial(j, size, store(r, j, load(t, j)))])
    return function("scratch", {a: "in", r: "out"}, Alloc(t, body), *symbols)


def test_large_and_symbolic_temporaries_come_from_scratch_memory() -> None:
    n = build.var("n")
    large = scratch_program(10_000)
    assert "lpx_scratch_acquire" in lower_to_llvm(large, HOST).text
    check(large, {"A": numbers("float32", 10_000), "R": np.zeros(10_000, np.float32)})
    for size in (0, 1, 1000):
        program = scratch_program(n, n)
        check(program, {"A": numbers("float32", size), "R": np.zeros(size, np.float32)}, {"n": size})


def test_scratch_memory_is_given_back_when_a_check_fails() -> None:
    n = build.var("n")
    program = scratch_program(n, n, failing=True)
    arrays = [np.full(1 << 20, 200.0, np.float32), np.zeros(1 << 20, np.float32)]
    for _ in range(3):
        assert run(program, arrays, [1 << 20]) == 1
    text = lower_to_llvm(program, HOST).text
    assert text.count("@lpx_scratch_release(ptr %") == 1  # one exit, through which every path goes


def test_scratch_that_cannot_be_had_is_a_status() -> None:
    n, a = build.var("n"), buffer("A", "float32", 1)
    t = buffer("T", "float32", n, scope="local")
    program = function("huge", {a: "inout"}, Alloc(t, sequence([store(t, 0, load(a, 0)), store(a, 0, load(t, 0))])), n)
    assert run(program, [np.ones(1, np.float32)], [1 << 60]) == -2


def test_constants_in_code_and_bound_by_pointer() -> None:
    small, large = np.arange(8, dtype=np.float32), np.arange(1000, dtype=np.float32)
    for data in (small, large):
        c, r = buffer("C", "float32", len(data)), buffer("R", "float32", len(data))
        i = build.var("i")
        program = function("constants", {r: "out"}, serial(i, len(data), store(r, i, load(c, i))), constants={c: data})
        generated = lower_to_llvm(program, HOST)
        assert generated.bound == ((c,) if data is large else ())
        got = np.zeros_like(data)
        assert run(program, [got], bound=[data] if data is large else []) == 0
        np.testing.assert_array_equal(got, data)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("lanes", [8, 16, 32])
@pytest.mark.parametrize(
    ("wide", "narrow"), [("int32", "int8"), ("int32", "int16"), ("int64", "int32"), ("float32", "bfloat16")]
)
def test_one_lane_of_truncated_numbers_is_stored_alone(target: Target, lanes: int, wide: str, narrow: str) -> None:
    """The element behind it lies next to a page that must not be touched."""
    a, r = buffer("A", wide, lanes), buffer("R", narrow, 1)
    every = build.ramp(0, 1, lanes)
    first = every < build.broadcast(build.const(1, "int64"), lanes)
    body = store(r, every, build.cast(load(a, every), narrow), first)
    one = np.zeros(1, dtypes.parse(narrow).to_numpy())
    check(function("first", {a: "in", r: "out"}, body), {"A": numbers(wide, lanes), "R": one}, targets=(target,))
