"""For every legality check of schedules, a few lines that it alone refuses.

Each case makes a schedule and ends with the call that must be refused; it returns the schedule, for when the check is
switched off and the call goes through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from lpx import te
from lpx.ir.nodes import Function
from lpx.ir.parser import parse_function
from lpx.schedule import LoopHandle, Schedule, testing
from lpx.te.lower import lower


class Started(Schedule):
    """A schedule that remembers the program it began with."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.original = function


Attempt = Callable[[], Started | None]


@dataclass(frozen=True, slots=True)
class Case:
    """What `check` must refuse. `is_unsound`: without the check the primitive makes another program of it."""

    check: str
    attempt: Attempt
    is_unsound: bool


CASES: list[Case] = []


def refused_by(check: str, *, is_unsound: bool = False) -> Callable[[Attempt], Attempt]:
    """Enter a case."""

    def enter(attempt: Attempt) -> Attempt:
        CASES.append(Case(check, attempt, is_unsound))
        return attempt

    return enter


def start(program: te.Tensor | list[te.Tensor] | Function) -> Started:
    """A schedule of a program."""
    return Started(program if isinstance(program, Function) else lower(program))


def text(program: str) -> Started:
    """A schedule of a program given as text."""
    return start(parse_function(program))


def chain(n: te.Dim = 8) -> Started:
    """C[i] = B[i] * 2 with B[i] = A[i] + 1."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    return start(te.compute((n,), lambda i: b[i] * 2.0, name="C"))


def two_readers() -> Started:
    """C and D both read B, which is no output; D reads C as well."""
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((8,), lambda i: b[i] * 2.0, name="C")
    return start(te.compute((8,), lambda i: b[i] + c[i], name="D"))


def matmul() -> Started:
    a, b = te.placeholder((4, 8), name="A"), te.placeholder((8, 4), name="B")
    r = te.reduce_axis(8, name="r")
    return start(te.compute((4, 4), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C"))


def two_axis_sum() -> Started:
    a = te.placeholder((3, 4, 5), name="A")
    r, q = te.reduce_axis(4, name="r"), te.reduce_axis(5, name="q")
    return start(te.compute((3,), lambda i: te.sum(a[i, r, q], axis=(r, q)), name="C"))


def position_of_maximum(size: int) -> Started:
    a = te.placeholder((3, size), name="A")
    r = te.reduce_axis(size, name="r")
    p, _ = te.compute((3,), lambda i: te.argmax(a[i, r], axis=r), name=("P", "M"))
    return start(te.compute((3,), lambda i: p[i] + 1, name="C"))


# --- arguments ---------------------------------------------------------------------------------------------------


@refused_by("_check_factor")
def a_factor_of_zero() -> Started:
    s = chain()
    s.split(s.loops("C")[0], 0)
    return s


@refused_by("check_scope")
def an_unknown_scope() -> Started:
    s = chain()
    s.set_scope("B", cast("Any", "nowhere"))
    return s


@refused_by("check_over_symbols", is_unsound=True)
def a_point_that_is_no_extent() -> Started:
    s = chain()
    s.partition(s.loops("C")[0], te.var("elsewhere"))
    return s


@refused_by("check_loop_alive")
def a_loop_that_was_split() -> Started:
    s = chain()
    (i,) = s.loops("C")
    s.split(i, 4)
    s.unroll(i)
    return s


@refused_by("check_block_alive")
def a_block_that_was_inlined() -> Started:
    s = chain()
    s.compute_inline("B")
    s.compute_root("B")
    return s


@refused_by("check_injective", is_unsound=True)
def a_layout_that_joins_elements() -> Started:
    s = chain()
    s.transform_layout("B", lambda i: i // 2)
    return s


@refused_by("check_without_gaps", is_unsound=True)
def a_copy_of_what_nobody_wrote() -> Started:
    s = chain()
    s.transform_layout("B", lambda i: (i // 3, i % 3))
    s.cache_read("C", "B")
    return s


# --- kinds of loops ----------------------------------------------------------------------------------------------


@refused_by("check_serial")
def splitting_a_parallel_loop() -> Started:
    s = chain()
    (i,) = s.loops("C")
    s.parallel(i)
    s.split(i, 4)
    return s


@refused_by("check_kind_free")
def two_kinds_for_one_loop() -> Started:
    s = chain()
    (i,) = s.loops("C")
    s.parallel(i)
    s.vectorize(i)
    return s


@refused_by("check_constant_extent", is_unsound=True)
def vectors_of_symbolic_length() -> Started:
    s = chain(te.var("n"))
    s.vectorize(s.loops("C")[0])
    return s


@refused_by("check_vectorizable")
def vectors_of_vectors() -> Started:
    s = matmul()
    i, j, _ = s.loops("C")
    s.vectorize(j)
    s.vectorize(i)
    return s


@refused_by("check_not_within")
def threads_within_lanes() -> Started:
    s = matmul()
    i, j, _ = s.loops("C")
    s.vectorize(i)
    s.parallel(j)
    return s


@refused_by("check_axis_unused")
def one_thread_axis_twice() -> Started:
    s = matmul()
    i, j, _ = s.loops("C")
    s.bind(i, "threadIdx.x")
    s.bind(j, "threadIdx.x")
    return s


@refused_by("check_independent", is_unsound=True)
def a_recurrence_on_threads() -> Started:
    s = text("""
func f(A: inout float32[9]) {
  for i in 0..8 { block S(vi: sequential 8 = i) { A[vi + 1] = A[vi] * 2.0f32 } }
}""")
    s.parallel(s.loops("S")[0])
    return s


# --- nests of loops ----------------------------------------------------------------------------------------------


@refused_by("check_directly_nested", is_unsound=True)
def fusing_strangers() -> Started:
    s = chain()
    s.fuse(s.loops("B")[0], s.loops("C")[0])
    return s


_TRIANGLE = """
func f(A: in float32[4, 4], C: inout float32[4, 4]) {
  for i in 0..4 { for j in 0..i + 1 { block C(vi: spatial 4 = i, vj: spatial 4 = j) { C[vi, vj] = A[vi, vj] } } }
}"""


@refused_by("check_rectangular", is_unsound=True)
def fusing_a_triangle() -> Started:
    s = text(_TRIANGLE)
    s.fuse(*s.loops("C"))
    return s


@refused_by("check_bounds_follow", is_unsound=True)
def turning_a_triangle() -> Started:
    s = text(_TRIANGLE)
    i, j = s.loops("C")
    s.reorder(j, i)
    return s


@refused_by("check_order_kept", is_unsound=True)
def turning_a_recurrence() -> Started:
    s = text("""
func f(A: inout float32[5, 5]) {
  for i in 0..4 { for j in 0..4 {
    block S(vi: sequential 4 = i, vj: sequential 4 = j) { A[vi + 1, vj] = A[vi, vj + 1] * 2.0f32 }
  } }
}""")
    i, j = s.loops("S")
    s.reorder(j, i)
    return s


@refused_by("check_starts_kept")
def fusing_a_sum_over_nothing() -> Started:
    n = te.var("n")
    a, r = te.placeholder((4, n), name="A"), te.reduce_axis(n, name="r")
    s = start(te.compute((4,), lambda i: te.sum(a[i, r], axis=r), name="C"))
    s.fuse(*s.loops("C"))
    return s


@refused_by("check_starts_once")
def cutting_inside_a_sum_over_nothing() -> Started:
    n = te.var("n")
    a, r = te.placeholder((4, n), name="A"), te.reduce_axis(n, name="r")
    s = start(te.compute((4,), lambda i: te.sum(a[i, r], axis=r), name="C"))
    _, inner = s.split(s.loops("C")[1], 4)
    s.partition(inner, 2)
    return s


# --- placement of producers --------------------------------------------------------------------------------------


@refused_by("check_temporaries", is_unsound=True)
def an_output_in_pieces() -> Started:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    s = start([te.compute((4,), lambda i: b[i] * 2.0, name="C"), b])
    s.compute_inline("B")
    return s


@refused_by("check_only_writer", is_unsound=True)
def half_a_producer() -> Started:
    s = chain()
    s.partition(s.loops("B")[0], 4)
    s.compute_inline("B")
    return s


@refused_by("check_plain_domain", is_unsound=True)
def every_second_element() -> Started:
    s = text("""
func f(A: in float32[8], C: inout float32[8]) {
  alloc T: float32[8]
  for i in 0..8 { block T(vi: spatial 8 = i) { T[vi] = A[vi] } }
  for i in 0..8 { block C(vi: spatial 8 = i) where i % 2 == 0 { C[vi] = T[vi] } }
}""")
    s.reverse_compute_at("C", s.loops("T")[0])
    return s


@refused_by("check_read_inside", is_unsound=True)
def a_reader_outside_the_loop() -> Started:
    s = two_readers()
    s.compute_at("B", s.loops("C")[0])
    return s


@refused_by("check_open_path")
def a_place_within_lanes() -> Started:
    s = chain()
    (i,) = s.loops("C")
    s.vectorize(i)
    s.compute_at("B", i)
    return s


@refused_by("check_before")
def a_producer_that_comes_later() -> Started:
    s = text("""
func f(A: in float32[8], C: out float32[8]) {
  alloc B: float32[8]
  for t in 0..8 {
    block C(vt: spatial 8 = t) { C[vt] = select(0 < vt, B[max(vt - 1, 0)], 0.0f32) }
    block B(vt: spatial 8 = t) { B[vt] = C[vt] + A[vt] }
  }
}""")
    s.compute_inline("B")
    return s


@refused_by("check_unchanged", is_unsound=True)
def an_input_that_is_overwritten() -> Started:
    x = te.placeholder((8,), name="X", inout=True)
    b = te.compute((8,), lambda i: x[i] * 2.0, name="B")
    later = te.update(x, lambda i: x[i] + 1.0, name="later")
    s = start([te.compute((8,), lambda i: b[i] + later[i], name="C"), later])
    s.compute_inline("B")
    return s


@refused_by("check_in_scope", is_unsound=True)
def an_input_that_is_gone() -> Started:
    s = text("""
func f(A: in float32[8], D: out float32[8]) {
  alloc C: float32[8]
  for i in 0..8 {
    alloc B: float32[8]
    block C(vi: spatial 8 = i) { C[vi] = select(8 < vi, B[vi], A[vi]) }
  }
  for i in 0..8 { block D(vi: spatial 8 = i) { D[vi] = C[vi] } }
}""")
    s.compute_inline("C")
    return s


@refused_by("check_at_home")
def elements_of_another_iteration() -> Started:
    s = text("""
func f(A: in float32[16], C: out float32[16]) {
  alloc B: float32[16]
  for o in 0..4 {
    for i in 0..4 { block B(v: spatial 16 = o * 4 + i) { B[v] = A[v] * 2.0f32 } }
    for j in 0..4 { block C(v: spatial 16 = o * 4 + j) { C[v] = select(3 < v, B[max(v - 4, 0)], 1.0f32) + B[v] } }
  }
}""")
    s.compute_at("B", s.loops("C")[1])
    return s


# --- merging -----------------------------------------------------------------------------------------------------


def two_loops(first: str, second: str, between: str = "") -> Started:
    """Two blocks in loops, and their merging asked for."""
    s = text(f"""
func f(A: in float32[8], B: inout float32[16], C: inout float32[16], D: inout float32[16]) {{
  {first}
  {between}
  {second}
}}""")
    s.merge(s.loops("P")[0], s.loops("Q")[0])
    return s


PRODUCER = "for i in 0..8 { block P(v: spatial 8 = i) { B[v + 1] = A[v] } }"


@refused_by("check_adjacent")
def merging_loops_with_another_between() -> Started:
    between = "for k in 0..8 { block R(v: spatial 8 = k) { D[v] = A[v] } }"
    return two_loops(PRODUCER, "for j in 0..8 { block Q(v: spatial 8 = j) { C[v] = A[v] } }", between)


@refused_by("check_same_bounds", is_unsound=True)
def merging_loops_of_different_lengths() -> Started:
    return two_loops(PRODUCER, "for j in 0..6 { block Q(v: spatial 6 = j) { C[v] = A[v] } }")


@refused_by("check_met_in_one_iteration", is_unsound=True)
def merging_a_loop_with_one_that_reads_ahead() -> Started:
    return two_loops(PRODUCER, "for j in 0..8 { block Q(v: spatial 8 = j) { C[v] = B[v + 2] } }")


# --- inlining ----------------------------------------------------------------------------------------------------


@refused_by("check_pointwise", is_unsound=True)
def inlining_a_sum() -> Started:
    a = te.placeholder((3, 4), name="A")
    r = te.reduce_axis(4, name="r")
    b = te.compute((3,), lambda i: te.sum(a[i, r], axis=r), name="B")
    s = start(te.compute((3,), lambda i: b[i] * 2.0, name="C"))
    s.compute_inline("B")
    return s


@refused_by("check_reads")
def inlining_what_nobody_reads() -> Started:
    s = text("""
func f(A: in float32[8], C: out float32[8]) {
  alloc B: float32[8]
  for i in 0..8 { block B(vi: spatial 8 = i) { B[vi] = A[vi] } }
  for i in 0..8 { block C(vi: spatial 8 = i) { C[vi] = A[vi] } }
}""")
    s.compute_inline("B")
    return s


@refused_by("_check_same_iteration", is_unsound=True)
def inlining_what_an_earlier_iteration_made() -> Started:
    s = text("""
func f(X: inout float32[1], C: out float32[8]) {
  alloc B: float32[8]
  for t in 0..8 {
    block B(vt: spatial 8 = t) { B[vt] = X[0] }
    block C(vt: spatial 8 = t) { C[vt] = B[vt // 2] }
    block X(vt: sequential 8 = t) { X[0] = X[0] + 1.0f32 }
  }
}""")
    s.compute_inline("B")
    return s


@refused_by("_check_order", is_unsound=True)
def inlining_a_consumer_before_its_inputs() -> Started:
    s = text("""
func f(A: in float32[8], E: inout float32[8], D: out float32[8]) {
  alloc B: float32[8]
  for i in 0..8 { block B(vi: spatial 8 = i) { B[vi] = A[vi] + 1.0f32 } }
  for i in 0..8 { block E(vi: spatial 8 = i) { E[vi] = E[vi] * 3.0f32 } }
  for i in 0..8 { block D(vi: spatial 8 = i) { D[vi] = B[vi] + E[vi] } }
}""")
    s.reverse_compute_inline("D")
    return s


@refused_by("check_plain_access")
def moving_what_has_an_address() -> Started:
    s = text("""
func f(A: in float32[8], C: out float32[8]) {
  alloc B: float32[8]
  for i in 0..8 {
    block B(vi: spatial 8 = i) {
      B[vi] = A[vi]
      evaluate hardware["prefetch", any, same, 1](&B[vi])
    }
  }
  for i in 0..8 { block C(vi: spatial 8 = i) { C[vi] = B[vi] } }
}""")
    s.compute_at("B", s.loops("C")[0])
    return s


# --- placement of consumers --------------------------------------------------------------------------------------


@refused_by("check_after")
def a_consumer_that_comes_before() -> Started:
    s = chain()
    s.reverse_compute_at("B", s.loops("C")[0])
    return s


@refused_by("check_untouched", is_unsound=True)
def a_consumer_before_its_other_input() -> Started:
    s = two_readers()
    s.reverse_compute_at("D", s.loops("B")[0])
    return s


@refused_by("_check_outputs_in_scope", is_unsound=True)
def a_consumer_away_from_its_result() -> Started:
    s = text("""
func f(A: in float32[8], D: out float32[8]) {
  alloc B: float32[8]
  for i in 0..8 { block B(vi: spatial 8 = i) { B[vi] = A[vi] } }
  for i in 0..8 {
    alloc C: float32[8]
    block C(vi: spatial 8 = i) { C[vi] = B[vi] }
    block D(vi: spatial 8 = i) { D[vi] = A[vi] }
  }
}""")
    s.reverse_compute_at("C", s.loops("B")[0])
    return s


@refused_by("_check_one_axis_per_loop", is_unsound=True)
def only_the_diagonal() -> Started:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    s = start(te.compute((4, 4), lambda i, j: b[i] * b[j], name="C"))
    s.reverse_compute_at("C", s.loops("B")[0])
    return s


@refused_by("_check_independent_dimensions")
def one_loop_over_two_dimensions() -> Started:
    s = text("""
func f(A: in float32[4], C: out float32[4, 4]) {
  alloc B: float32[4, 4]
  for z in 0..4 { for y in 0..4 { block Z(vz: spatial 4 = z, vy: spatial 4 = y) { C[vz, vy] = 0.0f32 } } }
  for i in 0..4 { block B(vi: spatial 4 = i) { B[vi, vi] = A[vi] } }
  for i in 0..4 { block C(vi: spatial 4 = i, vj: spatial 4 = i) { C[vi, vj] = B[vi, vj] } }
}""")
    s.reverse_compute_at("C", s.loops("B")[0])
    return s


@refused_by("check_reduction_order", is_unsound=True)
def a_sum_from_the_end() -> Started:
    s = text("""
func f(A: in float32[4], C: out float32[1]) {
  alloc B: float32[4]
  for i in 0..4 { block B(vi: spatial 4 = 3 - i) { B[vi] = A[vi] * 2.0f32 } }
  for r in 0..4 { block C(vr: reduce 4 = r) { init { C[0] = 0.0f32 } C[0] = C[0] * 0.5f32 + B[vr] } }
}""")
    s.reverse_compute_at("C", s.loops("B")[0])
    return s


# --- storage -----------------------------------------------------------------------------------------------------


@refused_by("check_intermediate", is_unsound=True)
def another_layout_for_the_caller() -> Started:
    s = chain()
    s.transform_layout("C", lambda i: (i // 4, i % 4))
    return s


@refused_by("check_one_buffer")
def a_scope_for_two_tensors() -> Started:
    s = position_of_maximum(4)
    s.set_scope("P", "local")
    return s


@refused_by("check_single_output")
def a_cache_of_half_a_tensor() -> Started:
    a = te.placeholder((8,), name="A", inout=True)
    first = te.update(a, lambda i: a[i] * 2.0, name="first")
    s = start(te.update(first, lambda i: first[7 - i] + 1.0, ordered=True, name="second"))
    s.cache_write("second")
    return s


@refused_by("check_plain_reads", is_unsound=True)
def a_copy_of_what_is_being_added_up() -> Started:
    s = matmul()
    s.cache_read("C", "C")
    return s


@refused_by("check_starts_fresh", is_unsound=True)
def a_cache_of_what_was_there_before() -> Started:
    a = te.placeholder((8,), name="A", inout=True)
    s = start(te.update(a, lambda i: a[i] * 2.0, name="twice"))
    s.cache_write("twice")
    return s


@refused_by("check_every_step", is_unsound=True)
def a_cache_of_some_steps() -> Started:
    x = te.placeholder((5, 4), name="X")

    def step(t: te.Scalar, s: te.Tensor) -> te.Tensor:
        doubled = te.compute((4,), lambda i: x[t, i] * 2.0, name="P")
        return te.compute((4,), lambda i: s[i] + doubled[i], name="Q")

    s = start(te.scan(5, ((4,), lambda i: 0.0), step, name="S"))
    s.split(s.loops("Q")[0], 4)
    s.cache_write("P")
    return s


@refused_by("check_complete", is_unsound=True)
def packing_part_by_part() -> Started:
    s = chain()
    s.compute_at("B", s.loops("C")[0])
    s.pack("C", "B", lambda i: (i // 4, i % 4))
    return s


@refused_by("check_open_place")
def a_copy_within_lanes() -> Started:
    s = chain()
    (i,) = s.loops("C")
    s.compute_at("B", i)
    s.vectorize(i)
    s.cache_read("C", "B")
    return s


@refused_by("check_takes_all", is_unsound=True)
def a_part_of_a_sum_behind_its_producer() -> Started:
    a, r = te.placeholder((4,), name="A"), te.reduce_axis(4, name="r")
    b = te.compute((4,), lambda i: a[i] * 2.0, name="B")
    s = start(te.compute((), lambda: te.sum(b[r], axis=r), name="C"))
    s.split(s.loops("C")[0], 3, tail="peel")
    s.reverse_compute_at("C", s.loops("B")[0])
    return s


# --- reductions --------------------------------------------------------------------------------------------------


@refused_by("check_accumulation")
def a_padded_sum_of_another_form() -> Started:
    """Each value is added to half of what was there."""
    a = te.placeholder((3, 5), name="A")
    r = te.reduce_axis(5, name="r")
    halving = te.reducer(lambda p, q: p * 0.5 + q, 0.0)
    s = start(te.compute((3,), lambda i: halving(a[i, r], axis=r), name="C"))
    s.pad("C", [1, 4])
    return s


@refused_by("check_any_accumulation")
def parts_of_no_reduction() -> Started:
    s = chain()
    s.rfactor("C", s.loops("C")[0])
    return s


@refused_by("check_loop_above")
def a_start_before_another_loop() -> Started:
    a = te.placeholder((3, 4), name="A")
    r = te.reduce_axis(4, name="r")
    b = te.compute((3,), lambda i: te.sum(a[i, r], axis=r), name="B")
    s = start(te.compute((3,), lambda i: b[i] * 2.0, name="C"))
    s.decompose_reduction("B", s.loops("C")[0])
    return s


@refused_by("check_reduces_inside")
def a_copy_in_the_middle_of_a_sum() -> Started:
    s = text("""
    func sums(A: in float32[3, 4, 5], C: out float32[3], D: out float32[3, 4]) {
      for i in 0..3 { for r in 0..4 {
        for q in 0..5 {
          block C(vi: spatial 3 = i, vr: reduce 4 = r, vq: reduce 5 = q) {
            init { C[vi] = 0.0f32 }
            C[vi] = C[vi] + A[vi, vr, vq]
          }
        }
        block D(vj: spatial 3 = i, vk: spatial 4 = r) { D[vj, vk] = C[vj] }
      } }
    }
    """)
    s.cache_write("C")
    return s


@refused_by("check_first_parts")
def a_start_in_a_part_that_may_not_run() -> Started:
    n = te.var("n")
    a, r = te.placeholder((4, n), name="A"), te.reduce_axis(n, name="r")
    s = start(te.compute((4,), lambda i: te.sum(a[i, r], axis=r), name="C"))
    i, k = s.loops("C")
    _, _, inner, _ = s.tile(k, i, 2, 4)
    s.decompose_reduction("C", inner)
    return s


@refused_by("check_begins", is_unsound=True)
def a_start_in_a_tail() -> Started:
    n = te.var("n")
    a, r = te.placeholder((4, n), name="A"), te.reduce_axis(n, name="r")
    s = start(te.compute((4,), lambda i: te.sum(a[i, r], axis=r), name="C"))
    s.split(s.loops("C")[1], 2, tail="peel")
    s.decompose_reduction("C_tail", s.loops("C_tail")[1])
    return s


@refused_by("check_start_may_move", is_unsound=True)
def a_start_that_another_block_spoils() -> Started:
    s = text("""
func f(A: in float32[4, 3], C: inout float32[4], D: inout float32[4]) {
  for i in 0..4 {
    for r in 0..3 {
      block C(vi: spatial 4 = i, vr: reduce 3 = r) { init { C[vi] = 0.0f32 } C[vi] = C[vi] + A[vi, vr] }
    }
    block D(vi: spatial 4 = i) { C[3 - vi] = 7.0f32 }
  }
}""")
    s.decompose_reduction("C", s.loops("C")[0])
    return s


@refused_by("check_reduce_loop", is_unsound=True)
def parts_of_a_spatial_loop() -> Started:
    s = matmul()
    s.rfactor("C", s.loops("C")[1])
    return s


@refused_by("_check_first_runs", is_unsound=True)
def parts_without_values() -> Started:
    """Two sums that start from numbers which count once."""
    a = te.placeholder((2,), "int32", "A")
    r = te.reduce_axis(2, name="r")
    sums = te.reducer(lambda p, q: (p[0] + q[0], p[1] + q[1]), (0, 0))
    pair = te.compute((1,), lambda _: sums((a[r], a[r] * 2), axis=r, init=(5, 7)), name=("P", "Q"))
    s = start(list(pair))
    _, inner = s.split(s.loops("P")[1], 4)
    s.rfactor("P", inner)
    return s


# --- threads and machine operations ------------------------------------------------------------------------------


@refused_by("check_outside_threads")
def a_region_within_threads() -> Started:
    s = matmul()
    i, j, _ = s.loops("C")
    s.parallel(j)
    s.parallel(i)
    s.parallel_region(j)
    return s


@refused_by("check_follow")
def a_region_backwards() -> Started:
    s = chain()
    (i,), (j,) = s.loops("B"), s.loops("C")
    s.parallel(i)
    s.parallel(j)
    s.parallel_region(j, i)
    return s


@refused_by("check_shared")
def a_region_of_a_serial_loop() -> Started:
    s = chain()
    s.parallel_region(s.loops("C")[0])
    return s


def dots(k: int, lanes: int) -> tuple[Started, str]:
    """C[j] += A[k] * B[j, k] over `k` bytes, for `lanes` lanes, and the operation that does it for 4 bytes, 4 lanes."""
    a, b = te.placeholder((k,), "uint8", "A"), te.placeholder((lanes, k), "int8", "B")
    r = te.reduce_axis(k, name="r")

    def element(j: te.Scalar) -> te.Scalar:
        return te.sum(te.cast(a[r], "int32") * te.cast(b[j, r], "int32"), axis=r)

    return start(te.compute((lanes,), element, name="C")), "x86.vpdpbusd.4"


@refused_by("check_nest")
def an_operation_for_threads() -> Started:
    s, operation = dots(4, 4)
    j, _ = s.loops("C")
    s.decompose_reduction("C", j)
    s.parallel(j)
    s.tensorize("C", j, operation)
    return s


@refused_by("check_extents", is_unsound=True)
def an_operation_that_is_too_small() -> Started:
    s, operation = dots(8, 4)
    j, _ = s.loops("C")
    s.decompose_reduction("C", j)
    s.tensorize("C", j, operation)
    return s


@refused_by("check_whole", is_unsound=True)
def an_operation_without_a_start() -> Started:
    s, operation = dots(4, 4)
    s.tensorize("C", s.loops("C")[0], operation)
    return s


@refused_by("check_row", is_unsound=True)
def rows_that_are_columns() -> Started:
    a, b = te.placeholder((16, 16), "float16", name="A"), te.placeholder((8, 16), "float16", name="B")
    k = te.reduce_axis(16, name="k")

    def element(i: te.Scalar, j: te.Scalar) -> te.Scalar:
        return te.sum(te.cast(a[i, k], "float32") * te.cast(b[j, k], "float32"), axis=k)

    s = start(te.compute((16, 8), element, name="C"))
    i, *_ = s.loops("C")
    s.decompose_reduction("C", i)
    s.tensorize("C", i, "nvvm.ldmatrix.mma.f16")
    return s


# --- copies that run by themselves, pipelines --------------------------------------------------------------------


def table() -> Started:
    """C[i, j] = A[i, j] * 2."""
    a = te.placeholder((4, 8), name="A")
    return start(te.compute((4, 8), lambda i, j: a[i, j] * 2.0, name="C"))


@refused_by("check_copy")
def copying_what_is_computed() -> Started:
    s = chain()
    s.async_copy("B", s.loops("B")[0])
    return s


@refused_by("check_one_thread")
def a_copy_by_several_threads() -> Started:
    s = table()
    copy = s.cache_read("C", "A")
    rows, columns = s.loops(copy)
    s.parallel(rows)
    s.async_copy(copy, columns)
    return s


@refused_by("check_awaited")
def a_copy_that_nobody_waits_for() -> Started:
    a = te.placeholder((8,), name="A")
    s = start(te.compute((8,), lambda i: a[i], name="C"))
    s.async_copy("C", s.loops("C")[0])
    return s


@refused_by("check_private")
def versions_of_what_outlives_the_loop() -> Started:
    s = chain()
    s.double_buffer("B", s.loops("C")[0])
    return s


def stepping(versions: int) -> tuple[Started, LoopHandle]:
    """`chain` in two steps of a loop: B is filled, then read; with memory for several iterations."""
    s = chain()
    outer, _ = s.split(s.loops("C")[0], 2)
    s.compute_at("B", outer)
    s.double_buffer("B", outer, versions)
    return s, outer


@refused_by("check_places")
def a_pipeline_of_three_for_two() -> Started:
    s, outer = stepping(2)
    s.software_pipeline(outer, (0, 1, 2))
    return s


@refused_by("check_pipeline")
def a_pipeline_backwards() -> Started:
    s, outer = stepping(2)
    s.software_pipeline(outer, (1, 0))
    return s


@refused_by("_check_waits")
def a_pipeline_without_enough_versions() -> Started:
    s, outer = stepping(2)
    s.software_pipeline(outer, (0, 2))
    return s


@refused_by("check_pipelines_kept", is_unsound=True)
def one_statement_more_in_a_pipeline() -> Started:
    s, outer = stepping(2)
    s.software_pipeline(outer, (0, 1))
    s.partition(s.loops("C")[1], 1)
    return s


# --- padding -----------------------------------------------------------------------------------------------------


@refused_by("check_loops")
def padding_what_is_split() -> Started:
    s = matmul()
    s.split(s.loops("C")[0], 2)
    s.pad("C", (3, 1, 1))
    return s


@refused_by("check_values", is_unsound=True)
def dividing_by_padding() -> Started:
    a = te.placeholder((8,), "int32", name="A")
    s = start(te.compute((8,), lambda i: te.const(7, "int32") // a[i], name="C"))
    s.pad("C", (5,))
    return s


@refused_by("check_plain_indices", is_unsound=True)
def padding_a_shifted_axis() -> Started:
    a = te.placeholder((9,), name="A")
    s = start(te.compute((8,), lambda i: a[i + 1] * 2.0, name="C"))
    s.pad("C", (5,))
    return s


@refused_by("check_adds_nothing", is_unsound=True)
def padding_that_adds_up() -> Started:
    a, r = te.placeholder((3, 8), name="A"), te.reduce_axis(8, name="r")
    s = start(te.compute((3,), lambda i: te.sum(a[i, r] + 1.0, axis=r), name="C"))
    s.pad("C", (1, 5))
    return s


# --- the differential tester -------------------------------------------------------------------------------------


@refused_by("check_equivalent")
def another_program() -> None:
    first, second = chain(), two_readers()
    testing.check_equivalent(first.function, second.function)
