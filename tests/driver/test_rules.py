"""Default schedules: what each rule recognises, that it computes the same, and what it says it did."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lpx import te
from lpx.ir.nodes import Function
from lpx.records import replace
from lpx.rules import contraction, default, reduction, tiled
from lpx.rules.facts import facts_of
from lpx.schedule import Trace, create_schedule, replay
from lpx.schedule.testing import check_equivalent
from lpx.target import Target
from tests.driver.programs import matmul
from tests.schedule.compiled import check_compiled
from tests.schedule.support import bias_relu, blur, softmax

HOST = Target.parse("cpu")
Make = Callable[[], te.Tensor]


def transposed(m: int, k: int, n: int) -> te.Tensor:
    """A B' with B stored by columns."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((n, k), name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[j, r], axis=r), name="C")


def left_transposed(m: int, k: int, n: int) -> te.Tensor:
    """A' B with A stored by columns, and the factors the other way round."""
    a, b = te.placeholder((k, m), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute((m, n), lambda i, j: te.sum(b[r, j] * a[r, i], axis=r), name="C")


def batched(batch: int, m: int, k: int, n: int) -> te.Tensor:
    a, b = te.placeholder((batch, m, k), name="A"), te.placeholder((batch, k, n), name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute((batch, m, n), lambda z, i, j: te.sum(a[z, i, r] * b[z, r, j], axis=r), name="C")


def two_axes(m: int, k: int, n: int) -> te.Tensor:
    """einsum("ikl,klj->ij")."""
    a, b = te.placeholder((m, k, 3), name="A"), te.placeholder((k, 3, n), name="B")
    r, q = te.reduce_axis(k, name="r"), te.reduce_axis(3, name="q")
    return te.compute((m, n), lambda i, j: te.sum(a[i, r, q] * b[r, q, j], axis=[r, q]), name="C")


def convolution(channels: int, filters: int, size: int) -> te.Tensor:
    """3 x 3, no padding, channels last."""
    x = te.placeholder((size + 2, size + 2, channels), name="X")
    w = te.placeholder((3, 3, channels, filters), name="W")
    p, q, c = te.reduce_axis(3, name="p"), te.reduce_axis(3, name="q"), te.reduce_axis(channels, name="c")
    shape = (size, size, filters)
    return te.compute(shape, lambda y, z, f: te.sum(x[y + p, z + q, c] * w[p, q, c, f], axis=[p, q, c]), name="C")


def matrix_vector(m: int, k: int) -> te.Tensor:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k,), name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute((m,), lambda i: te.sum(a[i, r] * b[r], axis=r), name="C")


def squares(m: int, k: int) -> te.Tensor:
    """Both factors read the same axes: a sum of products, but no contraction."""
    a = te.placeholder((m, k), name="A")
    r = te.reduce_axis(k, name="r")
    return te.compute((m,), lambda i: te.sum(a[i, r] * a[i, r], axis=r), name="C")


def largest(m: int, k: int) -> te.Tensor:
    a = te.placeholder((m, k), name="A")
    r = te.reduce_axis(k, name="r")
    return te.compute((m,), lambda i: te.max(a[i, r], axis=r), name="C")


def column_sums(m: int, n: int) -> te.Tensor:
    a = te.placeholder((m, n), name="A")
    r = te.reduce_axis(m, name="r")
    return te.compute((n,), lambda j: te.sum(a[r, j], axis=r), name="C")


def swap(m: int, n: int) -> te.Tensor:
    a = te.placeholder((m, n), name="A")
    return te.compute((n, m), lambda i, j: a[j, i], name="C")


def sum_of_all(n: int) -> te.Tensor:
    """Of integers, whose sum is exact in any order."""
    a = te.placeholder((n, n), "int32", name="A")
    r, q = te.reduce_axis(n, name="r"), te.reduce_axis(n, name="q")
    return te.compute((), lambda: te.sum(a[r, q], axis=[r, q]), name="C")


def sum_of_ends(m: int, n: int) -> te.Tensor:
    """Over the first and the last axis, which do not follow one another in memory."""
    a = te.placeholder((m, 3, n), name="A")
    r, q = te.reduce_axis(m, name="r"), te.reduce_axis(n, name="q")
    return te.compute((3,), lambda i: te.sum(a[r, i, q], axis=[r, q]), name="C")


def argmax(m: int, k: int, axis: int, dtype: str = "float32") -> te.Tensor:
    a = te.placeholder((m, k), dtype, name="A")
    r = te.reduce_axis((m, k)[axis], name="r")
    return te.compute(((k, m)[axis],), lambda i: te.argmax(a[(r, i)[axis], (i, r)[axis]], axis=r)[0], name="C")


CONTRACTIONS: dict[str, Make] = {
    "plain": lambda: matmul(9, 5, 20),
    "transposed": lambda: transposed(9, 5, 20),
    "left transposed": lambda: left_transposed(9, 5, 20),
    "batched": lambda: batched(2, 5, 4, 18),
    "two axes": lambda: two_axes(5, 3, 17),
    "convolution": lambda: convolution(2, 17, 4),
}
OTHERS: dict[str, Make] = {
    "squares": lambda: squares(3, 70),
    "largest": lambda: largest(3, 70),
    "matrix by vector": lambda: matrix_vector(5, 70),
}
REST: dict[str, Make] = {
    "columns": lambda: column_sums(4, 70),
    "many columns": lambda: column_sums(21, 300),
    "a few long columns": lambda: column_sums(20001, 10),
    "all": lambda: sum_of_all(301),
    "both ends": lambda: sum_of_ends(5, 70),
    "positions in rows": lambda: argmax(3, 70, 1),
    "positions in eight rows": lambda: argmax(8, 70, 1),
    "positions in a long row": lambda: argmax(1, 70001, 1),
    "positions in columns": lambda: argmax(21, 300, 0),
    "positions of integers": lambda: argmax(3, 70, 1, "int16"),
    "epilogue": lambda: bias_relu(5, 6, 20),
    "stencil": lambda: blur(40),
    "softmax": lambda: softmax(3, 70),
    "swap": lambda: swap(20, 18),
    "swap of pages": lambda: swap(1024, 70),
    "one row": lambda: matmul(1, 5, 20),
    "one column": lambda: matmul(5, 20, 1),
    "an empty sum": lambda: matmul(5, 0, 20),
    "no rows": lambda: matmul(0, 5, 20),
    "no columns": lambda: matmul(5, 6, 0),
    "no elements": lambda: swap(0, 18),
    "no rows to reduce": lambda: largest(0, 70),
}
ALL = {**CONTRACTIONS, **OTHERS, **REST}


def schedule_of(make: Make) -> tuple[Function, default.DefaultSchedule]:
    """A program, and its default schedule."""
    function = te.lower(make())
    return function, default.default_schedule(function, HOST)


@pytest.mark.parametrize("case", CONTRACTIONS)
def test_contractions_are_recognised_by_their_algebra(case: str) -> None:
    function, made = schedule_of(CONTRACTIONS[case])
    found = contraction.recognise(facts_of(function)["C"])
    assert found is not None
    assert found.column is found.facts.axes("spatial")[-1]
    assert any(re.match(r"C: contraction in register tiles of \d+ x \d+", note) for note in made.notes)


@pytest.mark.parametrize("case", OTHERS)
def test_other_sums_are_no_contractions(case: str) -> None:
    function, made = schedule_of(OTHERS[case])
    assert contraction.recognise(facts_of(function)["C"]) is None
    assert not any("contraction" in note for note in made.notes)


@pytest.mark.parametrize("case", ALL)
def test_a_default_schedule_computes_the_same(case: str) -> None:
    """In the interpreter, and as machine code next to forbidden pages."""
    function, made = schedule_of(ALL[case])
    check_equivalent(function, made.schedule.function, relative=1e-5)
    check_compiled(function, made.schedule.function, relative=1e-5)


@pytest.mark.parametrize("case", ["plain", "softmax", "largest", "swap"])
def test_a_default_schedule_replays(case: str) -> None:
    function, made = schedule_of(ALL[case])
    trace = Trace.from_json(made.schedule.trace.to_json())
    assert str(replay(trace, function)) == str(made.schedule)


@pytest.mark.parametrize("target", ["cpu:x86-64", "cpu:haswell", "cpu:skylake-avx512", "cpu:neoverse-v1"])
def test_tiles_fill_the_registers_of_the_target(target: str) -> None:
    machine = Target.parse(target).cpu
    found = contraction.recognise(facts_of(te.lower(matmul(1024, 1024, 1024)))["C"])
    assert found is not None
    tiles = tiled.choose_tiles(found, machine)
    vectors = tiles.columns // machine.lanes(32)
    used = tiles.rows * vectors + vectors + 1
    assert machine.vector_registers // 2 < used <= machine.vector_registers


def test_an_epilogue_is_applied_to_each_tile() -> None:
    _, made = schedule_of(lambda: bias_relu(64, 64, 64))
    (note,) = [n for n in made.notes if n.startswith("C: contraction")]
    assert "D applied to each tile" in note
    assert "scope(register)" in str(made.schedule)


def test_steps_of_a_row_run_together() -> None:
    _, made = schedule_of(lambda: softmax(3, 70))
    (chain,) = made.notes
    assert re.match(r"M, .*O: row by row", chain)
    outer = str(made.schedule).splitlines()
    assert sum(line.startswith("  for ") for line in outer) == 1


def test_positions_are_found_in_lanes() -> None:
    _, rows = schedule_of(lambda: argmax(3, 70, 1))
    _, columns = schedule_of(lambda: argmax(21, 300, 0))
    assert "partial results in lanes" in rows.notes[0]
    assert "results in lanes" in columns.notes[0]
    assert all("vectorize" in str(made.schedule) for made in (rows, columns))


def test_threads_share_a_reduction_of_few_results() -> None:
    """Each gets parts, combined at the end."""
    machine = replace(HOST.cpu, cores=4)
    schedule = create_schedule(te.lower(sum_of_all(512)))
    note = reduction.apply(schedule, "C", machine)
    assert re.search(r"parts of \d+ for threads \(reassociated\)", note)
    assert "parallel" in str(schedule)


@pytest.mark.parametrize("case", ["largest", "softmax", "squares"])
def test_a_reassociated_reduction_is_named(case: str) -> None:
    """Sums in another order round differently, which `explain()` says."""
    _, made = schedule_of(ALL[case])
    assert any("partial results in lanes (reassociated)" in note for note in made.notes)


@pytest.mark.parametrize("case", ["plain", "columns", "many columns", "swap", "stencil"])
def test_no_other_rule_claims_to_reassociate(case: str) -> None:
    _, made = schedule_of(ALL[case])
    assert not any("reassociated" in note for note in made.notes)


def test_work_that_pays_is_shared_among_threads() -> None:
    _, large = schedule_of(lambda: matmul(256, 256, 256))
    _, small = schedule_of(lambda: matmul(8, 8, 8))
    assert "parallel" in str(large.schedule)
    assert any(", threads" in note for note in large.notes)
    assert "parallel" not in str(small.schedule)


def chain(n: int) -> te.Tensor:
    a = te.placeholder((n,), name="A")
    return te.compute((n,), lambda i: a[i] * 2.0 + 1.0, name="C")


def test_large_results_are_stored_past_the_caches() -> None:
    _, large = schedule_of(lambda: chain(1 << 22))
    _, small = schedule_of(lambda: chain(1 << 12))
    assert any("stores past the caches" in note for note in large.notes)
    assert "nontemporal" in str(large.schedule)
    assert "nontemporal" not in str(small.schedule)


def scaled_channels() -> te.Tensor:
    """Each channel by a factor: its rows and columns are one loop."""
    x, factor = te.placeholder((2, 3, 5, 7), name="X"), te.placeholder((3,), name="F")
    return te.compute(x.shape, lambda n, c, h, w: x[n, c, h, w] * factor[c], name="C")


def test_loops_that_walk_evenly_through_memory_are_joined() -> None:
    function, made = schedule_of(scaled_channels)
    assert "fuse" in made.schedule.trace.as_python()
    check_compiled(function, made.schedule.function)


def test_views_are_computed_where_they_are_read() -> None:
    """A reshape that both rows of a sum and what follows it read is never stored."""
    x = te.placeholder((6, 20), name="X")
    flat = te.compute((120,), lambda k: x[k // 20, k % 20], name="flat")
    r = te.reduce_axis(120, name="r")
    total = te.compute((1,), lambda _: te.sum(flat[r], axis=r), name="total")
    program = te.compute((120,), lambda k: flat[k] - total[0], name="C")
    function = te.lower(program)
    made = default.default_schedule(function, HOST)
    assert "flat: computed where it is read" in made.notes
    check_equivalent(function, made.schedule.function, relative=1e-5)
