from __future__ import annotations

import pytest

from lpx import te
from lpx.ir.parser import parse_function
from lpx.schedule import Schedule, create_schedule
from lpx.schedule.errors import (
    AccessError,
    BlockFormError,
    CoverageError,
    DependenceError,
    LoopKindError,
    NestingError,
    OptionError,
    OutputError,
    UnknownNameError,
)
from tests.schedule.compiled import check, confirm_compiled
from tests.schedule.support import bias_relu, blur, elementwise, matmul
from tests.support import Golden


def test_cache_read_copies_before_the_nest(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, j, _ = s.loops("C")
        io, _, _, _ = s.tile(i, j, 4, 8)
        s.compute_at(s.cache_read("C", "A", "local"), io)

    confirm_compiled(golden, "cache_read", matmul(te.var("m"), 5, 16), apply, {"m": 10})


def test_cache_read_inside_a_loop_copies_what_one_iteration_reads(golden: Golden) -> None:
    """P exists tile by tile; its copy holds one tile as well, so that tiles may still run at once."""

    def apply(s: Schedule) -> None:
        o, _ = s.split(s.loops("S")[0], 4)
        s.compute_at("P", o)
        s.cache_read("S", "P", "local")
        s.parallel(o)

    confirm_compiled(golden, "cache_read_tile", blur(te.var("n")), apply, {"n": 13})


@pytest.mark.parametrize("n", [1, 3, 4, 5])
def test_cache_read_of_tiles_of_every_length(n: int) -> None:
    for extent in (n, te.var("n")):
        program = blur(extent)
        s = create_schedule(program)
        o, i = s.split(s.loops("S")[0], 3, tail="peel") if n == 4 else s.split(s.loops("S")[0], 3)
        if n != 4:
            s.compute_at("P", o)
        s.cache_read("S", "P")
        s.vectorize(i)
        check(program, s, {"n": n})


def test_cache_read_of_a_state_in_a_scan() -> None:
    def step(t: te.Scalar, h: te.Tensor) -> te.Tensor:
        return te.compute((4,), lambda i: h[3 - i] + x[t, i], name="next")

    x = te.placeholder((5, 4), name="x")
    program = te.scan(5, ((4,), lambda i: 0.0), step)
    s = create_schedule(program)
    s.cache_read("next", "x", "local")
    check(program, s)


def test_cache_read_of_one_reader_of_several() -> None:
    a = te.placeholder((6,), name="A")
    b = te.compute((6,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((6,), lambda i: a[i] + b[5 - i], name="C")
    s = create_schedule(c)
    s.cache_read("C", a)
    s.compute_inline("B")
    check(c, s)
    assert str(s).count("A_global[") == 2, "one write of the copy, one read by C"


def test_cache_read_of_a_changed_layout() -> None:
    """Where the layout leaves no gaps it may be copied; places that nothing writes are not."""
    program = bias_relu(4, 3, 8)
    s = create_schedule(program)
    s.transform_layout("C", lambda i, j: (j // 4, i, j % 4))
    s.cache_read("D", "C")
    check(program, s)
    s = create_schedule(program)
    s.transform_layout("C", lambda i, j: (j // 3, i, j % 3))
    with pytest.raises(CoverageError, match=r"(?s)C may leave gaps in C.*before the layout is transformed"):
        s.cache_read("D", "C")


def test_cache_read_refuses() -> None:
    s = create_schedule(bias_relu(4, 3, 8))
    with pytest.raises(UnknownNameError, match=r"(?s)no buffer E is accessed here.*the buffers are C, bias"):
        s.cache_read("D", "E")
    with pytest.raises(OptionError, match=r"(?s)'l1' is not a scope.*use one of global, local, register, shared"):
        s.cache_read("D", "bias", "l1")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(AccessError, match=r"(?s)C writes C itself.*use cache_write"):
        s.cache_read("C", "C")
    assert not len(s.trace)


def test_cache_read_refuses_a_place_in_lanes() -> None:
    s = create_schedule(elementwise(8))
    s.compute_at("B", s.loops("C")[0])
    s.vectorize(s.loops("C")[0])
    with pytest.raises(LoopKindError, match=r"(?s)loop i is vectorized.*do this before vectorizing"):
        s.cache_read("C", "B")


def test_cache_read_refuses_unknown_parts_inside_a_loop() -> None:
    gather = parse_function("""
        func gather(where: in int64[4], A: in float32[4], C: out float32[4]) {
          for i in 0..4 {
            alloc B: float32[4]
            for j in 0..4 { block B(vj: spatial 4 = j) { B[vj] = A[vj] } }
            for r in 0..4 {
              block C(vi: spatial 4 = i, vr: reduce 4 = r) {
                init { C[vi] = 0.0f32 }
                C[vi] = C[vi] + B[where[vr]]
              }
            }
          }
        }
    """)
    s = create_schedule(gather)
    with pytest.raises(AccessError, match="which elements of B are accessed in one iteration is not known"):
        s.cache_read("C", "B")


def test_cache_write_then_reverse_compute_at(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        out = s.cache_write("C", "local")
        i, j, r = s.loops("C")
        io, jo, ii, ji = s.tile(i, j, 4, 8)
        s.reorder(io, jo, r, ii, ji)
        s.reverse_compute_at(out, jo)
        s.vectorize(ji)

    confirm_compiled(golden, "cache_write", matmul(6, 5, 16), apply)


def test_cache_write_under_a_loop_writes_what_one_iteration_made(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, _ = s.loops("D")
        o, _ = s.split(i, 4)
        s.compute_at("C", o)
        s.cache_write("C", "local")
        s.parallel(o)

    confirm_compiled(golden, "cache_write_tile", bias_relu(te.var("m"), 3, 8), apply, {"m": 10})


def test_cache_write_after_split_and_fuse() -> None:
    program = elementwise(te.var("n"))
    s = create_schedule(program)
    s.split(s.loops("C")[0], 4)
    s.cache_write("C")
    check(program, s, {"n": 10})
    program = matmul(4, 3, 6)
    s = create_schedule(program)
    i, j, _ = s.loops("C")
    s.fuse(i, j)
    s.cache_write("C")
    check(program, s)


def test_cache_write_refuses() -> None:
    a = te.placeholder((4, 4), name="A", inout=True)
    update = te.update(a, lambda i, j: a[i, j] + 1.0)
    s = create_schedule(update)
    with pytest.raises(BlockFormError, match="reads what A held before"):
        s.cache_write(s.blocks()[0])
    s = create_schedule(elementwise(te.var("n")))
    s.split(s.loops("C")[0], 4, tail="peel")
    with pytest.raises(BlockFormError, match="C is also written by"):
        s.cache_write("C")
    s = create_schedule(matmul(4, 3, te.var("n")))
    i, j, _ = s.loops("C")
    s.split(s.fuse(i, j), 5)
    with pytest.raises(AccessError, match="the elements of C that C writes are not seen to form a box"):
        s.cache_write("C")


def test_cache_write_refuses_tiles_that_a_condition_leaves_unwritten() -> None:
    """The first tile of the blur begins outside of P; a version of it has a place for that element all the same."""
    s = create_schedule(blur(16))
    o, _ = s.split(s.loops("S")[0], 4)
    s.compute_at("P", o)
    s.double_buffer("P", o)
    with pytest.raises(AccessError, match="the elements of P that P writes are not seen to form a box"):
        s.cache_write("P")


def test_cache_write_refuses_partly_written_buffers() -> None:
    diagonal = parse_function("""
        func diagonal(A: in float32[4], C: inout float32[4, 4]) {
          for i in 0..4 {
            block C(vi: spatial 4 = i) {
              C[vi, vi] = A[vi]
            }
          }
        }
    """)
    with pytest.raises(AccessError, match="not seen to form a box"):
        create_schedule(diagonal).cache_write("C")


def test_cache_write_refuses_a_reduction_read_while_it_goes_on() -> None:
    running = parse_function("""
        func running(A: in float32[4], S: out float32[1], T: out float32[4]) {
          for r in 0..4 {
            block S(vr: reduce 4 = r) {
              init { S[0] = 0.0f32 }
              S[0] = S[0] + A[vr]
            }
            block T(vi: spatial 4 = r) {
              T[vi] = S[0]
            }
          }
        }
    """)
    with pytest.raises(DependenceError, match="the reduction of S runs over r as well"):
        create_schedule(running).cache_write("S")


def test_set_scope(golden: Golden) -> None:
    confirm_compiled(golden, "set_scope", elementwise(8), lambda s: s.set_scope("B", "local"))
    with pytest.raises(
        OutputError, match=r"(?s)C is the caller's.*make a copy to work on with cache_read or cache_write"
    ):
        create_schedule(elementwise(8)).set_scope("C", "local")


def test_storage_align(golden: Golden) -> None:
    confirm_compiled(golden, "storage_align", bias_relu(6, 5, 16), lambda s: s.storage_align("C", 0, 16, 1))


@pytest.mark.parametrize(("axis", "factor", "offset"), [(0, 32, 0), (0, 7, 3), (1, 4, 1)])
def test_storage_align_strides(axis: int, factor: int, offset: int) -> None:
    a = te.placeholder((3, 5, 6), name="A")
    b = te.compute((3, 5, 6), lambda i, j, k: a[i, j, k] + 1.0, name="B")
    c = te.compute((3, 6), lambda i, k: b[i, 2, k] + b[i, 4, k], name="C")
    s = create_schedule(c)
    s.storage_align("B", axis, factor, offset)
    check(c, s)


def test_storage_align_refuses() -> None:
    s = create_schedule(elementwise(8))
    with pytest.raises(OptionError, match=r"(?s)B cannot be aligned on axis 0.*its last axis must stay dense"):
        s.storage_align("B", 0, 4)
    s = create_schedule(bias_relu(4, 3, te.var("n")))
    with pytest.raises(OptionError, match=r"(?s)C has a symbolic extent.*align buffers of constant shape"):
        s.storage_align("C", 0, 4)
    s = create_schedule(bias_relu(4, 3, 8))
    s.storage_align("C", 0, 16, 1)
    with pytest.raises(OptionError, match="C has strides already"):
        s.storage_align("C", 0, 16)


def test_a_block_of_blocks_takes_no_copies() -> None:
    nested = parse_function("""
        func nested(A: in float32[4], C: out float32[4]) {
          alloc T: float32[4]
          block outer() {
            for i in 0..4 { block T(vi: spatial 4 = i) { T[vi] = A[vi] } }
            for j in 0..4 { block C(vj: spatial 4 = j) { C[vj] = T[vj] } }
          }
        }
    """)
    with pytest.raises(NestingError, match="block outer holds other blocks"):
        create_schedule(nested).cache_read("C", "T")


def test_cache_read_of_a_layout_with_gaps() -> None:
    s = create_schedule(elementwise(8))
    s.transform_layout("B", lambda i: (i // 3, i % 3))
    with pytest.raises(CoverageError, match=r"(?s)B may leave gaps in B.*before the layout is transformed"):
        s.cache_read("C", "B")
