"""The module as text: names, declarations, metadata; random expressions against the interpreter."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from lpx import dtypes
from lpx.codegen.checks import CheckTable
from lpx.codegen.cpu import lower_to_llvm
from lpx.codegen.module import ModuleText, quoted
from lpx.errors import InternalError
from lpx.expr import build
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import BinaryOp, CompareOp, Expr
from lpx.ir import nodes as ir
from lpx.runtime import objects
from lpx.target import Target
from tests.codegen.harness import HOST, Array, buffer, check, function, load, run, serial, store

QUOTED = [("kernel", "kernel"), ("a.b_1", "a.b_1"), ("1st", '"1st"'), ('q"e\\', '"q\\22e\\5C"'), ("é", '"\\C3\\A9"')]


@pytest.mark.parametrize(("name", "text"), QUOTED)
def test_names_are_quoted_where_needed(name: str, text: str) -> None:
    assert quoted(name) == text


@pytest.mark.parametrize("name", ["plain", "with space", "1", "é"])
def test_kernels_of_any_name_run(name: str) -> None:
    a = buffer("A", "int32", 1)
    got = np.zeros(1, np.int32)
    assert run(function(name, {a: "out"}, store(a, 0, build.const(5, "int32"))), [got]) == 0
    assert got[0] == 5


def test_only_intrinsics_and_the_run_time_may_be_called() -> None:
    module = ModuleText("x86_64-unknown-linux-gnu", "nounwind")
    module.declare("float", "llvm.sqrt.f32", ["float"])
    with pytest.raises(InternalError, match="calls expf"):
        module.declare("float", "expf", ["float"])


def test_a_symbol_is_defined_once() -> None:
    module = ModuleText("x86_64-unknown-linux-gnu", "nounwind")
    module.define("f", "void @f()", "entry:\n  ret void")
    with pytest.raises(InternalError, match="f is defined twice"):
        module.define("f", "void @f()", "entry:\n  ret void")


def test_equal_metadata_is_shared_and_scopes_are_not() -> None:
    module = ModuleText("x86_64-unknown-linux-gnu", "nounwind")
    assert module.metadata("i32 1") == module.metadata("i32 1")
    assert module.distinct() != module.distinct()
    objects.parse_module(module)


def test_text_is_the_same_every_time() -> None:
    def program() -> ir.Function:
        a, b, r = (buffer(n, "float32", 64) for n in "ABR")
        i = build.var("i")
        loop = serial(i, 64, store(r, i, load(a, i) + load(b, i)), kind="parallel", pragmas={"nontemporal": True})
        return function("same", {a: "in", b: "in", r: "out"}, loop)

    assert lower_to_llvm(program(), HOST).text == lower_to_llvm(program(), HOST).text


def test_a_block_computes_an_address_once_but_reads_it_again() -> None:
    a, b, n = buffer("A", "int64", 64), buffer("B", "int64", 64), build.var("n")

    def accumulate() -> ir.Stmt:
        place = n * 8 + 3
        return ir.Store(b, (place,), load(b, place) + load(a, n * 8 + 3))

    body = ir.Seq((accumulate(), accumulate(), ir.If(n < 4, accumulate())))
    text = lower_to_llvm(function("twice", {a: "in", b: "inout"}, body, n), HOST).text
    first, then = text.partition("\nthen")[::2]
    for block in (first, then):
        assert block.count("mul i64") == 1
        assert block.count("getelementptr inbounds i64, ptr %v") == 2
    assert (first.count("alias.scope"), then.count("alias.scope")) == (6, 3)  # reads and writes


def test_checks_number_from_one_and_keep_their_lines() -> None:
    table = CheckTable()
    assert [table.number(m) for m in ("a", "b", "a")] == [1, 2, 1]
    assert [c.message for c in table.table()] == ["a", "b"]


def test_scalable_vectors_get_the_length_of_the_core() -> None:
    a = buffer("A", "float32", 8)
    program = function("f", {a: "inout"}, store(a, build.ramp(0, 1, 8), load(a, build.ramp(0, 1, 8)) + 1.0))
    assert "vscale_range(2,2)" in lower_to_llvm(program, Target.parse("cpu:neoverse-v1")).text
    assert "vscale_range" not in lower_to_llvm(program, Target.parse("cpu:neon")).text


# --- random expressions -----------------------------------------------------------------------------------------------

BINARY: dict[str, tuple[BinaryOp, ...]] = {
    "int32": ("add", "sub", "mul", "min", "max", "bitand", "bitor", "bitxor", "shl", "shr"),
    "uint8": ("add", "sub", "mul", "min", "max", "bitand", "bitor", "bitxor", "shl", "shr"),
    "float32": ("add", "sub", "mul", "div", "min", "max"),
    "float64": ("add", "sub", "mul", "div", "min", "max"),
}
COMPARE: tuple[CompareOp, ...] = ("eq", "ne", "lt", "le")
UNARY = ("neg", "abs", "floor", "sqrt", "rint")


@st.composite
def expressions(draw: st.DrawFn, operands: dict[str, Expr]) -> Expr:
    """A DAG over one operand of each dtype, grown by operations on nodes made before."""
    pool: list[Expr] = list(operands.values())

    def of(dtype: str) -> Expr:
        return draw(st.sampled_from([e for e in pool if e.dtype.name == dtype]))

    def step(kind: str, dtype: str) -> Expr:
        a = of(dtype)
        match kind:
            case "binary":
                return build.binary(draw(st.sampled_from(BINARY[dtype])), a, of(dtype))
            case "select":
                return build.select(build.compare(draw(st.sampled_from(COMPARE)), a, of(dtype)), of(dtype), a)
            case "cast":
                return build.cast(a, draw(st.sampled_from(sorted(BINARY))))
            case "unary" if a.dtype.is_float:
                name = draw(st.sampled_from(UNARY))
                return -a if name == "neg" else build.call(name, a)
            case _:
                return ~a if a.dtype.is_integer else -a

    kinds = st.tuples(st.sampled_from(["binary", "select", "cast", "unary"]), st.sampled_from(sorted(BINARY)))
    for kind, dtype in draw(st.lists(kinds, min_size=3, max_size=15)):
        pool.append(step(kind, dtype))
    return pool[-1]


@hypothesis.settings(max_examples=25)
@hypothesis.given(st.data(), st.sampled_from([1, 4, 8]), st.integers(0, 1 << 30))
def test_random_expressions(data: st.DataObject, lanes: int, seed: int) -> None:
    sources = {dtype: buffer(dtype, dtype, 16) for dtype in BINARY}
    i = build.var("i")
    index = build.ramp(i * lanes, 1, lanes) if lanes > 1 else i
    value = data.draw(expressions({dtype: load(b, index) for dtype, b in sources.items()}))
    r = buffer("R", value.dtype, 16)
    params: dict[str, Array] = {dtype: _random(dtype, seed) for dtype in BINARY}
    roles: dict[Buffer, ir.Role] = {**dict.fromkeys(sources.values(), "in"), r: "out"}
    program = function("random", roles, serial(i, 16 // lanes, store(r, index, value)))
    check(program, {**params, "R": np.zeros(16, value.dtype.to_numpy())})


def _random(dtype: str, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    kind = dtypes.parse(dtype)
    if kind.is_float:
        special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, 2.0**31, 1e-39], 16)
        return np.where(rng.random(16) < 0.4, special, rng.standard_normal(16) * 100).astype(dtype)
    return rng.integers(kind.min_value, kind.max_value, 16, dtype, endpoint=True)
