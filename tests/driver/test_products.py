"""Ways to schedule a contraction: which one is taken, and that each computes the same in every form of operands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lpx import te
from lpx.records import replace
from lpx.rules.blocked import BlockedPlan, Blocks, choose_blocks, choose_depth, suits
from lpx.rules.contraction import Contraction, recognise
from lpx.rules.default import default_schedule
from lpx.rules.dots import DotsPlan
from lpx.rules.facts import facts_of, follower
from lpx.rules.resident import ResidentPlan
from lpx.rules.skinny import SkinnyPlan
from lpx.schedule import Trace, create_schedule, replay
from lpx.schedule.testing import check_equivalent
from lpx.target import Target
from tests.schedule.compiled import check_compiled
from tests.schedule.support import bias_relu

HOST = Target.parse("cpu")
WIDE = Target.parse("cpu:sapphirerapids")


def product(m: int, k: int, n: int, *, left: bool = False, right: bool = False) -> te.Tensor:
    """A B, of which A or B may be stored by columns."""
    a = te.placeholder((k, m) if left else (m, k), name="A")
    b = te.placeholder((n, k) if right else (k, n), name="B")
    r = te.reduce_axis(k, name="r")

    def term(i: te.Scalar, j: te.Scalar) -> te.Scalar:
        return (a[r, i] if left else a[i, r]) * (b[j, r] if right else b[r, j])

    return te.compute((m, n), lambda i, j: te.sum(term(i, j), axis=r), name="C")


def batches(batch: int, m: int, k: int, n: int, *, shared: bool) -> te.Tensor:
    """Products of a batch, by matrices of their own or by one that they share."""
    a = te.placeholder((batch, m, k), name="A")
    b = te.placeholder((k, n) if shared else (batch, k, n), name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute(
        (batch, m, n),
        lambda z, i, j: te.sum(a[z, i, r] * (b[r, j] if shared else b[z, r, j]), axis=r),
        name="C",
    )


FORMS: dict[str, Callable[[], te.Tensor]] = {
    "plain": lambda: product(7, 8, 20),
    "even": lambda: product(6, 8, 16),
    "left": lambda: product(7, 8, 20, left=True),
    "right": lambda: product(7, 8, 20, right=True),
    "both": lambda: product(7, 8, 20, left=True, right=True),
    "batch": lambda: batches(2, 7, 8, 20, shared=False),
    "shared": lambda: batches(2, 7, 8, 20, shared=True),
    "epilogue": lambda: bias_relu(7, 8, 20),
}
ORDERS = {
    "strips": Blocks(3, 8, 4, 2, 2, by_strips=True, packs_rows=True),
    "strips whole": Blocks(3, 8, 8, 4, 1, by_strips=True, packs_rows=True),
    "narrow": Blocks(3, 8, 8, 1, 3, by_strips=True, packs_rows=False),
    "panels": Blocks(3, 8, 4, 2, 3, by_strips=False, packs_rows=False),
    "panels whole": Blocks(3, 8, 8, 1, 3, by_strips=False, packs_rows=False),
}


def contraction_of(tensor: te.Tensor) -> Contraction:
    found = recognise(facts_of(te.lower(tensor))["C"])
    assert found is not None
    return found


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", FORMS)
def test_blocks_compute_the_same(form: str, order: str) -> None:
    """In the interpreter, as machine code next to forbidden pages, and from a stored trace."""
    tensor, blocks = FORMS[form](), ORDERS[order]
    function = te.lower(tensor)
    schedule = create_schedule(function)
    found = recognise(facts_of(schedule.function)["C"])
    assert found is not None
    assert suits(found)
    fused = follower(schedule.function, "C") if blocks.depth == 8 else ""
    BlockedPlan(schedule, found, blocks, fused, HOST.cpu).apply()
    check_equivalent(function, schedule.function, relative=1e-5)
    check_compiled(function, schedule.function, relative=1e-5)
    assert str(replay(Trace.from_json(schedule.trace.to_json()), function)) == str(schedule)


@pytest.mark.parametrize("form", ["plain", "left", "batch"])
def test_skinny_products_compute_the_same(form: str) -> None:
    function = te.lower(FORMS[form]())
    schedule = create_schedule(function)
    found = recognise(facts_of(schedule.function)["C"])
    assert found is not None
    SkinnyPlan(schedule, found, HOST.cpu).apply()
    check_equivalent(function, schedule.function, relative=1e-5)
    check_compiled(function, schedule.function, relative=1e-5)


@pytest.mark.parametrize("shape", [(2, 8, 256), (7, 8, 64), (8, 9, 96), (9, 10, 128), (16, 4, 192)])
@pytest.mark.parametrize("count", [1, 3])
def test_products_by_a_resident_matrix_compute_the_same(shape: tuple[int, int, int], count: int) -> None:
    """With batches that threads share, and with blocks of columns; tiles that divide the rows and that do not."""
    function = te.lower(product(*shape) if count == 1 else batches(count, *shape, shared=False))
    schedule = create_schedule(function)
    found = recognise(facts_of(schedule.function)["C"])
    assert found is not None
    ResidentPlan(schedule, found, replace(WIDE.cpu, cores=2)).apply()
    check_equivalent(function, schedule.function, relative=1e-5)
    check_compiled(function, schedule.function, relative=1e-5)


@pytest.mark.parametrize("shape", [(2, 128, 16), (7, 131, 6), (8, 140, 9), (9, 128, 8), (16, 129, 12)])
@pytest.mark.parametrize("count", [1, 2])
def test_dots_compute_the_same(shape: tuple[int, int, int], count: int) -> None:
    """Sums that fill their vectors and that do not, tiles that divide the rows and that do not, batches."""
    function = te.lower(transposed(count, *shape))
    schedule = create_schedule(function)
    found = recognise(facts_of(schedule.function)["C"])
    assert found is not None
    DotsPlan(schedule, found, WIDE.cpu).apply()
    check_equivalent(function, schedule.function, relative=1e-5)
    check_compiled(function, schedule.function, relative=1e-5)


def transposed(count: int, m: int, k: int, n: int) -> te.Tensor:
    """Products of a batch, by matrices that are stored by columns."""
    a, b = te.placeholder((count, m, k), name="A"), te.placeholder((count, n, k), name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute((count, m, n), lambda z, i, j: te.sum(a[z, i, r] * b[z, j, r], axis=r), name="C")


@pytest.mark.parametrize("order", ORDERS)
def test_a_matrix_by_itself(order: str) -> None:
    """Rows and columns are read from the same panels."""
    a, r = te.placeholder((20, 8), name="A"), te.reduce_axis(8, name="r")
    function = te.lower(te.compute((20, 20), lambda i, j: te.sum(a[i, r] * a[j, r], axis=r), name="C"))
    schedule = create_schedule(function)
    found = recognise(facts_of(schedule.function)["C"])
    assert found is not None
    BlockedPlan(schedule, found, ORDERS[order], "", HOST.cpu).apply()
    check_equivalent(function, schedule.function, relative=1e-5)
    check_compiled(function, schedule.function, relative=1e-5)


def test_a_vector_by_a_matrix_is_skinny_and_shared_among_threads() -> None:
    x, b, r = te.placeholder((512,), name="x"), te.placeholder((512, 2048), name="B"), te.reduce_axis(512, name="r")
    made = default_schedule(te.lower(te.compute((2048,), lambda j: te.sum(x[r] * b[r, j], axis=r), name="C")), WIDE)
    assert made.notes == ["C: 8 rows of B at a time added to the result, threads"]


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((1024, 1024, 1024), "strips of rows past all panels"),
        ((128, 768, 768), "all rows past each panel"),
        ((12, 1024, 1024), "all rows past each panel"),
        ((12, 512, 512), "in register tiles of 6 x 64, B read down its columns, threads"),
        ((4, 768, 768), "in register tiles of 4 x 96, B read down its columns, threads"),
        ((4, 768, 760), "8 rows of B at a time"),
        ((17, 512, 512), "all rows past each panel"),
        ((4, 1024, 1024), "8 rows of B at a time"),
        ((64, 64, 64), "contraction in register tiles"),
    ],
)
def test_shapes_choose_an_order(shape: tuple[int, int, int], says: str) -> None:
    made = default_schedule(te.lower(product(*shape)), WIDE)
    assert any(says in note for note in made.notes), made.notes


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((4, 768, 768), "tiles of 4 x 6, 16 partial results of each in lanes"),
        ((16, 768, 768), "tiles of 8 x 3, 16 partial results of each in lanes"),
        ((4, 100, 768), "columns packed"),
        ((17, 768, 768), "columns packed"),
        ((4, 768, 769), "columns packed"),
    ],
)
def test_shapes_choose_an_order_for_columns(shape: tuple[int, int, int], says: str) -> None:
    made = default_schedule(te.lower(product(*shape, right=True)), WIDE)
    assert any(says in note for note in made.notes), made.notes


@pytest.mark.parametrize("target", ["cpu:haswell", "cpu:sapphirerapids", "cpu:neoverse-v1"])
def test_a_panel_fits_the_first_cache_and_panels_the_second(target: str) -> None:
    machine = Target.parse(target).cpu
    blocks = choose_blocks(contraction_of(product(2048, 2048, 2048)), machine)
    panel = 4 * blocks.depth * blocks.columns
    assert machine.l1d.bytes // 3 < panel < machine.l1d.bytes
    assert blocks.panels * panel <= machine.l2.bytes // 2


@pytest.mark.parametrize(("shape", "blocks"), [((1024, 1024, 1024), 2), ((128, 768, 768), 2), ((512, 512, 512), 1)])
def test_threads_have_blocks_of_columns_of_their_own(shape: tuple[int, int, int], blocks: int) -> None:
    """If blocks stay wide enough; else they share strips."""
    machine = replace(WIDE.cpu, cores=2)
    chosen = choose_blocks(contraction_of(product(*shape)), machine)
    assert shape[2] // chosen.columns == blocks * chosen.panels


@pytest.mark.parametrize(
    ("summed", "depth"), [(200, 200), (384, 384), (768, 256), (1024, 256), (777, 259), (1021, 1021)]
)
def test_parts_of_a_sum_are_equal(summed: int, depth: int) -> None:
    assert choose_depth(summed, 256) == depth


def test_a_long_sum_is_cut_though_an_epilogue_then_has_a_pass_of_its_own() -> None:
    notes = default_schedule(te.lower(bias_relu(64, 768, 512)), WIDE).notes
    assert "256 products at a time" in notes[0]
    assert "applied to each tile" not in notes[0]
    notes = default_schedule(te.lower(bias_relu(64, 384, 512)), WIDE).notes
    assert "384 products at a time" in notes[0]
    assert "D applied to each tile" in notes[0]


def test_axes_of_one_place_have_no_role() -> None:
    """A matrix by a matrix of one column is a matrix by a vector."""
    assert recognise(facts_of(te.lower(product(40, 30, 1)))["C"]) is None
    found = contraction_of(product(40, 30, 1, left=True))
    assert found.row is None
    assert found.column_operand.buffer.name == "A"
