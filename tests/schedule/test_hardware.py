from __future__ import annotations

import pytest

from lpx import te
from lpx.errors import DefinitionError
from lpx.schedule import Schedule, create_schedule
from lpx.schedule.errors import AccessError, BlockFormError, ExtentError, MatchError, NestingError, OptionError
from lpx.schedule.intrinsics import INTRINSICS, register_intrinsic
from lpx.schedule.testing import check_equivalent
from tests.codegen import harness
from tests.schedule.compiled import confirm_compiled
from tests.schedule.support import Extent, check_replays, confirm
from tests.support import Golden


def product(m: Extent, k: Extent, n: Extent, left: str, right: str, total: str) -> te.Tensor:
    """A product of two matrices in a wider dtype."""
    a, b = te.placeholder((m, k), left, name="A"), te.placeholder((k, n), right, name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute((m, n), lambda i, j: te.sum(te.cast(a[i, r], total) * te.cast(b[r, j], total), axis=r), name="C")


def dots(s: Schedule, lanes: int, group: int, intrinsic: str) -> None:
    """Dot products of groups, `lanes` at a time, with B packed so that a vector of groups is contiguous."""
    i, j, r = s.loops("C")
    jo, ji = s.split(j, lanes)
    ro, ri = s.split(r, group)
    s.reorder(i, jo, ro, ji, ri)
    s.pack("C", "B", lambda r, j: (j // lanes, r // group, j % lanes, r % group))
    s.decompose_reduction("C", ro)
    s.tensorize("C", ji, intrinsic)


def test_tensorize_vnni(golden: Golden) -> None:
    program = product(3, 8, 32, "uint8", "int8", "int32")
    confirm_here = confirm_compiled if harness.HOST.cpu.has("avx512vnni") else confirm
    confirm_here(golden, "tensorize_vnni", program, lambda s: dots(s, 16, 4, "x86.vpdpbusd.16"))


@pytest.mark.parametrize("lanes", [4, 8])
def test_tensorize_vnni_of_fewer_lanes(lanes: int) -> None:
    program = product(2, 8, 8, "uint8", "int8", "int32")
    s = create_schedule(program)
    dots(s, lanes, 4, f"x86.vpdpbusd.{lanes}")
    check_equivalent(te.lower(program), s.function)


def test_tensorize_bfloat16(golden: Golden) -> None:
    """The operation flushes denormal numbers and rounds otherwise, so results agree up to rounding only."""
    program = product(2, 4, 16, "bfloat16", "bfloat16", "float32")
    confirm(golden, "tensorize_bf16", program, lambda s: dots(s, 8, 2, "x86.vdpbf16ps.8"), relative=1e-6)


def matrices(s: Schedule, intrinsic: str) -> None:
    i, j, r = s.loops("C")
    io, ii = s.split(i, 16)
    jo, ji = s.split(j, 8)
    ro, ri = s.split(r, 16)
    s.reorder(io, jo, ro, ii, ji, ri)
    s.decompose_reduction("C", ro)
    s.tensorize("C", ii, intrinsic)


@pytest.mark.parametrize(
    ("intrinsic", "dtype"),
    [("nvvm.mma.f16", "float16"), ("nvvm.mma.bf16", "bfloat16"), ("nvvm.ldmatrix.mma.f16", "float16")],
)
def test_tensorize_matrix_operations(golden: Golden, intrinsic: str, dtype: str) -> None:
    program = product(32, 32, 16, dtype, dtype, "float32")
    confirm(golden, f"tensorize_{intrinsic}", program, lambda s: matrices(s, intrinsic), relative=1e-6)


def in_one_piece(s: Schedule) -> None:
    """Lay out the tiles of a description as instructions take them."""
    group = s.loop_of(s.loops("C")[-1]).extent
    for operand in ("A", "B"):
        s.pack("C", operand, lambda x, y, k: (x * 16 + y) * group + k)
    s.cache_write("C")
    s.transform_layout("C", lambda i, j: i * 16 + j)


@pytest.mark.parametrize("name", sorted(INTRINSICS))
def test_an_intrinsic_is_what_its_description_says(name: str) -> None:
    description = INTRINSICS[name].description()
    s = create_schedule(description)
    is_exact = "int32" in str(description)
    if name.startswith("x86.tdp"):
        in_one_piece(s)
    first = s.loops("C")[0]
    start = s.decompose_reduction("C", first)
    s.tensorize("C", first, name)
    check_equivalent(description, s.function, relative=0.0 if is_exact else 1e-6)
    check_replays(s, description)
    assert start.name in str(s)


def test_tensorize_refuses_tails() -> None:
    """A prime length is refused with the loop that has the tail."""
    s = create_schedule(product(2, 8, 131, "uint8", "int8", "int32"))
    _, j, r = s.loops("C")
    _, ji = s.split(j, 16)
    _, ri = s.split(r, 4)
    ro = s.loops("C")[3]
    s.reorder(ro, ji, ri)
    s.decompose_reduction("C", ro)
    with pytest.raises(
        ExtentError, match=r"(?s)loop j_i has a tail, where the operation would do too much.*tail='peel'"
    ):
        s.tensorize("C", ji, "x86.vpdpbusd.16")


def test_tensorize_refuses() -> None:
    s = create_schedule(product(16, 8, 16, "uint8", "int8", "int32"))
    i, j, r = s.loops("C")
    with pytest.raises(OptionError, match=r"(?s)there is no intrinsic 'gemm'.*there are nvvm.ldmatrix.mma.f16,"):
        s.tensorize("C", j, "gemm")
    with pytest.raises(ExtentError, match=r"(?s)x86.vpdpbusd.16 takes loops of 16 x 4 iterations, not 16 x 8.*split"):
        s.tensorize("C", j, "x86.vpdpbusd.16")
    ro, ri = s.split(r, 4)
    s.reorder(ro, j, ri)
    with pytest.raises(BlockFormError, match=r"(?s)C starts its reduction inside the operation.*decompose_reduction"):
        s.tensorize("C", j, "x86.vpdpbusd.16")
    s.decompose_reduction("C", ro)
    with pytest.raises(NestingError, match="i holds more than loops around C"):
        s.tensorize("C", i, "x86.vpdpbusd.16")
    with pytest.raises(MatchError, match=r"(?s)C does not compute what x86.vdpbf16ps.16 computes.*it computes C\["):
        _pairs(s)


def _pairs(s: Schedule) -> None:
    ri = s.loops("C")[-1]
    o, i = s.split(ri, 2)
    s.reorder(o, s.loops("C")[2], i)
    s.tensorize("C", s.loops("C")[3], "x86.vdpbf16ps.16")


def test_tensorize_refuses_other_signs() -> None:
    """The operation takes unsigned times signed bytes, in either order, and nothing else."""
    s = create_schedule(product(2, 4, 16, "int8", "int8", "int32"))
    s.decompose_reduction("C", s.loops("C")[1])
    with pytest.raises(MatchError, match=r"C does not compute what x86.vpdpbusd.16 computes"):
        s.tensorize("C", s.loops("C")[1], "x86.vpdpbusd.16")


def test_tensorize_refuses_indices_that_jump() -> None:
    a, b = te.placeholder((2, 4), "uint8", name="A"), te.placeholder((16, 4), "int8", name="B")
    r = te.reduce_axis(4, name="r")
    program = te.compute(
        (2, 16),
        lambda i, j: te.sum(te.cast(a[i, r], "int32") * te.cast(b[(j * 3) % 16, r], "int32"), axis=r),
        name="C",
    )
    s = create_schedule(program)
    s.decompose_reduction("C", s.loops("C")[1])
    with pytest.raises(AccessError, match=r"an index of B does not follow the loops linearly: vj \* 3 % 16"):
        s.tensorize("C", s.loops("C")[1], "x86.vpdpbusd.16")


def test_tensorize_refuses_rows_that_are_columns() -> None:
    a, b = te.placeholder((16, 16), "float16", name="A"), te.placeholder((8, 16), "float16", name="B")
    r = te.reduce_axis(16, name="r")
    program = te.compute(
        (16, 8), lambda i, j: te.sum(te.cast(a[i, r], "float32") * te.cast(b[j, r], "float32"), axis=r), name="C"
    )
    s = create_schedule(program)
    first = s.loops("C")[0]
    s.decompose_reduction("C", first)
    with pytest.raises(AccessError, match=r"(?s)ldmatrix reads rows, and B is not read along its last dimension"):
        s.tensorize("C", first, "nvvm.ldmatrix.mma.f16")
    s.tensorize("C", first, "nvvm.mma.f16")
    check_equivalent(te.lower(program), s.function, relative=1e-6)


def test_an_intrinsic_has_one_meaning() -> None:
    with pytest.raises(DefinitionError, match=r"there is an intrinsic nvvm.mma.f16 already"):
        register_intrinsic(INTRINSICS["nvvm.mma.f16"])
