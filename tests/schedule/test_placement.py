from __future__ import annotations

import pytest

from lpx import te
from lpx.ir.parser import parse_function
from lpx.schedule import Schedule, create_schedule
from lpx.schedule.errors import (
    AccessError,
    BlockFormError,
    ConsumerError,
    CoverageError,
    DependenceError,
    LoopKindError,
    OutputError,
    ProducerError,
)
from lpx.schedule.testing import check_equivalent
from tests.schedule.support import bias_relu, blur, confirm, elementwise, matmul, softmax
from tests.support import Golden


def test_compute_at_tiles(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, j = s.loops("D")
        _, jo, _, _ = s.tile(i, j, 2, 4)
        s.compute_at("C", jo)

    confirm(golden, "compute_at", bias_relu(te.var("m"), te.var("k"), te.var("n")), apply, {"m": 5, "k": 3, "n": 9})


def test_compute_at_stencil_clips_the_region(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        o, _ = s.split(s.loops("S")[0], 4)
        s.compute_at("P", o)

    confirm(golden, "compute_at_stencil", blur(te.var("n")), apply, {"n": 13})


@pytest.mark.parametrize("n", [1, 2, 4, 5, 13])
@pytest.mark.parametrize("factor", [1, 4, 7, 16])
def test_compute_at_stencil_every_length(n: int, factor: int) -> None:
    for extent in (n, te.var("n")):
        program = blur(extent)
        s = create_schedule(program)
        o, i = s.split(s.loops("S")[0], factor)
        s.compute_at("P", o)
        check_equivalent(te.lower(program), s.function, {"n": n})
        s.compute_at("P", i)
        check_equivalent(te.lower(program), s.function, {"n": n})
        s.compute_root("P")
        check_equivalent(te.lower(program), s.function, {"n": n})


def test_compute_at_strided_reads_compute_no_more(golden: Golden) -> None:
    a = te.placeholder((15,), name="A")
    b = te.compute((15,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((5, 3), lambda i, j: b[i + 5 * j] * 2.0, name="C")
    s = confirm(golden, "compute_at_strided", c, lambda s: s.compute_at("B", s.loops("C")[0]))
    assert "i + i_1 * 5" in str(s)


@pytest.mark.parametrize("n", [1000, 1024, 5])
def test_chain_moved_under_a_split_loop(n: int) -> None:
    """Producers and consumers of a split loop together leave no element out."""
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    d = te.compute((n,), lambda i: c[i] + c[i], name="D")
    e = te.compute((n,), lambda i: d[i] + a[i], name="E")
    s = create_schedule(e)
    o, _ = s.split(s.loops(d)[0], 32)
    s.reverse_compute_at(e, o)
    s.compute_at(c, o)
    s.parallel(o)
    check_equivalent(te.lower(e), s.function)


def test_softmax_in_one_parallel_loop(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, _ = s.loops("O")
        for tensor in ("Z", "E", "M"):
            s.compute_at(tensor, i)
        s.parallel(i)

    confirm(golden, "compute_at_softmax", softmax(te.var("m"), te.var("n")), apply, {"m": 3, "n": 5})


def test_compute_at_symbolic_and_constant_agree() -> None:
    texts: list[str] = []
    for n in (32, te.var("n")):
        s = create_schedule(blur(n))
        o, _ = s.split(s.loops("S")[0], 8)
        s.compute_at("P", o)
        check_equivalent(te.lower(blur(32)), s.function, {"n": 32}, arrays=None)
        texts.append(str(s))
    assert texts[0] != texts[1]


def test_compute_at_data_dependent_reads_need_everything() -> None:
    a, index = te.placeholder((8,), name="A"), te.placeholder((5,), "int64", name="I")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((5,), lambda i: b[te.clip(index[i], 0, 7)], name="C")
    s = create_schedule(c)
    s.compute_at(b, s.loops(c)[0])
    check_equivalent(te.lower(c), s.function)


def test_compute_at_refuses_an_output() -> None:
    b = te.compute((8,), lambda i: te.cast(i, "float32"), name="B")
    c = te.compute((8,), lambda i: b[i] + 1.0, name="C")
    s = create_schedule((b, c))
    with pytest.raises(OutputError, match="compute_at: B is an output of the program"):
        s.compute_at(b, s.loops(c)[0])


def test_compute_at_refuses_readers_outside() -> None:
    s = create_schedule(softmax(4, 5))
    with pytest.raises(ConsumerError, match="compute_at: Z reads E outside loop i") as caught:
        s.compute_at("E", s.loops("O")[0])
    assert "no loop is legal" in str(caught.value)
    s.compute_at("Z", s.loops("O")[0])
    with pytest.raises(ConsumerError, match="compute_at: Z reads E outside loop j") as caught:
        s.compute_at("E", s.loops("O")[1])
    assert "legal loops are i" in str(caught.value)


def test_compute_at_refuses_where_inputs_changed() -> None:
    program = parse_function(
        "func f(A: inout float32[8], C: out float32[8]) {\n  alloc B: float32[8]\n"
        "  for i in 0..8 {\n    block B(vi: spatial 8 = i) {\n      B[vi] = A[vi]\n    }\n  }\n"
        "  for i in 0..8 {\n    block A(vi: spatial 8 = i) {\n      A[vi] = 0.0f32\n    }\n  }\n"
        "  for i in 0..8 {\n    block C(vi: spatial 8 = i) {\n      C[vi] = B[vi]\n    }\n  }\n}"
    )
    s = create_schedule(program)
    with pytest.raises(DependenceError, match="A, which B reads, is written between its old place and the new one"):
        s.compute_at("B", s.loops("C")[0])
    with pytest.raises(DependenceError, match="A, which B reads, is written between"):
        s.compute_inline("B")


def test_compute_at_refuses_a_peeled_tensor() -> None:
    s = create_schedule(elementwise(9))
    s.split(s.loops("B")[0], 4, tail="peel")
    with pytest.raises(BlockFormError, match="B is also written by B_tail"):
        s.compute_at("B", s.loops("C")[0])


def test_compute_at_refuses_a_vectorized_loop() -> None:
    s = create_schedule(elementwise(8))
    (i,) = s.loops("C")
    s.vectorize(i)
    with pytest.raises(LoopKindError, match="loop i is vectorized"):
        s.compute_at("B", i)


def test_compute_root(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        s.compute_at("C", s.loops("D")[1])
        s.compute_root("C")

    confirm(golden, "compute_root", bias_relu(4, 3, 5), apply)


def test_compute_root_undoes_compute_at() -> None:
    s = create_schedule(bias_relu(4, 3, 5))
    before = str(s)
    s.compute_at("C", s.loops("D")[0])
    assert str(s) != before
    s.compute_root("C")
    assert str(s) == before


def test_compute_root_refuses_a_peeled_tensor() -> None:
    s = create_schedule(elementwise(9))
    s.split(s.loops("B")[0], 4, tail="peel")
    with pytest.raises(BlockFormError, match="compute_root: B is also written by B_tail"):
        s.compute_root("B")


def test_reverse_compute_at(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, j, _ = s.loops("C")
        _, jo, _, _ = s.tile(i, j, 2, 4)
        s.reverse_compute_at("D", jo)

    confirm(
        golden, "reverse_compute_at", bias_relu(te.var("m"), te.var("k"), te.var("n")), apply, {"m": 5, "k": 3, "n": 9}
    )


def test_reverse_compute_at_splits_a_reduction_in_order(golden: Golden) -> None:
    a = te.placeholder((4, 10), name="A")
    b = te.compute((4, 10), lambda i, j: a[i, j] * a[i, j], name="B")
    r = te.reduce_axis(10, name="r")
    c = te.compute((4,), lambda i: te.sum(b[i, r], axis=r), name="C")

    def apply(s: Schedule) -> None:
        i, j = s.loops("B")
        o, _ = s.split(j, 4)
        s.reorder(o, i)
        s.reverse_compute_at("C", o)

    confirm(golden, "reverse_compute_at_reduction", c, apply)


def test_reverse_compute_at_refuses_an_unfinished_reduction() -> None:
    s = create_schedule(bias_relu(4, 6, 5))
    i, j, r = s.loops("C")
    s.reorder(r, i, j)
    with pytest.raises(ProducerError, match="C adds up over vr outside loop j"):
        s.reverse_compute_at("D", j)


def test_reverse_compute_at_refuses_a_stencil() -> None:
    s = create_schedule(blur(8))
    with pytest.raises((ProducerError, CoverageError), match="reverse_compute_at: "):
        s.reverse_compute_at("S", s.loops("P")[0])


def test_reverse_compute_at_refuses_a_diagonal() -> None:
    """Each C[i, j] reads two rows of B, which two iterations make."""
    a = te.placeholder((4, 3), name="A")
    b = te.compute((4, 3), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((4, 4), lambda i, j: b[i, 0] + b[j, 0], name="C")
    s = create_schedule(c)
    with pytest.raises(ProducerError, match="C reads elements that different iterations of loop i make"):
        s.reverse_compute_at(c, s.loops(b)[0])


def test_reverse_compute_at_refuses_to_leave_out_padding() -> None:
    """S[0] reads no element of P: no iteration over P would run it."""
    a = te.placeholder((8,), name="A")
    p = te.compute((8,), lambda i: a[i] * 2.0, name="P")
    c = te.compute((9,), lambda i: te.where(i > 0, p[te.maximum(i, 1) - 1], 0.0), name="C")
    s = create_schedule(c)
    with pytest.raises((CoverageError, AccessError)):
        s.reverse_compute_at(c, s.loops(p)[0])
    d = te.compute((9,), lambda i: te.where(i > 0, p[i - 1], 0.0), name="C")
    s = create_schedule(d)
    with pytest.raises(CoverageError, match="some values of axis vi of C would never run"):
        s.reverse_compute_at(d, s.loops(p)[0])


def test_reverse_compute_at_refuses_other_orders() -> None:
    s = create_schedule(elementwise(8))
    with pytest.raises(ConsumerError, match="B runs before loop i"):
        s.reverse_compute_at("B", s.loops("C")[0])
    with pytest.raises(ConsumerError, match="C is inside loop i already"):
        s.reverse_compute_at("C", s.loops("C")[0])


def test_dead_handles_say_what_became_of_the_loop() -> None:
    s = create_schedule(bias_relu(4, 3, 5))
    old = s.loops("C")[0]
    s.compute_at("C", s.loops("D")[0])
    with pytest.raises(Exception, match=r"loop i ended when C got new loops at loop i at .*test_placement.py:\d+"):
        s.unroll(old)


def test_matmul_of_a_computed_operand() -> None:
    a = te.placeholder((6, 5), name="A")
    t = te.compute((5, 6), lambda i, j: a[j, i] + 1.0, name="T")
    r = te.reduce_axis(5, name="r")
    c = te.compute((6, 6), lambda i, j: te.sum(t[r, i] * t[r, j], axis=r), name="C")
    for depth in range(3):
        s = create_schedule(c)
        s.compute_at(t, s.loops(c)[depth])
        check_equivalent(te.lower(c), s.function)
    assert matmul(2, 3, 4).name == "C"
