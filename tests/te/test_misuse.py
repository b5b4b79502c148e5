"""Programs that must be refused: what the error says, and that it points at the line that is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from lpx import te
from lpx.errors import DefinitionError, DTypeError, LpxError, ShapeError
from lpx.expr.nodes import Expr

A = te.placeholder((4, 5), name="A")
J = te.placeholder((4,), "int32", "J")
N = te.var("n")
R = te.reduce_axis(5, "r")

anything = cast("Any", te)
"""`te` for calls that a type checker refuses too."""


def two_dtypes() -> object:
    return te.compute((4,), lambda i: A[i, 0] + J[i])


def a_number_of_the_wrong_kind() -> object:
    return te.compute((4,), lambda i: J[i] + 0.5)


def true_division_of_integers() -> object:
    return te.compute((4,), lambda i: J[i] / 2)


def a_float_function_of_integers() -> object:
    return te.compute((4,), lambda i: te.exp(J[i]))


def a_condition_that_is_no_bool() -> object:
    return te.compute((4,), lambda i: te.where(J[i], 1, 0))


def a_python_condition() -> object:
    return te.compute((4,), lambda i: 1.0 if cast("Any", i < 2) else 0.0)


def a_chained_comparison() -> object:
    return te.compute((4,), lambda i: te.where(0 < i < 2, 1.0, 0.0))


def too_few_indices() -> object:
    return te.compute((4,), lambda i: A[i])


def a_slice() -> object:
    return te.compute((4,), lambda i: A[i, :])


def a_missing_index() -> object:
    return te.compute((4,), lambda i: A[i, None])


def a_float_index() -> object:
    return te.compute((4,), lambda i: A[i, te.const(1.0)])


def a_python_float_index() -> object:
    return te.compute((4,), lambda i: A[i, 1.5])


def a_bool_index() -> object:
    return te.compute((4,), lambda i: A[i, True])


def a_tensor_as_index() -> object:
    return te.compute((4,), lambda i: A[J, 0])


def a_whole_tensor() -> object:
    def body(i: Expr, j: Expr) -> te.Tensor:
        return A

    return anything.compute((4, 5), body)


def arithmetic_on_a_tensor() -> object:
    return te.compute((4,), lambda i: i + cast("Any", J))


def iteration_over_a_tensor() -> object:
    return list(cast("Any", J))


def text_as_an_element() -> object:
    def body(i: Expr) -> str:
        return "zero"

    return anything.compute((4,), body)


def no_elements() -> object:
    return te.compute((4,), lambda i: ())


def too_many_parameters() -> object:
    return te.compute((4,), lambda i, j: A[i, j])


def too_few_parameters() -> object:
    return te.compute((4, 5), lambda i: A[i, 0])


def no_function() -> object:
    return anything.compute((4,), 3)


def names_that_do_not_match() -> object:
    return te.compute((4,), lambda i: (1.0, 2.0), name=("a", "b", "c"))


def a_negative_extent() -> object:
    return te.placeholder((4, -1), name="B")


def a_fractional_extent() -> object:
    return te.placeholder((4, 2.5), name="B")


def text_as_a_shape() -> object:
    return te.placeholder("4x5", name="B")


def an_extent_of_another_dtype() -> object:
    return te.placeholder((te.cast(N, "int32"),), name="B")


def an_extent_from_data() -> object:
    return te.placeholder((te.cast(J[0], "int64"),), name="B")


def a_bool_extent() -> object:
    return te.reduce_axis(True)


def an_unknown_dtype() -> object:
    return te.placeholder((4,), "complex64", name="B")


def a_cast_to_an_unknown_dtype() -> object:
    return te.compute((4,), lambda i: te.cast(i, "float31"))


def part_of_a_reduction() -> object:
    return te.compute((4,), lambda i: te.sum(A[i, R], axis=R) * 2)


def a_reduction_in_a_reduction() -> object:
    return te.compute((), lambda: te.sum(te.max(A[0, R], axis=R), axis=te.reduce_axis(3)))


def a_reduction_beside_an_element() -> object:
    return te.compute((4,), lambda i: (te.sum(A[i, R], axis=R), A[i, 0]))


def reductions_over_different_axes() -> object:
    other = te.reduce_axis(5)
    return te.compute((4,), lambda i: (te.sum(A[i, R], axis=R), te.sum(A[i, other], axis=other)))


def a_reduce_axis_that_is_not_reduced() -> object:
    return te.compute((4,), lambda i: A[i, R])


def a_start_that_depends_on_the_reduce_axis() -> object:
    return te.compute((4,), lambda i: te.sum(A[i, R], axis=R, init=A[i, R]))


def an_axis_of_another_definition() -> object:
    kept: list[Expr] = []

    def body(i: Expr) -> Expr:
        kept.append(i)
        return A[i, 0]

    te.compute((4,), body)
    return te.compute((4,), lambda i: A[kept[0], 0])


def a_reduction_over_a_number() -> object:
    return te.compute((4,), lambda i: te.sum(A[i, 0], axis=1))


def a_reduction_over_a_spatial_axis() -> object:
    return te.compute((4,), lambda i: te.sum(A[i, 0], axis=i))


def a_reduction_over_one_axis_twice() -> object:
    return te.compute((4,), lambda i: te.sum(A[i, R], axis=(R, R)))


def a_reduction_of_bools() -> object:
    return te.compute((4,), lambda i: te.sum(A[i, R] > 0, axis=R))


def all_of_numbers() -> object:
    return te.compute((4,), lambda i: te.all(A[i, R], axis=R))


def a_start_of_another_dtype() -> object:
    return te.compute((4,), lambda i: te.sum(A[i, R], axis=R, init=J[i]))


def a_reduce_extent_that_depends_on_an_axis() -> object:
    return te.compute((4,), lambda i: te.sum(A[i, te.reduce_axis(i)], axis=R))


def a_reducer_of_the_wrong_arity() -> object:
    reducer = te.reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), (0.0,), name="pair")
    return te.compute((4,), lambda i: reducer((A[i, R], A[i, R]), axis=R))


def a_reducer_that_changes_the_dtype() -> object:
    reducer = te.reducer(lambda a, b: a < b, 0.0, name="less")
    return te.compute((4,), lambda i: reducer(A[i, R], axis=R))


def a_reducer_that_reads_memory() -> object:
    reducer = te.reducer(lambda a, b: a + b * A[0, 0], 0.0, name="scaled")
    return te.compute((4,), lambda i: reducer(A[i, R], axis=R))


def a_fractional_position() -> object:
    return te.compute((4,), lambda i: te.argmax(A[i, R], axis=R, dtype="float32")[0])


def a_placeholder_as_output() -> object:
    return te.lower(A)


def the_same_output_twice() -> object:
    B = te.compute((4,), lambda i: A[i, 0])
    return te.lower([B, B])


def no_output() -> object:
    return te.lower([])


def a_missing_input() -> object:
    return te.lower(te.compute((4,), lambda i: A[i, 0] + te.cast(J[i], "float32")), inputs=[A])


def an_input_that_is_computed() -> object:
    B = te.compute((4,), lambda i: A[i, 0], name="B")
    return te.lower(te.compute((4,), lambda i: B[i]), inputs=[B])


def an_input_twice() -> object:
    return te.lower(te.compute((4,), lambda i: A[i, 0]), inputs=[A, A])


def an_array_as_input() -> object:
    return te.lower(te.compute((4,), lambda i: A[i, 0]), inputs=[cast("Any", np.zeros((4, 5), np.float32))])


MISUSES: list[tuple[Callable[[], object], type[LpxError], str]] = [
    (two_dtypes, DTypeError, "add of float32 and int32; te.cast"),
    (a_number_of_the_wrong_kind, DTypeError, "0.5 is not representable in int32; cast"),
    (true_division_of_integers, DTypeError, "div does not take int32; use //"),
    (a_float_function_of_integers, DTypeError, "exp does not take int32; cast"),
    (a_condition_that_is_no_bool, DTypeError, "a condition must be bool, not int32; compare it"),
    (a_python_condition, DefinitionError, "no truth value; te.where"),
    (a_chained_comparison, DefinitionError, "no truth value; &"),
    (too_few_indices, ShapeError, "A has 2 dimension(s) but is read with 1 index(es); A[i, j] is one element"),
    (a_slice, ShapeError, "A is read with a slice; give every dimension an index"),
    (a_missing_index, ShapeError, "A is read with None; give every dimension an index"),
    (a_float_index, DTypeError, "an index of A has dtype float32; te.cast"),
    (a_python_float_index, DTypeError, "an index of A is 1.5, not an integer; cast"),
    (a_bool_index, DTypeError, "an index of A is True, not an integer; te.where"),
    (a_tensor_as_index, DTypeError, "an index of A is the whole tensor J; A[J[i]]"),
    (a_whole_tensor, DefinitionError, "the body of T returns the whole tensor A; A[i, j]"),
    (arithmetic_on_a_tensor, DTypeError, "Tensor(J: int32[4]) is not a number"),
    (iteration_over_a_tensor, DefinitionError, "J cannot be iterated over; te.compute"),
    (text_as_an_element, DefinitionError, "the body of T returns 'zero'; an expression or a number"),
    (no_elements, DefinitionError, "the body of T returns nothing; one element or more"),
    (too_many_parameters, DefinitionError, "one variable per dimension (1), but it takes (i, j)"),
    (too_few_parameters, DefinitionError, "one variable per dimension (2), but it takes (i)"),
    (no_function, DefinitionError, "one variable per dimension (1), not 3; give a function"),
    (names_that_do_not_match, DefinitionError, "3 name(s) for 2 tensor(s)"),
    (a_negative_extent, ShapeError, "an extent of B is -1; at least 0"),
    (a_fractional_extent, ShapeError, "an extent of B is 2.5; an integer"),
    (text_as_a_shape, ShapeError, "the shape of B is '4x5'; give a tuple of extents"),
    (an_extent_of_another_dtype, DTypeError, "an extent of B has dtype int32; int64"),
    (an_extent_from_data, ShapeError, "an extent of B is computed from data; te.var"),
    (a_bool_extent, ShapeError, "an extent of reduce axis r is True"),
    (an_unknown_dtype, DTypeError, "'complex64' is not an element type; use one of"),
    (a_cast_to_an_unknown_dtype, DTypeError, "'float31' is not an element type; use one of"),
    (part_of_a_reduction, DefinitionError, "sum is only part of the value of T; in a te.compute of its own"),
    (a_reduction_in_a_reduction, DefinitionError, "max is only part of the value of T; in a te.compute of its own"),
    (a_reduction_beside_an_element, DefinitionError, "T are not all reduced over the same axes; separate te.compute"),
    (reductions_over_different_axes, DefinitionError, "T are not all reduced over the same axes; separate te.compute"),
    (a_reduce_axis_that_is_not_reduced, DefinitionError, "T uses the reduce axis r where it has no value"),
    (a_start_that_depends_on_the_reduce_axis, DefinitionError, "T uses the reduce axis r where it has no value"),
    (an_axis_of_another_definition, DefinitionError, "T uses the axis i where it has no value"),
    (a_reduction_over_a_number, DefinitionError, "the axis of sum is 1; te.reduce_axis"),
    (a_reduction_over_a_spatial_axis, DefinitionError, "the axis of sum is i; te.reduce_axis"),
    (a_reduction_over_one_axis_twice, DefinitionError, "sum reduces twice over one axis"),
    (a_reduction_of_bools, DTypeError, "add does not take bool; cast"),
    (all_of_numbers, DTypeError, "all takes bools, not float32; compare"),
    (a_start_of_another_dtype, DTypeError, "sum over float32 starts from a value of dtype int32; te.cast"),
    (a_reduce_extent_that_depends_on_an_axis, ShapeError, "an extent of reduce axis r depends on the axis i; te.where"),
    (a_reducer_of_the_wrong_arity, DefinitionError, "reducer pair has 1 component(s) for 2 value(s)"),
    (a_reducer_that_changes_the_dtype, DTypeError, "reducer less combines float32 into bool in component 0; cast"),
    (a_reducer_that_reads_memory, DefinitionError, "reducer scaled uses more than its two operands; into the values"),
    (a_fractional_position, DTypeError, "argmax gives positions as integers, not float32"),
    (a_placeholder_as_output, DefinitionError, "the output A is not computed; copy it"),
    (the_same_output_twice, DefinitionError, "each once"),
    (no_output, DefinitionError, "the outputs are not one tensor or more"),
    (a_missing_input, DefinitionError, "the inputs lack J; add it"),
    (an_input_that_is_computed, DefinitionError, "the input B is not a placeholder"),
    (an_input_twice, DefinitionError, "an input is given twice"),
    (an_array_as_input, DTypeError, "an input is array"),
]


@pytest.mark.parametrize(("misuse", "error", "parts"), MISUSES, ids=[entry[0].__name__ for entry in MISUSES])
def test_misuse_is_explained(misuse: Callable[[], object], error: type[LpxError], parts: str) -> None:
    with pytest.raises(error) as caught:
        misuse()
    text = str(caught.value)
    for part in parts.split("; "):
        assert part in text
    first, last = misuse.__code__.co_firstlineno, max(line for *_, line in misuse.__code__.co_lines() if line)
    assert caught.value.span is not None
    assert caught.value.span.filename == __file__
    assert first < caught.value.span.line <= last
    assert re.search(rf"at {re.escape(__file__)}:\d+", text)
