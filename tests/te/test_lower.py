"""The shape of lowered functions: parameters, symbols, names, spans, text."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

from lpx import te
from lpx.errors import RuntimeCheckError
from lpx.expr.nodes import Expr, Load, Var
from lpx.ir import nodes as ir
from lpx.ir.interpreter import interpret
from lpx.ir.parser import parse_function
from lpx.ir.printer import print_function
from lpx.ir.traverse import walk, walk_expressions
from lpx.ir.verify import verify
from tests.support import Golden
from tests.te.running import run
from tests.te.test_compute import random_array
from tests.te.test_scan import flash_attention


def matmul() -> te.Tensor:
    m, n, k = te.var("m"), te.var("n"), te.var("k")
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")


def convolution() -> te.Tensor:
    """A padded 3 x 3 convolution with a bias that starts the sum."""
    X, W = te.placeholder((8, 6, 6), name="X"), te.placeholder((4, 8, 3, 3), name="W")
    bias = te.placeholder((4,), name="bias")
    padded = te.compute(
        (8, 8, 8),
        lambda c, y, x: te.where((y >= 1) & (y < 7) & (x >= 1) & (x < 7), X[c, y - 1, x - 1], 0.0),
        name="padded",
    )
    c, ky, kx = te.reduce_axis(8, "c"), te.reduce_axis(3, "ky"), te.reduce_axis(3, "kx")
    return te.compute(
        (4, 6, 6),
        lambda o, y, x: te.sum(padded[c, y + ky, x + kx] * W[o, c, ky, kx], axis=(c, ky, kx), init=bias[o]),
        name="conv",
    )


def softmax() -> te.Tensor:
    m, n = te.var("m"), te.var("n")
    X = te.placeholder((m, n), name="X")
    r = te.reduce_axis(n, "r")
    top = te.compute((m,), lambda i: te.max(X[i, r], axis=r), name="top")
    E = te.compute((m, n), lambda i, j: te.exp(X[i, j] - top[i]), name="E")
    total = te.compute((m,), lambda i: te.sum(E[i, r], axis=r), name="total")
    return te.compute((m, n), lambda i, j: E[i, j] / total[i], name="softmax")


def argmax() -> te.Tensor:
    X = te.placeholder((4, 5), "int32", "X")
    r = te.reduce_axis(5, "r")
    return te.compute((4,), lambda i: te.argmax(X[i, r], axis=r)[0], name="position")


def gather() -> te.Tensor:
    X, J = te.placeholder((5, 3), name="X"), te.placeholder((4,), "int32", "J")
    return te.compute((4, 3), lambda i, j: te.where(J[i] >= 0, X[J[i], j], 0.0), name="G")


def cumulative_sum() -> te.Tensor:
    n, m = te.var("n"), te.var("m")
    X = te.placeholder((n, m), name="X")
    return te.scan(
        n,
        ((m,), lambda i: 0.0),
        lambda t, s: te.compute((m,), lambda i: s[i] + X[t, i], name="s"),
        keep="all",
        reverse=True,
        name="sums",
    )


def cache_update() -> te.Tensor:
    n, p = te.var("n"), te.var("p")
    cache, new = te.placeholder((p + n, 2), name="cache", inout=True), te.placeholder((n, 2), name="new")
    return te.update(cache, lambda i, j: new[i, j], (n, 2), lambda i, j: (p + i, j))


def attention() -> te.Tensor:
    return flash_attention(8, 16, 4, 8)


PROGRAMS: dict[str, Callable[[], te.Tensor]] = {
    program.__name__: program
    for program in (matmul, convolution, softmax, argmax, gather, cumulative_sum, cache_update, attention)
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_text(name: str, golden: Golden) -> None:
    function = te.lower(PROGRAMS[name](), name=name)
    text = print_function(function)
    golden(f"{name}.txt", text)
    verify(function)
    assert print_function(parse_function(text)) == text
    assert print_function(te.lower(PROGRAMS[name](), name=name)) == text, "lowering is deterministic"


def test_inputs_come_in_order_of_first_use_or_as_given() -> None:
    A, B, C = (te.placeholder((3,), name=name) for name in "ABC")
    first = te.compute((3,), lambda i: B[i], name="first")
    second = te.compute((3,), lambda i: A[i] + first[i], name="second")
    assert [p.buffer.name for p in te.lower(second).params] == ["B", "A", "second"]
    given = te.lower([second, first], inputs=[C, A, B])
    assert [(p.buffer.name, p.role) for p in given.params] == [
        ("C", "in"), ("A", "in"), ("B", "in"), ("second", "out"), ("first", "out"),
    ]  # fmt: skip


def test_only_what_is_needed_is_computed_and_scratch_is_allocated_at_the_root() -> None:
    A = te.placeholder((3,), name="A")
    B, unused = te.compute((3,), lambda i: (A[i], A[i] * 2), name=("B", "unused"))
    te.compute((3,), lambda i: unused[i], name="dead")
    C = te.compute((3,), lambda i: B[i] + 1, name="C")
    function = te.lower(C)
    assert isinstance(function.body, ir.Alloc)
    blocks = [stmt.name for stmt in walk(function.body) if isinstance(stmt, ir.Block)]
    assert blocks == ["B", "C"]


def test_an_output_that_others_read_needs_no_scratch() -> None:
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i] + 1, name="B")
    C = te.compute((3,), lambda i: B[i] * 2, name="C")
    function = te.lower([B, C])
    assert not [stmt for stmt in walk(function.body) if isinstance(stmt, ir.Alloc)]
    assert [p.buffer for p in function.params] == [A.buffer, B.buffer, C.buffer]


def test_symbols_come_in_order_of_first_mention() -> None:
    assert [s.name for s in te.lower(matmul()).symbols] == ["m", "k", "n"]
    b, a = te.var("b"), te.var("a")
    X = te.placeholder((b,), name="X")
    assert te.lower(te.compute((b,), lambda i: X[i] + te.cast(a, "float32"))).symbols == (b, a)


def test_blocks_have_names_of_their_own() -> None:
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i], name="T")
    C = te.compute((3,), lambda i: B[i], name="T")
    D = te.compute((3,), lambda i: C[i], name="T_1")
    blocks = [stmt.name for stmt in walk(te.lower(D).body) if isinstance(stmt, ir.Block)]
    assert blocks == ["T", "T_1", "T_1_1"]


def test_lowering_twice_shares_no_variables() -> None:
    C = matmul()
    variables = [
        {e for e in walk_expressions(te.lower(C).body) if isinstance(e, Var)} - set(te.lower(C).symbols)
        for _ in range(2)
    ]
    assert variables[0].isdisjoint(variables[1])
    assert variables[0]


def test_no_node_of_this_room_is_left_in_the_function() -> None:
    for program in PROGRAMS.values():
        for expr in walk_expressions(te.lower(program()).body):
            assert type(expr).__module__ == "lpx.expr.nodes"


def test_loops_and_blocks_point_at_the_definition() -> None:
    C = matmul()
    line = next(k for k, text in enumerate(inspect.getsource(matmul).splitlines()) if "te.compute" in text)
    for stmt in walk(te.lower(C).body):
        assert stmt.span is not None
        assert stmt.span.filename == __file__
        assert stmt.span.line == inspect.getsourcelines(matmul)[1] + line


def test_several_components_read_before_any_is_written() -> None:
    """A state of two parts that each need the other's old value, in one definition."""
    a, b = te.scan(
        5,
        [((2,), lambda i: te.const(0)), ((2,), lambda i: te.const(1))],
        lambda t, a, b: te.compute((2,), lambda i: (b[i], a[i] + b[i]), name=("p", "q")),
    )
    np.testing.assert_array_equal(run(te.compute((2,), lambda i: a[i] * 100 + b[i])), [508, 508])
    assert not [stmt for stmt in walk(te.lower([a, b]).body) if isinstance(stmt, ir.Alloc)]


def test_a_negative_symbolic_extent_stops_the_kernel() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n - 2,), lambda i: A[i], name="B")
    r = te.reduce_axis(n - 2)
    function = te.lower(te.compute((), lambda: te.sum(B[r], axis=r)))
    out = np.zeros((), np.float32)
    interpret(function, [np.ones(5, np.float32), out])
    assert out == 3
    with pytest.raises(RuntimeCheckError, match="the extent n - 2 is negative"):
        interpret(function, [np.ones(1, np.float32), out])


def test_large_constants_are_bound_not_parameters() -> None:
    table = random_array((4,), "float32")
    T = te.constant(table, name="T")
    function = te.lower(te.compute((4,), lambda i: T[i] * 2))
    assert [p.role for p in function.params] == ["out"]
    assert list(function.constants) == [T.buffer]
    table[0] += 1
    assert function.constants[T.buffer][0] != table[0], "the array is copied"


def test_the_reads_of_a_definition_are_plain_loads() -> None:
    C = matmul()
    loads = [e for e in walk_expressions(te.lower(C).body) if isinstance(e, Load)]
    assert {type(load) for load in loads} == {Load}
    assert isinstance(C[0, 0], Expr)
