"""Tiles read down their columns are read by rows and transposed in registers."""

from __future__ import annotations

import numpy as np
import pytest

import lpx
from lpx import te
from lpx.ir.nodes import Function
from lpx.ir.printer import print_function
from lpx.passes.transpose_tiles import TransposeTiles, network
from tests.passes.support import assert_pass_keeps, parse


def transposed(body: str, dtype: str = "float32", bits: int = 512) -> str:
    text = f"func f(A: in {dtype}[16, 16], B: inout {dtype}[16, 16]) {{ {body} }}"
    return print_function(assert_pass_keeps(parse(text), TransposeTiles(bits)))


def gathers(text: str) -> bool:
    """Whether anything reads A down a column."""
    return any("A[ramp" in line for line in text.splitlines())


def test_a_square_of_four() -> None:
    text = transposed("for l in 0..4 unroll { B[l, ramp(2, 1, 4)] = A[ramp(3, 1, 4), l + 5] }")
    assert not gathers(text)
    assert [line.strip() for line in text.splitlines() if "A_rows" in line and "= A[" in line] == [
        f"A_rows[ramp({4 * k}, 1, 4)] = A[{3 + k}, ramp(5, 1, 4)]" for k in range(4)
    ]
    assert text.count("shuffle(") == 8
    assert "B[l, ramp(2, 1, 4)] = A_columns[ramp(l * 4, 1, 4)]" in text


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
@pytest.mark.parametrize("n", [4, 8, 16])
@pytest.mark.parametrize("extent", [1, 3, 8, 16])
def test_squares_of_any_size_and_dtype(dtype: str, n: int, extent: int) -> None:
    body = f"for l in 0..{extent} unroll {{ B[l, ramp(0, 1, {n})] = A[ramp(0, 1, {n}), l] }}"
    text = transposed(body, dtype)
    assert gathers(text) == (dtype == "float64" and n == 16)  # two registers: left alone


def test_rows_further_apart_and_arithmetic_around_the_read() -> None:
    text = transposed(
        "for l in 0..8 unroll {"
        " B[l, ramp(0, 1, 4)] = max(A[ramp(1, 3, 4), l] * A[l, ramp(0, 1, 4)], A[ramp(1, 3, 4), l]) }"
    )
    assert "A[1, ramp(" in text
    assert "A[10, ramp(" in text
    assert "A[l, ramp(0, 1, 4)]" in text


def test_masks_go_to_their_rows() -> None:
    mask = "mask=ramp(0i32, 1i32, 4) < broadcast(3i32, 4)"
    text = transposed(f"for l in 0..6 unroll {{ B[l, ramp(0, 1, 4), {mask}] = A[ramp(13, 1, 4), l, {mask}] }}")
    assert not gathers(text)  # row 16 does not exist, and is not read: the interpreter would say so


@pytest.mark.parametrize(
    "body",
    [
        "for l in 0..8 { B[l, ramp(0, 1, 4)] = A[ramp(0, 1, 4), l] }",  # not unrolled
        "for l in 0..8 unroll { B[l, ramp(0, 1, 4)] = A[ramp(0, 1, 4), l * 2] }",  # every other column
        "for l in 0..8 unroll { B[l, ramp(0, 1, 4)] = A[ramp(l, 1, 4), l] }",  # a diagonal
        "for l in 0..8 unroll { B[l, ramp(0, 1, 2)] = A[ramp(0, 1, 2), l] }",  # few lanes
        "for l in 0..8 unroll { B[l, ramp(0, 1, 6)] = A[ramp(0, 1, 6), l] }",  # no power of two
        "for l in 0..8 unroll { B[l, ramp(0, 1, 4)] = B[ramp(0, 1, 4), l] }",  # written meanwhile
        "for l in 0..8 unroll { if A[0, l] < 0.0f32 { B[l, ramp(0, 1, 4)] = A[ramp(0, 1, 4), l] } }",  # not always
        (
            "for l in 0..8 unroll { B[l, ramp(0, 1, 4)] = "
            "select(A[l, ramp(0, 1, 4)] < broadcast(0.0f32, 4), A[ramp(0, 1, 4), l], broadcast(1.0f32, 4)) }"
        ),  # one side
    ],
)
def test_what_stays(body: str) -> None:
    text = f"func f(A: in float32[16, 16], B: inout float32[16, 16]) {{ {body} }}"
    function: Function = parse(text)
    assert TransposeTiles()(function) is function


@pytest.mark.parametrize(("n", "bits"), [(4, 32), (8, 32), (16, 32), (8, 64), (16, 8), (32, 16), (64, 8)])
def test_the_network_transposes(n: int, bits: int) -> None:
    registers = [[(row, column) for column in range(n)] for row in range(n)]
    stages = network(n, bits)
    assert len(stages) == n.bit_length() - 1
    for stage in stages:
        registers = [[[*registers[a], *registers[b]][p] for p in picks] for a, b, picks in stage]
    assert registers == [[(row, column) for row in range(n)] for column in range(n)]


def test_machine_code_has_shuffles_and_no_gather() -> None:
    a = te.placeholder((64, 64), name="A")
    s = lpx.create_schedule(te.compute((64, 64), lambda i, j: a[j, i], name="B"))
    rows, columns = s.loops("B")
    (rows, row), (columns, lane) = s.split(rows, 16), s.split(columns, 16)
    s.reorder(rows, columns, row, lane)
    s.unroll(row)
    s.vectorize(lane)
    kernel = lpx.build(s)
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    np.testing.assert_array_equal(kernel(x), x.T)
    if "avx512f" in lpx.Target.parse("cpu").cpu.features:
        assert "gather" not in kernel.forms.asm
        assert kernel.forms.asm.count("unpck") >= 32
