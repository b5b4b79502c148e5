"""Broadcasts, ramps, shuffles, selections and horizontal reductions against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from lpx import dtypes
from lpx.codegen.cpu import lower_to_llvm
from lpx.expr import build
from lpx.expr.nodes import BinaryOp, Expr
from lpx.ir.traverse import sequence
from tests.codegen.harness import HOST, assembly, buffer, check, function, load, store


@pytest.mark.parametrize("lanes", [2, 3, 4, 5, 7, 8, 13, 16, 32])
@pytest.mark.parametrize("op", ["add", "mul", "min", "max"])
def test_horizontal_reductions_combine_in_halves(op: BinaryOp, lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    for dtype in ("float32", "int16"):
        a, r = buffer("A", dtype, lanes), buffer("R", dtype, 1)
        value = build.horizontal_reduce(op, load(a, build.ramp(0, 1, lanes)))
        program = function("reduce", {a: "in", r: "out"}, store(r, 0, value))
        values = (rng.standard_normal(lanes) * 100).astype(dtype)
        check(program, {"A": values, "R": np.zeros(1, dtype)})


@pytest.mark.parametrize("op", ["bitand", "bitor", "bitxor"])
def test_horizontal_reductions_of_bools(op: BinaryOp) -> None:
    a, r = buffer("A", "bool", 8), buffer("R", "bool", 1)
    value = build.horizontal_reduce(op, load(a, build.ramp(0, 1, 8)))
    for values in ([True] * 8, [False] * 8, [True] * 7 + [False]):
        check(
            function("reduce", {a: "in", r: "out"}, store(r, 0, value)), {"A": np.array(values), "R": np.zeros(1, bool)}
        )


SHUFFLES: list[tuple[list[int], list[int]]] = [
    ([8], [7, 6, 5, 4, 3, 2, 1, 0]),
    ([8], [3]),
    ([4, 4], [0, 4, 1, 5, 2, 6, 3, 7]),
    ([4, 4], [6]),
    ([1, 1, 1, 1], [3, 0, 1, 2]),
    ([4, 1], [0, 1, 2, 3, 4]),
    ([2, 4, 1, 3], [9, 0, 6, 3, 3, 7, 1]),
    ([4, 4, 4, 4], list(range(16))),
    ([8], [2, 2]),
]


@pytest.mark.parametrize(("widths", "indices"), SHUFFLES)
@pytest.mark.parametrize("dtype", ["float32", "bool", "int8"])
def test_shuffles_of_any_operands(widths: list[int], indices: list[int], dtype: str) -> None:
    total = sum(widths)
    a, r = buffer("A", dtype, total), buffer("R", dtype, len(indices))
    starts = [sum(widths[:k]) for k in range(len(widths))]
    vectors = [load(a, build.ramp(start, 1, width)) for start, width in zip(starts, widths, strict=True)]
    program = function(
        "shuffle", {a: "in", r: "out"}, store(r, build.ramp(0, 1, len(indices)), build.shuffle(vectors, indices))
    )
    values = (np.arange(total) % 3).astype(dtypes.parse(dtype).to_numpy())
    check(program, {"A": values, "R": np.zeros(len(indices), values.dtype)})


def test_ramps_with_constant_and_variable_strides() -> None:
    a, r = buffer("A", "int64", 2), buffer("R", "int64", 24)
    first, step = load(a, 0), load(a, 1)
    ramps: list[Expr] = [build.ramp(first, step, 8), build.ramp(0, 3, 8), build.ramp(first, -2, 8)]
    body = sequence([store(r, build.ramp(8 * k, 1, 8), value) for k, value in enumerate(ramps)])
    check(function("ramps", {a: "in", r: "out"}, body), {"A": np.array([5, -7]), "R": np.zeros(24, np.int64)})


def test_selects_by_lane_and_as_a_whole() -> None:
    a, r = buffer("A", "float32", 16), buffer("R", "float32", 16)
    wide = build.ramp(0, 1, 8)
    x, y = load(a, wide), load(a, build.ramp(8, 1, 8))
    body = sequence(
        [
            store(r, wide, build.select(build.compare("lt", x, y), x, y)),
            store(r, build.ramp(8, 1, 8), build.select(build.compare("lt", load(a, 0), load(a, 1)), x, y)),
        ]
    )
    program = function("select", {a: "in", r: "out"}, body)
    for seed in range(3):
        values = np.random.default_rng(seed).standard_normal(16).astype(np.float32)
        check(program, {"A": values, "R": np.zeros(16, np.float32)})


def test_a_node_used_twice_is_emitted_once() -> None:
    a, r = buffer("A", "float32", 8), buffer("R", "float32", 8)
    x: Expr = load(a, build.ramp(0, 1, 8))
    for _ in range(12):  # as a tree this has 4096 leaves
        x = x * x
    text = lower_to_llvm(function("powers", {a: "in", r: "out"}, store(r, build.ramp(0, 1, 8), x)), HOST).text
    assert text.count("fmul") == 12


def test_deep_expressions_need_no_recursion() -> None:
    a, r = buffer("A", "float32", 1), buffer("R", "float32", 1)
    x: Expr = load(a, 0)
    for _ in range(5000):
        x = x + 1.0
    program = function("deep", {a: "in", r: "out"}, store(r, 0, x))
    assert lower_to_llvm(program, HOST).text.count("fadd") == 5000


def test_relu_is_one_instruction() -> None:
    a, r = buffer("A", "float32", 16), buffer("R", "float32", 16)
    wide = build.ramp(0, 1, 16)
    program = function("relu", {a: "in", r: "out"}, store(r, wide, build.maximum(load(a, wide), 0.0)))
    text = assembly(lower_to_llvm(program, HOST), HOST)
    assert text.count("maxps") >= 1
    assert "cmpunord" not in text
