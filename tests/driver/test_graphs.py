"""Compiled graphs: cut into kernels, put into one program on planned memory, checked at run time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from lpx import dtypes, te
from lpx.errors import RuntimeCheckError
from lpx.graph import memory
from lpx.graph.builder import GraphBuilder
from lpx.graph.executable import Executable, compile_graph
from lpx.graph.nodes import Graph, Value
from lpx.graph.partition import Group, partition
from lpx.knobs import override
from lpx.runtime import arrays
from lpx.target import Target
from tests.driver.graphs import Array, inputs_of, interpreted, random_graphs
from tests.driver.programs import normal

HOST = Target.parse("cpu")


def run(executable: Executable, *inputs: Array) -> tuple[Array, ...]:
    """All outputs."""
    results = arrays.call(executable.specialisation, inputs, {})
    return results if len(executable.graph.outputs) > 1 else (results,)


def chain(steps: int, rows: int = 8, columns: int = 16) -> Graph:
    """`steps` products by square matrices, one after another: as many kernels."""
    builder = GraphBuilder("chain")
    value = builder.input(dtypes.float32, (rows, columns), "x")
    for k in range(steps):
        weights = builder.constant(normal(columns, columns, seed=k) / columns, f"w{k}")
        value = builder.add("relu", [builder.add("matmul", [value, weights])])
    return builder.finish([value])


# Cutting


@given(random_graphs())
def test_groups_hold_everything_and_run_in_order(graph: Graph) -> None:
    groups = partition(graph)
    known = {*graph.inputs, *graph.constants}
    for group in groups:
        for value in group.inputs:
            assert value in known, "a group reads what no earlier one hands out"
        assert_computes(group, known)
        known.update(group.outputs)
    assert known.issuperset(graph.outputs)
    homes = Counter(node for group in groups for node in group.nodes)
    assert set(homes) == set(graph.nodes)
    views = {"transpose", "reshape", "full"}
    assert all(count == 1 or node.operator.name in views for node, count in homes.items())


def assert_computes(group: Group, known: set[Value]) -> None:
    """Each node of the group finds its operands in the group's inputs or its earlier nodes."""
    here = {v for v in known if v in group.inputs}
    for node in group.nodes:
        assert all(v is None or v in here for v in node.inputs)
        here.update(node.outputs)
    assert here.issuperset(group.outputs)


def kinds(group: Group) -> list[str]:
    return [node.operator.name for node in group.nodes]


def test_what_shares_a_kernel() -> None:
    """An activation follows the product it is applied to; the steps of a softmax stay together."""
    builder = GraphBuilder("block")
    x, w = builder.input(dtypes.float32, (8, 16), "x"), builder.input(dtypes.float32, (16, 16), "w")
    hidden = builder.add("relu", [builder.add("matmul", [x, w])])
    scaled = builder.add("mul", [hidden, hidden])
    graph = builder.finish([builder.add("softmax", [scaled], axis=-1, log=False)])
    assert [kinds(g) for g in partition(graph)] == [["matmul", "relu", "mul"], ["softmax"]]


def test_operands_that_serve_one_node_share_its_kernel() -> None:
    """(x + y) * exp(x - y) is one pass over memory, whether or not a part of it is a result too."""
    for keeps_part in (False, True):
        builder = GraphBuilder("operands")
        x, y = (builder.input(dtypes.float32, (8, 16), name) for name in "xy")
        part = builder.add("exp", [builder.add("sub", [x, y])])
        result = builder.add("mul", [builder.add("add", [x, y]), part])
        groups = partition(builder.finish([result, part] if keeps_part else [result]))
        assert [len(g.nodes) for g in groups] == [4]


def test_operands_between_which_a_product_runs_stay_apart() -> None:
    """exp(w x) needs what abs makes, and both are added up: one kernel of all three would wait for itself."""
    builder = GraphBuilder("apart")
    x, w = builder.input(dtypes.float32, (16, 16), "x"), builder.input(dtypes.float32, (16, 16), "w")
    first = builder.add("abs", [x])
    second = builder.add("exp", [builder.add("matmul", [w, first])])
    groups = partition(builder.finish([builder.add("add", [second, first])]))
    assert [kinds(g) for g in groups] == [["abs"], ["matmul", "exp", "add"]]


def test_no_circle_between_groups() -> None:
    """add(relu(y), matmul(relu(y))) may not join the group of y, on which its other operand depends."""
    builder = GraphBuilder("residual")
    x, w = builder.input(dtypes.float32, (8, 16), "x"), builder.input(dtypes.float32, (16, 16), "w")
    first = builder.add("relu", [builder.add("matmul", [x, w])])
    graph = builder.finish([builder.add("add", [first, builder.add("matmul", [first, w])])])
    assert [kinds(g) for g in partition(graph)] == [["matmul", "relu"], ["matmul", "add"]]


@given(random_graphs())
@settings(max_examples=25)
def test_kernels_together_compute_the_graph(graph: Graph) -> None:
    inputs = inputs_of(graph)
    got = run(compile_graph(graph, HOST), *inputs)
    for have, want in zip(got, interpreted(graph, inputs), strict=True):
        np.testing.assert_allclose(have, want, rtol=0, atol=1e-5 * max(1.0, float(np.max(np.abs(want)))))


# Memory


def lives(groups: tuple[Group, ...], value: Value) -> range:
    """The steps from the one that makes a value to the last that reads it."""
    made = next(k for k, g in enumerate(groups) if value in g.outputs)
    return range(made, 1 + max([made, *(k for k, g in enumerate(groups) if value in g.inputs)]))


@given(random_graphs())
def test_no_two_live_values_share_memory(graph: Graph) -> None:
    groups = partition(graph)
    plan = memory.plan(groups, set(graph.outputs))
    assert set(plan.offsets) == {v for g in groups for v in g.outputs} - set(graph.outputs)
    placed = [(v, lives(groups, v), begin, begin + memory.size_of(v)) for v, begin in plan.offsets.items()]
    for k, (_, steps, begin, end) in enumerate(placed):
        assert begin % memory.ALIGNMENT == 0
        assert end <= plan.size
        for _, others, low, high in placed[:k]:
            at_once = max(steps.start, others.start) < min(steps.stop, others.stop)
            assert not (at_once and max(begin, low) < min(end, high))


def test_memory_is_used_again() -> None:
    graph = chain(8)
    groups = partition(graph)
    plan = memory.plan(groups, set(graph.outputs))
    assert len(plan.offsets) == 7
    assert plan.size == 2 * 8 * 16 * 4


# Programs


def test_a_program_of_several_kernels() -> None:
    graph = chain(5)
    executable = compile_graph(graph, HOST)
    assert executable.kernels == 5
    x = normal(8, 16)
    want = x
    for weights in graph.constants.values():
        want = np.maximum(want @ weights, 0)
    np.testing.assert_allclose(run(executable, x)[0], want, rtol=0, atol=1e-5 * float(np.max(want)))


def test_equal_groups_share_a_kernel_and_new_weights_compile_nothing(tmp_path: Path) -> None:
    with override(cache_dir=tmp_path):
        compile_graph(chain(2), HOST)
        before = set(tmp_path.rglob("*.lpxo"))
        executable = compile_graph(chain(4), HOST)
        added = set(tmp_path.rglob("*.lpxo")) - before
    assert executable.kernels == 4
    assert len(added) == 1  # the program alone: its kernels are those of the shorter chain
    assert not {"llvm", "lower"} & {phase for phase, s in executable.seconds.items() if s > 0}


def test_a_graph_may_use_an_input_twice_and_hand_out_an_intermediate() -> None:
    builder = GraphBuilder("twice")
    x = builder.input(dtypes.float32, (8, 16), "x")
    w = builder.input(dtypes.float32, (16, 16), "w")
    y = builder.add("matmul", [x, w])
    graph = builder.finish([y, builder.add("add", [builder.add("matmul", [y, w]), x])])
    a, b = normal(8, 16), normal(16, 16)
    first, second = run(compile_graph(graph, HOST), a, b)
    np.testing.assert_allclose(first, a @ b, atol=1e-4)
    np.testing.assert_allclose(second, a @ b @ b + a, atol=1e-3)


def test_symbolic_extents_make_one_kernel() -> None:
    builder = GraphBuilder("rows")
    x = builder.input(dtypes.float32, (te.var("n"), 16), "x")
    w = builder.constant(normal(16, 16), "w")
    y = builder.add("softmax", [builder.add("matmul", [x, w])], axis=-1, log=False)
    executable = compile_graph(builder.finish([y]), HOST)
    assert executable.kernels == 1
    for n in (1, 5, 33):
        (got,) = run(executable, normal(n, 16))
        assert got.shape == (n, 16)
        np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-5)


def checked() -> Graph:
    """A division by an input, then a product of rows that another input picks."""
    builder = GraphBuilder("checked")
    divisor = builder.input(dtypes.int32, (8,), "divisor")
    x, places = builder.input(dtypes.float32, (8, 16), "x"), builder.input(dtypes.int64, (8,), "places")
    w = builder.constant(np.eye(16, dtype=np.float32), "w")
    quotient = builder.add("floordiv", [builder.constant(np.arange(8, dtype=np.int32), "e"), divisor])
    picked = builder.add("take", [builder.add("matmul", [x, w]), places], axis=0)
    return builder.finish([quotient, builder.add("matmul", [picked, w])])


def test_checks_of_later_kernels_have_their_own_message() -> None:
    executable = compile_graph(checked(), HOST)
    assert executable.kernels > 2
    division, index = executable.specialisation.signature.checks
    ones, x = np.ones(8, np.int32), normal(8, 16)
    places = np.arange(8)[::-1].copy()
    np.testing.assert_allclose(run(executable, ones, x, places)[1], x[::-1], rtol=1e-6)
    with pytest.raises(RuntimeCheckError, match="checked: integer division by zero") as first:
        run(executable, ones * 0, x, places)
    assert division in first.value.message
    with pytest.raises(RuntimeCheckError, match=r"axis 0, is outside \[0, 8\)") as second:
        run(executable, ones, x, places + 1)
    assert index in second.value.message
    np.testing.assert_allclose(run(executable, ones, x, places)[1], x[::-1], rtol=1e-6)


def test_every_form_of_a_graph() -> None:
    lowered = compile_graph(chain(2), HOST).lowered()
    assert len(lowered.kernels) == 2
    assert "matmul" in str(lowered.graph)
    for form in (lowered.te, lowered.ir, lowered.llvm, lowered.asm):
        assert form.count("matmul") >= 2
    assert lowered.explain().count("register tiles") == 2
