"""Lookups in tables of constants, and selections whose first side is unlikely."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lpx.codegen.cpu import lower_to_llvm
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.ir import nodes as ir
from lpx.ir.traverse import sequence
from lpx.target import Target
from tests.codegen.harness import (
    BASELINE,
    HOST,
    Compute,
    assembly,
    buffer,
    check,
    elementwise,
    function,
    load,
    store,
)

TARGETS = [HOST, BASELINE, Target.parse("cpu:avx2")]


def _table(size: int) -> list[float]:
    return [1.0 / (i + 1) - 0.5 for i in range(size - 1)] + [-0.0]


def _picking(size: int, dtype: str) -> Compute:
    def pick(index: Expr) -> Expr:
        return build.lookup(_table(size), index, dtype)

    return pick


@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 16, 24, 32])
@pytest.mark.parametrize("size", [1, 2, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lookups_of_any_size(dtype: str, size: int, lanes: int) -> None:
    index = "int32" if dtype == "float32" else "int64"
    program = elementwise("pick", dtype, [("A", index)], _picking(size, dtype), 2 * lanes, lanes)
    rng = np.random.default_rng(size)
    values = rng.integers(-(2**31), 2**31, 2 * lanes).astype(index)
    check(program, {"A": values, "R": np.zeros(2 * lanes, dtype)}, targets=TARGETS)


@pytest.mark.parametrize("index", ["int8", "uint8", "int16", "uint32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_indices_of_any_dtype_count_by_their_low_bits(dtype: str, index: str) -> None:
    program = elementwise("pick", dtype, [("A", index)], _picking(16, dtype), 64, 16)
    values = np.random.default_rng(1).integers(0, 2**63, 64).astype(index)
    (_, result) = check(program, {"A": values, "R": np.zeros(64, dtype)}, targets=TARGETS)
    np.testing.assert_array_equal(result, np.array(_table(16), dtype)[values.astype(np.int64) % 16])


def _assembly(target: str, dtype: str, size: int, lanes: int) -> str:
    index = "int32" if dtype == "float32" else "int64"
    program = elementwise("pick", dtype, [("A", index)], _picking(size, dtype), 16 * lanes, lanes)
    return assembly(lower_to_llvm(program, Target.parse(target)), Target.parse(target))


@pytest.mark.parametrize(
    ("target", "dtype", "size", "lanes", "instruction"),
    [
        ("cpu:avx512", "float32", 16, 16, r"vpermps\s.*zmm"),
        ("cpu:avx512", "float32", 32, 16, r"vperm[it]2ps\s.*zmm"),
        ("cpu:avx512", "float64", 8, 8, r"vpermpd\s.*zmm"),
        ("cpu:avx512", "float64", 16, 8, r"vperm[it]2pd\s.*zmm"),
        ("cpu:avx2", "float32", 8, 8, r"vpermps\s.*ymm"),
        ("cpu:neon", "float32", 8, 4, r"tbl\s+v\d+\.16b, \{ v\d+\.16b, v\d+\.16b \}"),
        (
            "cpu:neon",
            "float32",
            16,
            8,
            r"tbl\s+v\d+\.16b, \{ v\d+\.16b - v\d+\.16b \}|tbl\s.*16b, v\d+\.16b, v\d+\.16b",
        ),
        ("cpu:neon", "float64", 2, 2, r"tbl\s+v\d+\.16b, \{ v\d+\.16b \}"),
    ],
)
def test_lookup_is_one_instruction(target: str, dtype: str, size: int, lanes: int, instruction: str) -> None:
    text = _assembly(target, dtype, size, lanes)
    assert re.search(instruction, text)
    assert "gather" not in text
    assert ".Ltable" not in text


@pytest.mark.parametrize(("target", "dtype"), [("cpu:x86-64", "float32"), ("cpu:avx2", "float64")])
def test_other_processors_read_memory(target: str, dtype: str) -> None:
    assert ".Ltable" in _assembly(target, dtype, 16, 4)


# --- unlikely ---------------------------------------------------------------------------------------------------------


def _slow(x: Expr) -> Expr:
    """Something that LLVM does not compute on speculation."""
    return build.call("sqrt", x) / (x + 3.0) / (x - 7.0)


@pytest.mark.parametrize("lanes", [1, 4, 16, 32])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_unlikely_means_a_plain_selection(lanes: int, share: float) -> None:
    def compute(x: Expr) -> Expr:
        return build.select(build.unlikely(x > 1.0), _slow(x), x * 2.0)

    program = elementwise("rare", "float32", [("A", "float32")], compute, 8 * lanes, lanes)
    rng = np.random.default_rng(int(10 * share))
    values = np.where(rng.random(8 * lanes) < share, rng.uniform(2, 5, 8 * lanes), -1.5).astype(np.float32)
    (_, result) = check(program, {"A": values, "R": np.zeros(8 * lanes, np.float32)})
    np.testing.assert_array_equal(result[values <= 1], -3.0)


def _shared_afterwards(x: Expr) -> Expr:
    slow = _slow(x)
    return build.select(build.unlikely(x > 4.5), slow * 2.0, x) + slow


def _shared_by_two(x: Expr) -> Expr:
    slow = _slow(x)
    return build.select(build.unlikely(x > 4.0), slow, x) + build.select(build.unlikely(x < 3.0), slow, x)


def _nested(x: Expr) -> Expr:
    inner = build.select(build.unlikely(x > 4.5), _slow(x), x * 3.0)
    return build.select(build.unlikely(x > 4.0), inner, x) + inner


def _shared_with_usual(x: Expr) -> Expr:
    slow = _slow(x)
    return build.select(build.unlikely(x > 4.0), slow + 1.0, slow)


@pytest.mark.parametrize("compute", [_shared_afterwards, _shared_by_two, _nested, _shared_with_usual])
@pytest.mark.parametrize("lanes", [1, 16])
def test_values_of_the_branch_are_not_used_after_it(compute: Compute, lanes: int) -> None:
    program = elementwise("shared", "float32", [("A", "float32")], compute, 64, lanes)
    values = np.random.default_rng(2).uniform(2, 4.2, 64).astype(np.float32)
    values[::16] = 5.0
    check(program, {"A": values, "R": np.zeros(64, np.float32)})


def test_values_of_the_branch_are_not_used_by_the_statement_after() -> None:
    a, r, s = (buffer(name, "float32", 16) for name in "ARS")
    lanes = build.ramp(0, 1, 16)
    x = load(a, lanes)
    slow = _slow(x)
    first = store(r, lanes, build.select(build.unlikely(x > 1.0), slow, x))
    program = function("two", {a: "in", r: "out", s: "out"}, sequence([first, store(s, lanes, slow)]))
    check(program, {"A": np.full(16, 0.5, np.float32), **{n: np.zeros(16, np.float32) for n in "RS"}})


def test_condition_that_all_lanes_share() -> None:
    a, r = buffer("A", "float32", 17), buffer("R", "float32", 16)
    lanes = build.ramp(0, 1, 16)
    x, shared = load(a, lanes), load(a, 16)
    chosen = build.select(build.broadcast(build.unlikely(shared > 0.0), 16), _slow(x), x)
    program: ir.Function = function("shared", {a: "in", r: "out"}, store(r, lanes, chosen))
    for last in (-1.0, 1.0):
        values = np.append(np.linspace(1, 2, 16), last).astype(np.float32)
        check(program, {"A": values, "R": np.zeros(16, np.float32)})


def _exceeds_one(x: Expr) -> Expr:
    return x > 1.0


def _rarely_exceeds_one(x: Expr) -> Expr:
    return build.unlikely(x > 1.0)


def test_unlikely_side_is_behind_a_branch() -> None:
    target = Target.parse("cpu:avx512")

    def text(condition: Compute) -> str:
        def compute(x: Expr) -> Expr:
            return build.select(condition(x), _slow(x), x * 2.0)

        program = elementwise("rare", "float32", [("A", "float32")], compute, 1024, 16)
        return assembly(lower_to_llvm(program, target), target)

    plain, branched = text(_exceeds_one), text(_rarely_exceeds_one)
    assert "vsqrtps" in plain
    assert "kortest" not in plain
    loop = branched[branched.index("kortest") :]
    assert "vsqrtps" in loop
    assert branched.count("vsqrtps") == 1
