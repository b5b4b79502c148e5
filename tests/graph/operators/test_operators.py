"""Operators on their own: types they infer, what they refuse, and helpers whose mistakes a front end would hide."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lpx
from lpx import dtypes, te
from lpx.errors import DTypeError, IndexRangeError, LpxError, ShapeError
from lpx.graph import operators, shapes
from lpx.graph.builder import GraphBuilder
from lpx.graph.executable import compile_graph
from lpx.graph.nodes import Value
from lpx.graph.operators.contraction import window_count
from lpx.graph.operators.reshaping import reshape_groups
from lpx.runtime import arrays as generic


def run(name: str, *inputs: Any, **attrs: Any) -> Any:
    """One operator, compiled alone."""
    builder = GraphBuilder(name)
    values = [builder.input(dtypes.parse(a.dtype), a.shape, f"x{k}") for k, a in enumerate(inputs)]
    graph = builder.finish([builder.add(name, values, **attrs)])
    return generic.call(compile_graph(graph, lpx.Target.parse("cpu")).specialisation, list(inputs), {})


def infer(name: str, *types: tuple[str, tuple[Any, ...]], **attrs: Any) -> Value:
    builder = GraphBuilder(name)
    return builder.add(name, [builder.input(dtypes.parse(d), s, "x") for d, s in types], **attrs)


def test_the_table() -> None:
    assert len(operators.names()) == len(set(operators.names()))
    kinds = {operators.lookup(name).kind for name in operators.names()}
    assert kinds == {"elementwise", "injective", "reduction", "contraction", "opaque"}


@given(st.lists(st.integers(1, 4), max_size=5), st.randoms(use_true_random=False))
def test_reshape_groups_hold_equal_numbers_of_elements(old: list[int], random: Any) -> None:
    new = [d for d in old if random.random() > 0.2]
    new.append(prod(old) // prod(new))
    random.shuffle(new)
    groups = reshape_groups(old, new)
    assert [a for group, _ in groups for a in group] == list(range(len(old)))
    assert [a for _, group in groups for a in group] == list(range(len(new)))
    for left, right in groups:
        assert prod(old[a] for a in left) == prod(new[a] for a in right)


def test_reshape_groups_are_the_finest() -> None:
    assert reshape_groups((4, 6, 5), (24, 5)) == [(range(2), range(1)), (range(2, 3), range(1, 2))]
    assert reshape_groups((2, 1, 3), (2, 3)) == [
        (range(1), range(1)),
        (range(1, 2), range(1, 1)),
        (range(2, 3), range(1, 2)),
    ]
    n = te.var("n")
    assert reshape_groups((n, 6), (n, 2, 3))[0] == (range(1), range(1))
    assert reshape_groups((n, 4), (n * 4,)) == [(range(2), range(1))]


def test_inference_follows_the_definition() -> None:
    assert infer("matmul", ("float16", (2, 3, 4)), ("float16", (4, 5))).type_text == "float16[2, 3, 5]"
    assert infer("softmax", ("float32", (2, 3)), axis=1, log=False).type_text == "float32[2, 3]"
    assert infer("argmax", ("bool", (2, 3)), axis=0, keepdims=True).type_text == "int64[1, 3]"
    n = te.var("n")
    assert infer("add", ("float32", (n, 1)), ("float32", (3,))).type_text == "float32[n, 3]"


def test_shapes_with_symbols_are_not_mixed_up() -> None:
    """Two symbols of one name are two symbols: what was inferred for one says nothing of the other."""
    first, second = te.var("n"), te.var("n")
    shapes_of = [infer("full", shape=(n,), value=0, dtype="int8").shape for n in (first, second)]
    assert shapes_of[0][0] is first
    assert shapes_of[1][0] is second


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64"])
def test_integer_power_wraps(dtype: str) -> None:
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    base = rng.integers(info.min, info.max, 50, dtype, endpoint=True)
    exponent = rng.integers(0, min(info.max, 200), 50, dtype, endpoint=True)
    np.testing.assert_array_equal(run("integer_power", base, exponent), base**exponent)


def test_ldexp_rounds_once() -> None:
    x = np.array([1.0, 1.5, 1.9999999, -1.0000001, 3.4e38, 1e-45, np.inf, np.nan, -0.0], np.float32)
    for exponent in (-300, -150, -149, -127, -126, -1, 0, 1, 127, 128, 300):
        with np.errstate(all="ignore"):
            wanted = np.ldexp(x, exponent)
        np.testing.assert_array_equal(run("ldexp", x, np.full(9, exponent, np.int32)), wanted)


def test_frexp_puts_together_what_it_takes_apart() -> None:
    x = np.array([1e-45, 1e-38, 0.5, 1.0, -3.7, 3.4e38, 0.0, np.inf, -np.inf], np.float32)
    mantissa, exponent = run("frexp_mantissa", x), run("frexp_exponent", x)
    np.testing.assert_array_equal(np.ldexp(mantissa, exponent), x)
    np.testing.assert_array_equal(mantissa, np.frexp(x)[0])


def test_gather_and_scatter() -> None:
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    i, j = np.array([0, -1, 1]), np.array([[2], [0]], np.int8)
    np.testing.assert_array_equal(run("gather", x, j, i, axes=(1, 2)), x[:, j, i])
    np.testing.assert_array_equal(run("take", x, j, axis=1), x[:, j])
    wanted = x.copy()
    wanted[[0, 1, 0], [1, 1, 1]] = [[1] * 4, [2] * 4, [3] * 4]
    places = (np.array([0, 1, 0]), np.array(1))
    np.testing.assert_array_equal(run("scatter", x, np.array([[1] * 4, [2] * 4, [3] * 4], np.int32), *places), wanted)


def test_running_sums() -> None:
    x = np.arange(1, 7).reshape(2, 3)
    for exclusive in (False, True):
        for reverse in (False, True):
            flipped = x[:, ::-1] if reverse else x
            wanted = np.cumsum(flipped, axis=1) - (flipped if exclusive else 0)
            got = run("cumsum", x, axis=1, exclusive=exclusive, reverse=reverse)
            np.testing.assert_array_equal(got, wanted[:, ::-1] if reverse else wanted)


def test_searchsorted_of_every_length() -> None:
    values = np.arange(-1, 12) * 0.5
    for length in range(9):
        edges = np.arange(length, dtype=np.float64)
        for right in (False, True):
            wanted = np.searchsorted(edges, values, side="right" if right else "left")
            np.testing.assert_array_equal(run("searchsorted", edges, values, right=right), wanted)


def test_window_counts() -> None:
    assert [window_count(extent, 3, 2, 1) for extent in range(8)] == [0, 0, 0, 1, 1, 2, 2, 3]
    assert window_count(10, 3, 1, 4) == 2


def test_shapes() -> None:
    n, m = te.var("n"), te.var("m")
    assert shapes.broadcast_shapes([(n, 1), (3,)]) == (n, 3)
    assert shapes.same_shape((n + 1, 2), (1 + n, 2))
    assert not shapes.same_shape((n,), (m,))
    assert shapes.size((2, 3, 1)) == 6
    assert shapes.broadcasts_to((1, n), (4, n))
    assert not shapes.broadcasts_to((2, n), (n,))
    with pytest.raises(ShapeError, match="do not broadcast"):
        shapes.broadcast_shapes([(n,), (m,)])


REFUSED: list[tuple[str, list[tuple[str, tuple[Any, ...]]], dict[str, Any], type[LpxError], str]] = [
    ("add", [("float32", (2,)), ("float64", (2,))], {}, DTypeError, "add of float32 and float64"),
    ("matmul", [("int8", (2, 3)), ("int8", (2, 3))], {}, ShapeError, "inner dimensions differ"),
    ("transpose", [("int8", (2, 3))], {"axes": (0, 0)}, ShapeError, "not a permutation"),
    ("reshape", [("int8", (2, 3))], {"shape": (4,)}, ShapeError, r"cannot reshape \(2, 3\) to \(4,\)"),
    ("reshape", [("int8", (0, 3))], {"shape": (4,)}, ShapeError, r"cannot reshape \(0, 3\) to \(4,\)"),
    ("broadcast", [("int8", (2, 3))], {"shape": (3,)}, ShapeError, "does not broadcast"),
    ("concat", [("int8", (2, 3)), ("int8", (3, 4))], {"axis": 0}, ShapeError, "on axis 0"),
    ("slice", [("int8", (4,))], {"starts": (2,), "steps": (1,), "sizes": (3,)}, IndexRangeError, "can leave"),
    ("gelu", [("int8", (4,))], {}, DTypeError, "gelu takes floats, not int8"),
    ("softmax", [("bool", (4,))], {"axis": 0, "log": False}, DTypeError, "softmax takes floats, not bool"),
    ("integer_power", [("float32", (4,)), ("float32", (4,))], {}, DTypeError, "integer_power of float32"),
    ("sign", [("bool", (4,))], {}, DTypeError, "sign does not take bool"),
]


@pytest.mark.parametrize(
    ("name", "types", "attrs", "error", "message"), REFUSED, ids=[f"{r[0]} {r[4][:12]}" for r in REFUSED]
)
def test_refused(
    name: str, types: list[tuple[str, tuple[Any, ...]]], attrs: dict[str, Any], error: type[LpxError], message: str
) -> None:
    with pytest.raises(error, match=message):
        infer(name, *types, **attrs)
