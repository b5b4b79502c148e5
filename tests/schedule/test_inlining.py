from __future__ import annotations

import numpy as np
import pytest

from lpx import te
from lpx.ir.interpreter import interpret
from lpx.ir.parser import parse_function
from lpx.schedule import create_schedule
from lpx.schedule.errors import (
    AccessError,
    BlockFormError,
    ConsumerError,
    CoverageError,
    DependenceError,
    OutputError,
    ProducerError,
)
from lpx.schedule.testing import check_equivalent
from tests.schedule.support import bias_relu, blur, confirm, elementwise, softmax
from tests.support import Golden


def test_compute_inline(golden: Golden) -> None:
    confirm(golden, "compute_inline", elementwise(te.var("n")), lambda s: s.compute_inline("B"))


def test_compute_inline_keeps_conditions_of_reads(golden: Golden) -> None:
    confirm(golden, "compute_inline_padding", blur(te.var("n")), lambda s: s.compute_inline("P"))


def test_compute_inline_into_several_readers() -> None:
    program = softmax(3, 4)
    s = create_schedule(program)
    s.compute_inline("E")
    assert [b.name for b in s.blocks()] == ["M", "Z", "O"]
    check_equivalent(te.lower(program), s.function)


@pytest.mark.parametrize("inline", [False, True])
def test_inlined_integers_wrap_in_their_own_width(inline: bool) -> None:
    """127 * 127 is 1 in int8, whatever it is multiplied by afterwards."""
    t, n = te.placeholder((1,), "int8", name="T"), te.placeholder((4,), "int64", name="N")
    square = te.compute((1,), lambda i: t[i] * t[i], name="S")
    out = te.compute((4,), lambda i: te.cast(square[0], "int64") * n[i], name="O")
    s = create_schedule(out)
    if inline:
        s.compute_inline(square)
    result = np.zeros(4, np.int64)
    interpret(s.function, [np.array([127], np.int8), np.array([1, 2, 3, 4]), result])
    assert result.tolist() == [1, 2, 3, 4]


def test_inlined_float16_rounds_as_it_did() -> None:
    a = te.placeholder((64,), "float16", name="A")
    b = te.compute((64,), lambda i: a[i] * a[i], name="B")
    c = te.compute((64,), lambda i: te.cast(b[i], "float32") * 3.0, name="C")
    s = create_schedule(c)
    s.compute_inline(b)
    check_equivalent(te.lower(c), s.function)


def test_compute_inline_refuses_a_reduction() -> None:
    s = create_schedule(bias_relu(3, 4, 5))
    with pytest.raises(BlockFormError, match="compute_inline: block C is a reduction") as caught:
        s.compute_inline("C")
    assert "compute_at" in str(caught.value)


def test_compute_inline_refuses_an_output() -> None:
    s = create_schedule(elementwise(8))
    with pytest.raises(OutputError, match="compute_inline: C is an output of the program, which must be stored"):
        s.compute_inline("C")


def test_compute_inline_refuses_where_its_reader_overwrites_the_input() -> None:
    program = parse_function(
        "func f(A: inout float32[8]) {\n  alloc B: float32[8]\n"
        "  for i in 0..8 {\n    block B(vi: spatial 8 = i) {\n      B[vi] = A[vi] * 2.0f32\n    }\n  }\n"
        "  for i in 0..8 {\n    block A(vi: spatial 8 = i) {\n      A[vi] = B[7 - vi]\n    }\n  }\n}"
    )
    s = create_schedule(program)
    with pytest.raises(DependenceError, match="A, which B reads, is written between"):
        s.compute_inline("B")


def test_dead_block() -> None:
    s = create_schedule(elementwise(8))
    (loop,) = s.loops("B")
    s.compute_inline("B")
    with pytest.raises(Exception, match=r"block B was inlined into its consumers at .*test_inlining.py:\d+"):
        s.loops("B")
    with pytest.raises(Exception, match=r"loop i ended when B was inlined at .*test_inlining.py:\d+"):
        s.unroll(loop)


def test_reverse_compute_inline(golden: Golden) -> None:
    confirm(golden, "reverse_compute_inline", elementwise(te.var("n")), lambda s: s.reverse_compute_inline("C"))


def test_reverse_compute_inline_of_a_transpose() -> None:
    a, bias = te.placeholder((4, 6), name="A"), te.placeholder((4,), name="bias")
    b = te.compute((4, 6), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((6, 4), lambda i, j: b[j, i] + bias[j], name="C")
    s = create_schedule(c)
    i, _ = s.loops(b)
    s.split(i, 3)
    s.reverse_compute_inline(c)
    assert [x.name for x in s.blocks()] == ["C"]
    check_equivalent(te.lower(c), s.function)


def test_reverse_compute_inline_refuses_a_reduction() -> None:
    s = create_schedule(bias_relu(3, 4, 5))
    with pytest.raises(BlockFormError, match="reverse_compute_inline: block C is a reduction"):
        s.reverse_compute_inline("D")


def test_reverse_compute_inline_refuses_a_part() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((5,), lambda i: b[i + 1], name="C")
    s = create_schedule(c)
    with pytest.raises(CoverageError, match="C does not run over the elements that B makes"):
        s.reverse_compute_inline(c)


def test_reverse_compute_inline_refuses_several_elements() -> None:
    s = create_schedule(blur(8))
    with pytest.raises((AccessError, CoverageError), match="reverse_compute_inline: "):
        s.reverse_compute_inline("S")


def test_reverse_compute_inline_refuses_another_reader() -> None:
    s = create_schedule(softmax(3, 4))
    with pytest.raises((ProducerError, BlockFormError), match="reverse_compute_inline: "):
        s.reverse_compute_inline("O")


def test_nothing_reads() -> None:
    program = parse_function(
        "func f(C: out float32[8]) {\n  alloc B: float32[8]\n"
        "  for i in 0..8 {\n    block B(vi: spatial 8 = i) {\n      B[vi] = 1.0f32\n    }\n  }\n"
        "  for i in 0..8 {\n    block C(vi: spatial 8 = i) {\n      C[vi] = 2.0f32\n    }\n  }\n}"
    )
    s = create_schedule(program)
    with pytest.raises(ConsumerError, match="nothing reads B"):
        s.compute_inline("B")
