"""What the machine code of hot loops looks like, on this and on other processors."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lpx.codegen.cpu import lower_to_llvm
from lpx.errors import CompileError
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.ir import nodes as ir
from lpx.ir.traverse import sequence
from lpx.target import Target
from tests.codegen.harness import (
    HOST,
    Array,
    Compute,
    assembly,
    buffer,
    check,
    elementwise,
    function,
    load,
    run,
    serial,
    store,
)


def register_tile(rows: int, vectors: int, lanes: int, depth: int = 64) -> ir.Function:
    """C = A B for packed A (depth x rows) and B (depth x columns), the tile of C held in registers."""
    columns = vectors * lanes
    a, b, c = (buffer(n, "float32", s) for n, s in (("A", depth * rows), ("B", depth * columns), ("C", rows * columns)))
    tile = buffer("T", "float32", rows * columns, scope="register")
    k = build.var("k")
    places = [(r, v, build.ramp(r * columns + v * lanes, 1, lanes)) for r in range(rows) for v in range(vectors)]
    rights = [load(b, build.ramp(k * columns + v * lanes, 1, lanes)) for v in range(vectors)]
    lefts = [build.broadcast(load(a, k * rows + r), lanes) for r in range(rows)]
    updates = [store(tile, at, build.call("fma", lefts[r], rights[v], load(tile, at))) for r, v, at in places]
    body = [
        *(store(tile, at, build.broadcast(build.const(0.0), lanes)) for _, _, at in places),
        serial(k, depth, *updates),
        *(store(c, at, load(tile, at)) for _, _, at in places),
    ]
    return function("tile", {a: "in", b: "in", c: "out"}, ir.Alloc(tile, sequence(body)))


@pytest.mark.parametrize(
    ("target", "shape", "instruction", "register"),
    [
        ("cpu:znver4", (14, 2, 16), "vfmadd231ps", "%zmm"),
        ("cpu:sapphirerapids", (28, 1, 16), "vfmadd231ps", "%zmm"),
        ("cpu:avx2", (6, 2, 8), "vfmadd231ps", "%ymm"),
        ("cpu:neon", (8, 3, 4), "fmla", r"v\d+\.4s"),
        ("cpu:neoverse-v1", (8, 3, 8), "fmla|fmad", r"z\d+\.s"),
    ],
)
def test_register_tiles_never_touch_the_stack(
    target: str, shape: tuple[int, int, int], instruction: str, register: str
) -> None:
    machine = Target.parse(target)
    text = assembly(lower_to_llvm(register_tile(*shape), machine), machine)
    rows, vectors, _ = shape
    assert len(re.findall(rf"\s({instruction})\s.*{register}", text)) == rows * vectors
    steps = [found.start() for found in re.finditer(instruction, text)]
    assert not re.search(r"\brsp\b|\[sp\b", text[steps[0] : steps[-1]])


def test_register_tiles_compute_what_they_should() -> None:
    rng = np.random.default_rng(7)
    inputs: dict[str, Array] = {
        "A": rng.standard_normal(64 * 3).astype("f4"),
        "B": rng.standard_normal(64 * 8).astype("f4"),
    }
    check(register_tile(3, 2, 4), {**inputs, "C": np.zeros(24, np.float32)})


@pytest.mark.parametrize("target", ["cpu:avx512", "cpu:avx2", "cpu:sse2", "cpu:neon", "cpu:sve", "cpu:rvv"])
def test_every_target_compiles_without_unknown_symbols(target: str) -> None:
    machine = Target.parse(target)
    for dtype in ("float32", "float64"):
        for compute, arity in ((_rounding, 1), (_fma, 3)):
            text = assembly(lower_to_llvm(_program(dtype, compute, arity), machine), machine)
            assert _called(text) <= {"lpx_soft_fma"}
    casts = [("float64", "float16"), ("float32", "bfloat16"), ("float16", "float64"), ("uint64", "float32")]
    for source, result in casts:
        program = elementwise("cast", result, [("A", source)], _cast_to(result), 16, 8)
        assert not _called(assembly(lower_to_llvm(program, machine), machine))


def _called(text: str) -> set[str]:
    return set(re.findall(r"^\s+(?:callq?|bl|tail)\s+(\S+)", text, re.MULTILINE))


def _program(dtype: str, compute: Compute, arity: int) -> ir.Function:
    return elementwise("ops", dtype, [(n, dtype) for n in "ABC"[:arity]], compute, 16, 8)


def _rounding(a: Expr) -> Expr:
    total = build.call("sqrt", a)
    for name in ("floor", "ceil", "trunc", "rint"):
        total = total + build.call(name, a)
    return total


def _fma(a: Expr, b: Expr, c: Expr) -> Expr:
    return build.call("fma", a, b, c)


def _cast_to(dtype: str) -> Compute:
    def compute(a: Expr) -> Expr:
        return build.cast(a, dtype)

    return compute


def _maximum(a: Expr, b: Expr) -> Expr:
    return build.maximum(a, b)


def test_maximum_takes_three_instructions() -> None:
    target = Target.parse("cpu:avx512")
    text = assembly(lower_to_llvm(_program("float32", _maximum, 2), target), target)
    assert text.count("vmaxps") == text.count("vcmpunordps") == 2  # two vectors of 8
    assert "vcmplt" not in text


def test_float16_uses_the_hardware_conversion() -> None:
    target = Target.parse("cpu:avx2")
    text = assembly(
        lower_to_llvm(elementwise("cast", "float16", [("A", "float32")], _cast_to("float16"), 16, 8), target), target
    )
    assert "vcvtps2ph" in text


@pytest.mark.parametrize("count", [16, 11])
def test_strided_reads_are_shuffles_not_gathers(count: int) -> None:
    a, r = buffer("A", "float32", 64), buffer("R", "float32", 16)
    on = None if count == 16 else build.compare("lt", build.ramp(0, 1, 16), count)
    program = function("even", {a: "in", r: "out"}, store(r, build.ramp(0, 1, 16), load(a, build.ramp(0, 2, 16), on)))
    target = Target.parse("cpu:avx512")
    text = assembly(lower_to_llvm(program, target), target)
    assert "vperm" in text
    assert "gather" not in text


def streaming_copy(kind: ir.ForKind = "serial") -> ir.Function:
    a, r = buffer("A", "float32", 1024), buffer("R", "float32", 1024)
    i = build.var("i")
    index = build.ramp(i * 16, 1, 16)
    loop = serial(i, 64, store(r, index, load(a, index)), kind=kind, pragmas={"nontemporal": True})
    return function("stream", {a: "in", r: "out"}, loop)


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_streaming_loops_store_past_the_caches_where_aligned(kind: ir.ForKind) -> None:
    target = Target.parse("cpu:avx512")
    text = assembly(lower_to_llvm(streaming_copy(kind), target), target)
    assert "vmovntps" in text
    assert "vmovups" in text
    assert "sfence" in text
    a, r = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    for guard in ("after", "before"):  # both are aligned: pages are
        assert run(streaming_copy(kind), [a, r], guard=guard) == 0
        np.testing.assert_array_equal(r, a)


def test_fast_math_flags_are_opt_in() -> None:
    def program(**attrs: str) -> ir.Function:
        a, b, r = (buffer(n, "float32", 16) for n in "ABR")
        wide = build.ramp(0, 1, 16)
        value = load(a, wide) * load(b, wide) + load(a, wide)
        return function("mad", {a: "in", b: "in", r: "out"}, store(r, wide, value), attrs=attrs)

    target = Target.parse("cpu:avx512")
    assert "vfmadd" not in assembly(lower_to_llvm(program(), target), target)
    assert "vfmadd" in assembly(lower_to_llvm(program(fastmath="contract"), target), target)
    with pytest.raises(CompileError, match="'quick' is no fast-math flag"):
        lower_to_llvm(program(fastmath="nnan, quick"), HOST)


def test_stores_to_one_buffer_do_not_reload_another() -> None:
    a, r = buffer("A", "float32", 8), buffer("R", "float32", 8)
    body = sequence([store(r, i, load(a, 0) + float(i)) for i in range(8)])
    program = function("hoist", {a: "inout", r: "out"}, body)
    target = Target.parse("cpu:avx2")
    text = assembly(lower_to_llvm(program, target), target)
    assert len(re.findall(r"vmovss\s+\(%r..\), %xmm", text)) <= 1
