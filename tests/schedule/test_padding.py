from __future__ import annotations

import pytest

from lpx import te
from lpx.schedule import create_schedule
from lpx.schedule.errors import AccessError, BlockFormError, LoopKindError, NestingError, OptionError
from tests.schedule.compiled import check, confirm_compiled
from tests.schedule.support import bias_relu, elementwise, matmul
from tests.support import Golden


def test_pad(golden: Golden) -> None:
    confirm_compiled(golden, "pad", matmul(3, te.var("k"), 5), lambda s: s.pad("C", (1, 4, 4)), {"k": 6})


@pytest.mark.parametrize("multiples", [(4, 1, 1), (1, 8, 1), (1, 1, 4), (2, 3, 5)])
def test_pad_then_tile_without_tails(multiples: tuple[int, int, int]) -> None:
    program = matmul(5, 6, 7)
    s = create_schedule(program)
    s.pad("C", multiples)
    for loop, multiple in zip(s.loops("C"), multiples, strict=True):
        s.split(loop, multiple)
    assert "where" not in str(s.statement(s.block("C")))
    check(program, s)


def test_pad_elementwise_and_inline_the_copies() -> None:
    program = elementwise(te.var("n"))
    s = create_schedule(program)
    copy_in, copy_out = s.pad("C", [8])
    s.compute_inline(copy_in)
    s.vectorize(s.split(s.loops("C")[0], 8)[1])
    assert copy_out.name == "C_unpad"
    check(program, s, {"n": 13})


def test_padded_bytes_take_the_dot_product_instruction() -> None:
    a, b = te.placeholder((3, 10), "uint8", name="A"), te.placeholder((10, 21), "int8", name="B")
    r = te.reduce_axis(10, name="r")
    program = te.compute(
        (3, 21), lambda i, j: te.sum(te.cast(a[i, r], "int32") * te.cast(b[r, j], "int32"), axis=r), name="C"
    )
    s = create_schedule(program)
    s.pad("C", (1, 16, 4))
    i, j, k = s.loops("C")
    _, ji = s.split(j, 16)
    ko, ki = s.split(k, 4)
    s.reorder(i, ko, ji, ki)
    s.decompose_reduction("C", ko)
    s.tensorize("C", ji, "x86.vpdpbusd.16")
    assert "vpdpbusd" in str(s)


@pytest.mark.parametrize("multiples", [(4, 8, 1), (8, 4, 1), (4, 1, 1), (1, 4, 4)])
def test_pad_of_one_buffer_along_two_axes(multiples: tuple[int, int, int]) -> None:
    """The copy has room for the larger of both."""
    a = te.placeholder((5, 6), "int32", name="A")
    r = te.reduce_axis(6, name="r")
    program = te.compute((5, 5), lambda i, j: te.sum(a[i, r] * a[j, r], axis=r), name="G")
    s = create_schedule(program)
    s.pad("G", multiples)
    check(program, s)


def test_pad_refuses_two_extents_of_which_neither_is_larger() -> None:
    a = te.placeholder((te.var("n"), 6), "int32", name="A")
    r = te.reduce_axis(6, name="r")
    program = te.compute((a.shape[0], a.shape[0]), lambda i, j: te.sum(a[i, r] * a[j, r], axis=r), name="G")
    s = create_schedule(program)
    with pytest.raises(AccessError, match=r"(?s)G accesses A along axes of several new extents.*the same multiple"):
        s.pad("G", (2, 3, 1))
    s.pad("G", (3, 3, 1))
    check(program, s, {"n": 4})


def test_pad_refuses() -> None:
    s = create_schedule(matmul(4, 6, 5))
    with pytest.raises(OptionError, match=r"(?s)\(4, 4\) are not multiples for the axes vi, vj, vr.*give one per axis"):
        s.pad("C", (4, 4))
    s.parallel(s.loops("C")[0])
    with pytest.raises(LoopKindError, match="loop i is parallel"):
        s.pad("C", (3, 1, 1))
    s = create_schedule(matmul(4, 6, 5))
    s.split(s.loops("C")[0], 2)
    with pytest.raises(NestingError, match=r"(?s)axis vi of C is not bound to a loop of its own.*pad before splitting"):
        s.pad("C", (8, 1, 1))
    s = create_schedule(bias_relu(4, 6, 5))
    s.compute_at("C", s.loops("D")[0])
    with pytest.raises(NestingError, match="C is not a nest of its own"):
        s.pad("C", (1, 1, 4))


def test_pad_refuses_what_zeros_would_change() -> None:
    a = te.placeholder((4, 6), name="A")
    r = te.reduce_axis(6, name="r")
    for value in (te.max(a[0, r], axis=r), te.sum(a[0, r] + 1.0, axis=r), te.sum(a[0, r], axis=r, init=1.0)):
        s = create_schedule(te.compute((4,), lambda i, v=value: v, name="S"))
        with pytest.raises(BlockFormError, match=r"(?s)S is not a sum from 0 of values that are 0.*leave axis vr"):
            s.pad("S", (1, 4))
    s = create_schedule(te.compute((6,), lambda i: te.cast(a[0, i], "int32") // te.cast(a[1, i], "int32"), name="Q"))
    with pytest.raises(BlockFormError, match="Q divides by what it reads, which would be 0"):
        s.pad("Q", [4])
    s = create_schedule(te.compute((5,), lambda i: a[0, i + 1], name="T"))
    with pytest.raises(AccessError, match=r"T accesses A at vi \+ 1, not at an axis as it is"):
        s.pad("T", [4])
