"""The text of the IR: every form, the round trip of every node, errors of the parser, marks."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lpx import dtypes
from lpx.errors import ParseError
from lpx.expr import build, nodes, traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr
from lpx.ir import nodes as ir
from lpx.ir.equal import structural_equal, structural_equal_module, structural_equal_stmt
from lpx.ir.nodes import Function, Module
from lpx.ir.parser import parse_expr, parse_function, parse_module, parse_stmt
from lpx.ir.printer import print_expr, print_function, print_module, render_with_mark
from tests.ir.strategies import functions
from tests.support import Golden

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)
EVERYTHING = (Path(__file__).parent / "golden" / "everything.txt").read_text(encoding="utf-8")


def test_canonical_text_is_kept(golden: Golden) -> None:
    golden("everything.txt", print_function(parse_function(EVERYTHING, [WEIGHTS])))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(functions())
def test_text_parses_back(function: Function) -> None:
    text = print_function(function)
    parsed = parse_function(text, function.constants.values())
    assert structural_equal(function, parsed)
    assert print_function(parsed) == text


def test_names_are_unique_hints() -> None:
    i, again, odd, word = build.var("i"), build.var("i"), build.var("2 d"), build.var("for")
    assert print_expr(i + again + odd + word + i) == "i + i_1 + v2_d + for_1 + i"


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (7, dtypes.index, "7"),
        (-7, dtypes.int8, "-7i8"),
        (200, dtypes.uint8, "200u8"),
        (True, dtypes.bool_, "true"),
        (0.1, dtypes.float32, "0.1f32"),
        (0.1, dtypes.float64, "0.1f64"),
        (1e30, dtypes.float32, "1e+30f32"),
        (-0.0, dtypes.float16, "-0.0f16"),
        (0.1, dtypes.bfloat16, "0.10009765625bf16"),
        (448.0, dtypes.float8_e4m3fn, "448.0f8e4m3"),
        (float("-inf"), dtypes.float64, "-inf_f64"),
        (float("nan"), dtypes.float32, "nan_f32"),
    ],
)
def test_constants(value: float, dtype: dtypes.DType, text: str) -> None:
    constant = build.const(value, dtype)
    assert print_expr(constant) == text
    parsed = parse_expr(text, {})
    assert traverse.structural_equal(constant, parsed)


@pytest.mark.parametrize(
    "text",
    [
        "a - (b - c)",
        "a - b - c",
        "(a + b) * c",
        "a + b * c",
        "-a * b",
        "-(a * b)",
        "a // b % c",
        "a << b + c",
        "(a << b) + c",
        "(a < b) & (b < c)",
        "a & b == c",
        "a & int64(b == c)",
        "~(a < b) | (a == b)",
        "min(a, max(b, -(5))) - -5",
        "float32(a) / float32(b - 1)",
        "truncdiv(a, b) ^ truncmod(a, b) & c",
        "select(a < b, a, b) >> 2",
    ],
)
def test_precedence(text: str) -> None:
    names = {name: build.var(name) for name in "abc"}
    assert print_expr(parse_expr(text, names)) == text


def test_sharing_is_kept_and_text_stays_small() -> None:
    expr: Expr = build.var("x") * 2 + 1
    for _ in range(200):
        expr = expr * expr
    x = next(v for v in traverse.free_vars(expr))
    text = print_expr(expr)
    assert len(text) < 200 * 40
    parsed = parse_expr(text, {"x": x})
    assert len(list(traverse.walk(parsed))) == len(list(traverse.walk(expr)))
    assert traverse.structural_equal(expr, parsed)


def test_small_shared_nodes_are_repeated() -> None:
    i = build.var("i")
    assert print_expr((i + 1) * (i + 1)) == "(i + 1) * (i + 1)"
    shared = i + 1
    assert print_expr(shared * shared) == "(i + 1) * (i + 1)"
    larger = i * 2 + 1
    assert print_expr(larger * larger) == "$0 = i * 2 + 1\n$0 * $0"


def test_deep_expression_parses_back() -> None:
    i = build.var("i")
    expr: Expr = i
    for k in range(3000):
        expr = build.minimum(i * k, expr)
    assert traverse.structural_equal(parse_expr(print_expr(expr), {"i": i}), expr)


def test_repr_is_short_and_str_is_the_text() -> None:
    function = parse_function(EVERYTHING, [WEIGHTS])
    assert str(function) == print_function(function)
    assert repr(function).startswith("<Function: $0 = n * 8 + m func everything(")
    assert len(repr(function)) < 100
    assert repr(build.var("i") + 1) == "<Binary: i + 1>"
    assert repr(function.params[0]) == "<Param: A: in float32[m, k]>"


def test_let_with_a_successor_gets_braces() -> None:
    text = "func f(A: out float32[2]) {\n  {\n    let x = 1.0f32\n    A[0] = x\n  }\n  A[1] = 2.0f32\n}"
    assert print_function(parse_function(text)) == text


def test_modules_round_trip() -> None:
    first = parse_function("func f(A: out float32[n]) symbols(n) { call g([A], [n]) }")
    second = parse_function("func g(B: out float32[n]) symbols(n) { for i in 0..n { B[i] = 0.0f32 } }")
    module = Module({"f": first, "g": second}, "f")
    text = print_module(module)
    assert structural_equal_module(parse_module(text), module)
    assert print_module(parse_module(text)) == text


def test_statement_over_given_names() -> None:
    a, n = Buffer("A", dtypes.float32, (build.var("n"),)), build.var("n")
    stmt = parse_stmt("for i in 0..n { A[i] = A[i] + 1.0f32 }", {"A": a, "n": n})
    assert structural_equal_stmt(stmt, parse_stmt(str(stmt), {"A": a, "n": n}))
    assert not structural_equal_stmt(stmt, parse_stmt("for i in 0..n { A[i] = A[i] + 2.0f32 }", {"A": a, "n": n}))


BASE = "func f(A: inout float32[n]) symbols(n) attrs(a=1) { for i in 0..n parallel { A[i] = A[i] + 1.0f32 } }"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("func f", "func g"),
        ("inout", "in"),
        ("a=1", "a=true"),
        ("parallel", "unroll"),
        ("0..n", "1..+n"),
        ("1.0f32", "1.5f32"),
        ("A[i] + 1.0f32", "1.0f32 + A[i]"),
        ("float32[n]", "float32[n] align(32)"),
        ("float32[n]", "float32[n] strides(1)"),
        ("float32[n]", "float32[n + 0]"),
        ("symbols(n)", "symbols(n, m)"),
        ("A[i] =", "A[i, mask=true] ="),
    ],
)
def test_structural_equality_sees(old: str, new: str) -> None:
    assert not structural_equal(parse_function(BASE), parse_function(BASE.replace(old, new)))


def test_structural_equality_ignores_names_and_nesting() -> None:
    other = BASE.replace("A", "B").replace(" i ", " q ").replace("[i]", "[q]").replace("{ for", "{ pass { for") + "}"
    assert structural_equal(parse_function(BASE), parse_function(other))
    swapped = 'func f() symbols(a, b) { for i in 0..a { for j in 0..b { check i < j, "" } } }'
    assert not structural_equal(parse_function(swapped), parse_function(swapped.replace("i < j", "j < i")))


PIECES = [*re.findall(r"\w+|[^\w\s]", EVERYTHING), "..+", "$1", "-", "1e999", "9" * 5000, '"\\q"', "²", "inf_f32", "x8"]


@settings(max_examples=300)
@given(st.integers(0, len(EVERYTHING)), st.integers(0, 9), st.lists(st.sampled_from(PIECES), max_size=3))
def test_parser_raises_parse_errors_only(start: int, length: int, pieces: list[str]) -> None:
    text = EVERYTHING[:start] + " ".join(pieces) + EVERYTHING[start + length :]
    with suppress(ParseError):
        print_function(parse_function(text, [WEIGHTS]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func f() { let x = 1e39f32 }", "1e39 does not fit float32"),
        ('func f() { check true, "\\q" }', "not a text with the escapes of JSON"),
        ("func f() { let x = " + "9" * 5000 + " }", "a number of 5000 digits"),
        ("func f(", "line 1, column 8: expected `)`"),
        ("fun f() {}", "line 1, column 11: expected `func`"),
        ("func f() { C[0] = 1 }", "line 1, column 12: unknown name `C`"),
        ("func f() {\n  check ?\n}", "line 2, column 9: '?' starts no token"),
        ('func f() { check 1 < 2 < 3, "" }', "comparisons do not chain"),
        ("func f() { let x = 1.0q32 }", "`q32` is no dtype suffix"),
        ("func f() { let x = 300u8 }", "300 does not fit uint8"),
        ("func f() { let x = 1 + 1.0f32 }", "add of int64 and float32"),
        ("func f(A: in float32[2]) { A[0, 1] = 0.0f32 }", "A has 1 dimension(s), not 2"),
        ("func f(A: in float[2]) { }", "`float` is not a dtype"),
        ("func f(A: float32[2]) { }", "expected one of in, constant, out, inout, found `float32`"),
        ("func f() { for if in 0..2 { } }", "`if` is a word of the language"),
        ("func f() { for i in 3..9 { } }", "a loop from anything but 0 is written start..+extent"),
        ("func f() { for i in 0..9 bind(warp.x) { } }", "expected one of blockIdx.x"),
        ('func f() { check $0, "" }', "$0 is not defined just before"),
        ("func f() { $0 * 2 }", "expected"),
        ('func f() { $0 = true\n check $0, ""\n check $0, "" }', "line 3, column 8: $0 is not defined just before"),
        ("func f() { evaluate sinus(1.0f32) }", "unknown function `sinus`"),
        ("func f() { evaluate exp(1.0f32, 2.0f32) }", "`exp` takes 1 operand(s), not 2"),
        ("func f() { evaluate exp(1) }", "exp does not take int64"),
        ("func f() { evaluate shuffle([1], [1]) }", "shuffle picks at least one lane, from 0 to 0"),
        ("func f() { evaluate lookup([1.0f32, 2.0f64], 0) }", "the constants of a table have one dtype"),
        (
            "func f() { evaluate lookup([1.0f32, 2.0f32, 3.0f32], 0) }",
            "a table of 3 constants; their number is a power",
        ),
        ("func f() { evaluate lookup([1, 2], 0) }", "a table of int64 (tables hold float32 or float64)"),
        ("func f() { evaluate lookup([1.0f32], 0.5f32) }", "a table indexed by float32"),
        ("func f() { evaluate lookup([], 0) }", "a table has at least one constant"),
        ("func f() { evaluate lookup([1.0f32 + 2.0f32], 0) }", "expected `,`"),
        ("func f() { evaluate lookup([exp(1.0f32)], 0) }", "a table holds constants"),
        ("func f() { evaluate unlikely(1) }", "unlikely does not take int64"),
        ("func f() { evaluate broadcast(broadcast(1, 2), 4) }", "`broadcast` takes a scalar, not 2 lanes"),
        ("func f() { evaluate f }", "unknown name `f`"),
        ('func f() { { let x = 1 } check x < 1, "" }', "unknown name `x`"),
        ('func f() { const W: float32[1] = "00" }', "pass its array in `constants`"),
        ("func f() { } x", "expected the end, found `x`"),
        ("func f() attrs(a=1i8) { }", "an attribute's number has no dtype"),
        ("module entry g\nfunc f() { }", "the module has no function g to enter"),
        ("func f() { " + "if true { " * 100, "nested deeper than 64 levels"),
        ("func f() { evaluate " + "(" * 100_000, "nested deeper than 64 levels"),
        ("func f() { evaluate " + "-" * 100_000 + "n", "nested deeper than 64 levels"),
    ],
)
def test_parser_refuses(text: str, message: str) -> None:
    parse = parse_module if text.startswith("module") else parse_function
    with pytest.raises(ParseError, match=re.escape(message)):
        parse(text)


def test_parse_error_shows_a_caret() -> None:
    with pytest.raises(ParseError) as caught:
        parse_function("func f() {\n    let x = 1 +\n}")
    assert str(caught.value) == "line 3, column 1: expected `(`, found `}`\n    }\n    ^"


def test_mark_underlines_an_expression() -> None:
    function = parse_function(BASE)
    assert isinstance(function.body, ir.For)
    assert isinstance(function.body.body, ir.Store)
    value = function.body.body.value
    assert isinstance(value, nodes.Binary)
    lines = render_with_mark(function, value.a).splitlines()
    assert lines[2:4] == ["    A[i] = A[i] + 1.0f32", "           ^^^^"]
    lines = render_with_mark(function, function.body, context=0).splitlines()
    assert lines == ["...", "  for i in 0..n parallel {", "  ^^^^^^^^^^^^^^^^^^^^^^", "..."]
