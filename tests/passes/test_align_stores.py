"""Long rows are stored in vectors that begin where lines of memory do; every element is still stored once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx.ir.nodes import Function
from lpx.ir.printer import print_function
from lpx.passes.align_stores import AlignStores
from tests.passes.support import assert_pass_keeps, parse

Array = NDArray[Any]

STREAMED = "pragma(nontemporal=true)"
EAGER = AlignStores(shortest=2)


def aligned(body: str, shape: str = "100", dtype: str = "float32") -> str:
    text = f"func f(A: in {dtype}[{shape}], B: out {dtype}[{shape}]) {{ {body} }}"
    return print_function(assert_pass_keeps(parse(text), EAGER))


def row(place: str, lanes: int = 16, extent: int = 100, kind: str = "") -> str:
    """A row of `extent` elements, `lanes` at a time, a guard around what may be too many."""
    at = place.format(f"v * {lanes} + l")
    store = f"B[{at}] = A[{at}]"
    guarded = f"if v * {lanes} + l < {extent} {{ {store} }}" if extent % lanes else store
    return f"for v in 0..{-(-extent // lanes)} {kind} {STREAMED} {{ for l in 0..{lanes} vectorize {{ {guarded} }} }}"


def in_vectors(body: str) -> str:
    """`body` for each of 16 lanes."""
    return f"{{ for l in 0..16 vectorize {{ {body} }} }}"


def test_a_row_in_three_parts() -> None:
    text = aligned(row("{}"))
    assert 'let offset = hardware["line_offset", any, int64, 1](&B[0])' in text
    assert "let first = (64 - offset) // 4 % 16" in text
    assert "let whole = (100 - first) // 16" in text
    assert "if l < first {" in text
    assert "for v in 0..whole pragma(nontemporal=true, aligned=true) {" in text
    assert "if first + whole * 16 + l_2 < 100 {" in text


@pytest.mark.parametrize(("dtype", "lanes"), [("float64", 8), ("float32", 4), ("uint8", 64), ("float16", 16)])
@pytest.mark.parametrize("extent", [192, 200])
@pytest.mark.parametrize("kind", ["", "parallel"])
def test_rows_of_any_dtype(dtype: str, lanes: int, extent: int, kind: str) -> None:
    assert "aligned" in aligned(row("{}", lanes, extent, kind), str(extent), dtype)


def test_each_row_of_a_matrix_has_its_own_offset() -> None:
    text = aligned(f"for i in 0..3 {{ {row('i, {}', extent=90)} }}", "3, 90")
    assert "(&B[i, 0])" in text


def test_blocks_of_a_row_end_where_the_row_does() -> None:
    """Three blocks of 32, the last one of 4 elements, which is less than what may come before a whole vector."""
    at = "b * 32 + (v * 16 + l)"
    inner = f"for l in 0..16 vectorize {{ if {at} < 68 {{ B[{at}] = A[{at}] }} }}"
    text = aligned(f"for b in 0..3 {STREAMED} {{ for v in 0..2 {{ {inner} }} }}", "68")
    assert "(&B[b * 32])" in text
    assert "let whole = max(" in text


def test_a_guard_that_always_holds_makes_no_row_longer() -> None:
    text = aligned(
        f"for v in 0..3 {STREAMED} {in_vectors('if v * 16 + l < 60 { B[v * 16 + l] = A[v * 16 + l] }')}", "48"
    )
    assert "let whole = (48 - first) // 16" in text


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (row("{}", extent=16), "16"),  # short
        (row("{}", lanes=2), "100"),  # vectors of 8 bytes
        (row("{}", lanes=32), "100"),  # vectors longer than a line
        (row("99 - ({})"), "100"),  # from the end
        (f"for i in 0..2 {{ {row('{}, i')} }}", "100, 2"),  # down a column
        (f"for v in 0..6 {STREAMED} {in_vectors('B[v * 16 + l] = A[v]')}", "100"),  # knows its vector
        (f"for v in 0..6 {STREAMED} {in_vectors('if A[0] < 0.0f32 { B[v * 16 + l] = A[l] }')}", "100"),
        (f"for v in 0..6 {STREAMED} {in_vectors('B[v * 16 + l] = sin(A[v * 16 + l])')}", "100"),  # costly
        (f"for v in 0..6 {STREAMED} {{ B[v * 16] = A[v * 16] }}", "100"),  # no vectors
        (row("{}").replace(STREAMED, ""), "100"),  # through the caches
    ],
)
def test_what_stays(body: str, shape: str) -> None:
    function: Function = parse(f"func f(A: in float32[{shape}], B: out float32[{shape}]) {{ {body} }}")
    assert EAGER(function) is function


def test_temporaries_stay() -> None:
    text = f"func f(A: in float32[100], C: out float32[1]) {{ alloc B: float32[100] {row('{}')} C[0] = B[0] }}"
    function = parse(text)
    assert EAGER(function) is function


def halved(x: Array) -> Array:
    return x * np.float32(0.5)


def positive(x: Array) -> Array:
    return x > np.float32(0)


def inner(x: Array) -> Array:
    return x[1:-1, 1:-2] + x[:-2, 2:-1]


def reversed_rows(x: Array) -> Array:
    return x[:, ::-1]


@pytest.mark.parametrize("function", [halved, positive, inner, reversed_rows])
@pytest.mark.parametrize("rows", [3, 1800])
def test_results_at_any_place_of_a_line(function: Callable[[Array], Array], rows: int) -> None:
    """Of 3 rows through the caches, of 1800 past them; nothing in front of the result or behind it is touched."""
    x = np.random.default_rng(0).standard_normal((rows, 1501), dtype=np.float32)
    want = function(x)
    compiled = lpx.jit(function)
    for start in (0, 1, 4, 15):
        memory = np.ones(want.size + 64, want.dtype)
        result = memory[start : start + want.size].reshape(want.shape)
        compiled(x, out=result)
        np.testing.assert_array_equal(result, want)
        assert memory[:start].all()
        assert memory[start + want.size :].all()
