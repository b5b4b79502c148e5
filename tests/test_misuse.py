"""What users get wrong, from tensor expressions to calls: the error names the thing, the line, and a remedy.

Each snippet must raise the class that stands beside it, with a text that has all the given parts, at a line of the
snippet, and with a hint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import lpx
from lpx import te
from lpx.errors import (
    ArgumentError,
    DefinitionError,
    DTypeError,
    IndexRangeError,
    LpxError,
    RuntimeCheckError,
    ScheduleError,
    ShapeError,
    TargetError,
    TraceError,
)
from lpx.expr.nodes import Expr
from lpx.schedule import Schedule, Trace

F32 = np.float32


def doubled(n: te.Dim = 8) -> te.Tensor:
    """C[i] = B[i] * 2 with B[i] = A[i] + 1."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    return te.compute((n,), lambda i: b[i] * 2.0, name="C")


def product() -> Schedule:
    a, b = te.placeholder((4, 8), name="A"), te.placeholder((8, 6), name="B")
    r = te.reduce_axis(8, name="r")
    return lpx.create_schedule(te.compute((4, 6), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C"))


def scheduled(n: te.Dim = 8) -> Schedule:
    return lpx.create_schedule(doubled(n))


@lpx.jit
def total(x: Any, y: Any) -> Any:
    return x @ y


@lpx.jit
def scaled(x: Any, *, by: float = 2.0) -> Any:
    return x * by


@lpx.jit(dynamic={"x": {0: "n"}, "y": {0: "n"}})
def added(x: Any, y: Any) -> Any:
    return x + y


# --- tensor expressions ------------------------------------------------------------------------------------------


def an_index_past_the_end() -> object:
    a = te.placeholder((8,), name="A")
    return te.compute((8,), lambda i: a[i + 1], name="C")


def an_index_before_the_start() -> object:
    a = te.placeholder((te.var("n"),), name="A")
    return te.compute((4,), lambda i: a[i - 1], name="C")


def one_index_for_a_matrix() -> object:
    a = te.placeholder((4, 4), name="A")
    return te.compute((4,), lambda i: a[i], name="C")


def mixed_dtypes() -> object:
    a, k = te.placeholder((4,), name="A"), te.placeholder((4,), "int32", name="K")
    return te.compute((4,), lambda i: a[i] * k[i], name="C")


def a_reduction_as_a_term() -> object:
    a, r = te.placeholder((4,), name="A"), te.reduce_axis(4)
    return te.compute((), lambda: te.sum(a[r], axis=r) / 4.0, name="mean")


def a_negative_shape() -> object:
    return te.placeholder((-3,), name="A")


def an_unknown_dtype() -> object:
    return te.placeholder((3,), "float33", name="A")


def a_python_if() -> object:
    return te.compute((4,), lambda i: 1.0 if i == 2 else 0.0, name="C")


def a_state_of_another_shape() -> object:
    def step(t: Expr, s: te.Tensor) -> te.Tensor:
        return te.compute((3,), lambda i: s[i] + 1.0, name="grown")

    return te.scan(5, ((4,), lambda i: 0.0), step, name="s")


def a_tensor_of_a_step_outside() -> object:
    kept: list[te.Tensor] = []

    def step(t: Expr, s: te.Tensor) -> te.Tensor:
        kept.append(te.compute((4,), lambda i: s[i] + 1.0, name="inner"))
        return kept[0]

    te.scan(5, ((4,), lambda i: 0.0), step, name="s")
    return te.compute((4,), lambda i: kept[0][i], name="C")


def updating_what_is_not_ours() -> object:
    a = te.placeholder((4,), name="A")
    return te.update(a, lambda i: a[i] + 1.0)


# --- schedules ---------------------------------------------------------------------------------------------------


def a_factor_of_zero() -> object:
    s = scheduled()
    return s.split(s.loops("C")[0], 0)


def a_fractional_factor() -> object:
    s = scheduled()
    return s.split(s.loops("C")[0], cast("Any", 2.5))


def factor_and_parts() -> object:
    s = scheduled()
    return s.split(s.loops("C")[0], 4, nparts=2)


def an_unknown_tail() -> object:
    s = scheduled()
    return s.split(s.loops("C")[0], 3, tail=cast("Any", "drop"))


def an_unknown_block() -> object:
    return scheduled().loops("Q")


def a_number_as_a_loop() -> object:
    return scheduled().vectorize(cast("Any", 0))


def a_loop_of_another_schedule() -> object:
    other = scheduled()
    return scheduled().vectorize(other.loops("C")[0])


def a_loop_that_is_gone() -> object:
    s = scheduled()
    (i,) = s.loops("C")
    s.split(i, 4)
    return s.unroll(i)


def a_block_that_is_gone() -> object:
    s = scheduled()
    s.compute_inline("B")
    return s.loops("B")


def vectors_of_any_length() -> object:
    s = scheduled(te.var("n"))
    return s.vectorize(s.loops("C")[0])


def a_parallel_sum() -> object:
    s = product()
    return s.parallel(s.loops("C")[2])


def a_kind_twice() -> object:
    s = scheduled()
    (i,) = s.loops("C")
    s.parallel(i)
    return s.unroll(i)


def an_unknown_thread_axis() -> object:
    s = scheduled()
    return s.bind(s.loops("C")[0], cast("Any", "threadIdx.w"))


def fusing_loops_of_two_nests() -> object:
    s = scheduled()
    return s.fuse(s.loops("B")[0], s.loops("C")[0])


def reordering_one_loop() -> object:
    s = product()
    return s.reorder(s.loops("C")[0])


def computing_an_output_elsewhere() -> object:
    s = scheduled()
    return s.compute_at("C", s.loops("B")[0])


def a_consumer_before_its_producer() -> object:
    s = scheduled()
    return s.reverse_compute_at("B", s.loops("C")[0])


def inlining_a_reduction() -> object:
    s = product()
    return s.compute_inline("C")


def an_unknown_scope() -> object:
    s = scheduled()
    return s.set_scope("B", cast("Any", "attic"))


def a_cache_of_what_is_not_read() -> object:
    s = scheduled()
    return s.cache_read("B", "C")


def a_layout_that_loses_elements() -> object:
    s = scheduled()
    return s.transform_layout("B", lambda i: i // 2)


def a_layout_of_an_argument() -> object:
    s = scheduled()
    return s.transform_layout("C", lambda i: 7 - i)


def parts_of_a_spatial_loop() -> object:
    s = product()
    return s.rfactor("C", s.loops("C")[0])


def a_second_start_of_a_reduction() -> object:
    s = product()
    s.decompose_reduction("C", s.loops("C")[-1])
    return s.decompose_reduction("C", s.loops("C")[-1])


def a_decision_that_does_not_fit() -> object:
    s = scheduled()
    return s.sample_tile(s.loops("C")[0], 2, decision=[3])


def a_trace_of_something_else() -> object:
    return Trace.from_json('{"version": 1}')


# --- building ----------------------------------------------------------------------------------------------------


def an_unknown_target() -> object:
    return lpx.build(doubled(), target="gpu")


def an_unknown_processor() -> object:
    return lpx.build(doubled(), target="cpu:x86_64-unknown-linux-gnu/zen99")


def a_target_that_is_not_here() -> object:
    return lpx.build(doubled(), target="cpu:aarch64-unknown-linux-gnu/neoverse-n1")


def an_unknown_flag() -> object:
    return lpx.build(doubled(), fastmath=("quick",))


def an_array_as_a_program() -> object:
    return lpx.build(cast("Any", np.zeros(3, F32)))


def a_placeholder_as_a_program() -> object:
    return lpx.build(te.placeholder((3,), name="A"))


# --- calls -------------------------------------------------------------------------------------------------------


def an_argument_of_another_dtype() -> object:
    kernel = lpx.build(doubled())
    return kernel(np.zeros(8, np.float64))


def an_argument_of_another_rank() -> object:
    kernel = lpx.build(doubled())
    return kernel(np.zeros((8, 1), F32))


def an_argument_of_another_extent() -> object:
    kernel = lpx.build(doubled())
    return kernel(np.zeros(7, F32))


def extents_that_differ() -> object:
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    kernel = lpx.build(te.compute((n,), lambda i: a[i] + b[i], name="C"))
    return kernel(np.zeros(3, F32), np.zeros(4, F32))


def a_missing_argument() -> object:
    return lpx.build(doubled())()


def too_many_arguments() -> object:
    kernel = lpx.build(doubled())
    return kernel(np.zeros(8, F32), np.zeros(8, F32), np.zeros(8, F32))


def an_unknown_argument() -> object:
    kernel = lpx.build(doubled())
    return kernel(np.zeros(8, F32), axis=0)


def a_read_only_output() -> object:
    out = np.zeros(8, F32)
    out.flags.writeable = False
    kernel = lpx.build(doubled())
    return kernel(np.zeros(8, F32), out=out)


def text_as_an_argument() -> object:
    kernel = lpx.build(doubled())
    return kernel("eight zeros")


def data_that_points_outside() -> object:
    a, k = te.placeholder((4,), name="A"), te.placeholder((2,), "int32", name="K")
    kernel = lpx.build(te.compute((2,), lambda i: a[k[i]], name="C"))
    return kernel(np.array([0, 9], np.int32), np.zeros(4, F32))


def division_by_zero_in_data() -> object:
    a = te.placeholder((4,), "int32", name="A")
    kernel = lpx.build(te.compute((4,), lambda i: 7 // a[i], name="C"))
    return kernel(np.array([1, 0, 2, 3], np.int32))


# --- functions of arrays -----------------------------------------------------------------------------------------


def shapes_that_do_not_multiply() -> object:
    return total(np.zeros((2, 3), F32), np.zeros((4, 5), F32))


def shapes_that_do_not_broadcast() -> object:
    return added(np.zeros((3, 2), F32), np.zeros((3, 5), F32))


def dynamic_extents_that_differ() -> object:
    added(np.zeros(3, F32), np.zeros(3, F32))
    return added(np.zeros(3, F32), np.zeros(4, F32))


def complex_numbers() -> object:
    return scaled(np.zeros(3, np.complex64))


def an_unknown_keyword() -> object:
    return scaled(np.zeros(3, F32), times=2.0)


def a_branch_on_data() -> object:
    @lpx.jit
    def clipped(x: Any) -> Any:
        if x[0] > 0:
            return x
        return -x

    return clipped(np.ones(3, F32))


def a_dimension_of_no_parameter() -> object:
    @lpx.jit(dynamic={"z": {0: "n"}})
    def same(x: Any) -> Any:
        return x + 1

    return same


def text_as_an_array() -> object:
    return scaled("three")


def a_function_that_numpy_has_and_lpx_has_not() -> object:
    @lpx.jit
    def spectrum(x: Any) -> Any:
        return np.fft.fft(x)

    return spectrum(np.ones(4, F32))


Snippet = Callable[[], object]

MISUSES: list[tuple[Snippet, type[LpxError], str]] = [
    (an_index_past_the_end, IndexRangeError, "i + 1 of A; te.where"),
    (an_index_before_the_start, IndexRangeError, "of A; te.clip"),
    (one_index_for_a_matrix, ShapeError, "A has 2 dimension(s); A[i, j]"),
    (mixed_dtypes, DTypeError, "float32 and int32; te.cast"),
    (a_reduction_as_a_term, DefinitionError, "sum; mean; te.compute of its own"),
    (a_negative_shape, ShapeError, "A is -3; at least 0"),
    (an_unknown_dtype, DTypeError, "float33; use one of"),
    (a_python_if, DefinitionError, "no truth value; te.where"),
    (a_state_of_another_shape, ShapeError, "s; 4; 3"),
    (a_tensor_of_a_step_outside, DefinitionError, "inner; s; keep='all'"),
    (updating_what_is_not_ours, DefinitionError, "A; inout"),
    (a_factor_of_zero, ScheduleError, "split: factor=0"),
    (a_fractional_factor, ScheduleError, "2.5"),
    (factor_and_parts, ScheduleError, "either factor or nparts"),
    (an_unknown_tail, ScheduleError, "tail='drop'; guard, peel, mask"),
    (an_unknown_block, ScheduleError, "Q; B, C"),
    (a_number_as_a_loop, ScheduleError, "0 is not a loop; s.loops"),
    (a_loop_of_another_schedule, ScheduleError, "loop i; s.loops"),
    (a_loop_that_is_gone, ScheduleError, "loop i was split into i_o, i_i; s.loops"),
    (a_block_that_is_gone, ScheduleError, "block B was inlined"),
    (vectors_of_any_length, ScheduleError, "loop i; symbolic; split"),
    (a_parallel_sum, ScheduleError, "loop r; C; rfactor"),
    (a_kind_twice, ScheduleError, "loop i is already parallel"),
    (an_unknown_thread_axis, ScheduleError, "threadIdx.w; threadIdx.x"),
    (fusing_loops_of_two_nests, ScheduleError, "not directly inside"),
    (reordering_one_loop, ScheduleError, "reorder; two loops"),
    (computing_an_output_elsewhere, ScheduleError, "C is an output"),
    (a_consumer_before_its_producer, ScheduleError, "B runs before loop i; compute_at"),
    (inlining_a_reduction, ScheduleError, "C"),
    (an_unknown_scope, ScheduleError, "attic; global"),
    (a_cache_of_what_is_not_read, ScheduleError, "C; A"),
    (a_layout_that_loses_elements, ScheduleError, "B; one place; //"),
    (a_layout_of_an_argument, ScheduleError, "C; cache_write"),
    (parts_of_a_spatial_loop, ScheduleError, "i; C"),
    (a_second_start_of_a_reduction, ScheduleError, "C; init"),
    (a_decision_that_does_not_fit, ScheduleError, "3; 8"),
    (a_trace_of_something_else, TraceError, "stored trace"),
    (an_unknown_target, TargetError, "gpu; cpu"),
    (an_unknown_processor, TargetError, "zen99"),
    (a_target_that_is_not_here, TargetError, "aarch64; cpu"),
    (an_unknown_flag, LpxError, "quick; contract"),
    (an_array_as_a_program, LpxError, "array; te.compute"),
    (a_placeholder_as_a_program, DefinitionError, "A; copy"),
    (an_argument_of_another_dtype, ArgumentError, "A; float64; float32; astype"),
    (an_argument_of_another_rank, ArgumentError, "A; rank 2; float32[8]"),
    (an_argument_of_another_extent, ArgumentError, "A; 7; 8"),
    (extents_that_differ, ArgumentError, "B; 4; n=3"),
    (a_missing_argument, ArgumentError, "A; float32[8]"),
    (too_many_arguments, ArgumentError, "2; 3; float32[8]"),
    (an_unknown_argument, ArgumentError, "axis; A: float32[8]"),
    (a_read_only_output, ArgumentError, "C; read-only"),
    (text_as_an_argument, ArgumentError, "A"),
    (data_that_points_outside, RuntimeCheckError, "A; K"),
    (division_by_zero_in_data, RuntimeCheckError, "zero"),
    (shapes_that_do_not_multiply, ShapeError, "3; 4"),
    (shapes_that_do_not_broadcast, ShapeError, "2; 5"),
    (dynamic_extents_that_differ, LpxError, "y; n; 3; 4"),
    (complex_numbers, LpxError, "complex64; x"),
    (an_unknown_keyword, ArgumentError, "times; by"),
    (a_branch_on_data, DefinitionError, "truth value; where"),
    (a_dimension_of_no_parameter, DefinitionError, "z; x"),
    (text_as_an_array, LpxError, "x"),
    (a_function_that_numpy_has_and_lpx_has_not, LpxError, "fft"),
]


@pytest.mark.parametrize(("misuse", "error", "parts"), MISUSES, ids=[entry[0].__name__ for entry in MISUSES])
def test_misuse_is_explained(misuse: Snippet, error: type[LpxError], parts: str) -> None:
    with pytest.raises(error) as caught:
        misuse()
    text = str(caught.value)
    for part in parts.split("; "):
        assert part in text
    assert caught.value.hint
    assert caught.value.span is not None
    assert caught.value.span.filename == __file__
    assert f"at {__file__}:{caught.value.span.line}" in text
