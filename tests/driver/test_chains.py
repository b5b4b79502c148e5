"""Element-wise blocks that feed each other run in one loop, and groups of them in one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx import te
from lpx.rules.default import default_schedule
from lpx.schedule.testing import check_equivalent
from lpx.target import Target
from tests.schedule.compiled import check_compiled

Array = NDArray[Any]
HOST = Target.parse("cpu")


def shared_values(*shape: int) -> list[te.Tensor]:
    """Two results of a value that is not cheap to compute again, one by rows and one by columns."""
    x = te.placeholder(shape, name="x")
    row, column = te.placeholder(shape[-1:], name="row"), te.placeholder(shape[:1], name="column")

    def exponential(*i: te.Scalar) -> te.Scalar:
        return te.exp(x[i])

    e = te.compute(shape, exponential, name="E")

    def ratio(*i: te.Scalar) -> te.Scalar:
        return e[i] / row[i[-1]]

    first = te.compute(shape, ratio, name="F")

    def both(*i: te.Scalar) -> te.Scalar:
        return te.sqrt(e[i]) + first[i] * column[i[0]]

    return [first, te.compute(shape, both, name="G")]


@pytest.mark.parametrize("shape", [(1,), (15,), (16,), (17,), (100,), (3, 5), (4, 16), (2, 33), (2, 3, 7)])
def test_one_loop_gives_the_same(shape: tuple[int, ...]) -> None:
    function = te.lower(shared_values(*shape))
    made = default_schedule(function, HOST)
    check_equivalent(function, made.schedule.function, relative=1e-6)
    check_compiled(function, made.schedule.function, relative=1e-6)


def test_values_stay_in_registers() -> None:
    kernel = lpx.build(shared_values(64))
    assert kernel.forms.ir.count("for ") == 1
    assert "E_acc" in kernel.forms.ir
    assert any("E, F, G: one loop" in line for line in kernel.explain().splitlines())


def other(name: str) -> list[te.Tensor]:
    """Programs whose loops stay apart."""
    x, n = te.placeholder((40,), name="x"), te.var("n")
    e = te.compute((40,), lambda i: te.exp(x[i]), name="E")
    if name == "another place":
        return [e, te.compute((40,), lambda i: e[39 - i] * 2.0, name="F")]
    if name == "another shape":
        return [e, te.compute((39,), lambda i: e[i] * 2.0, name="F")]
    if name == "nothing handed on":
        return [e, te.compute((40,), lambda i: te.tanh(x[i]), name="F")]
    y = te.placeholder((n,), name="y")
    u = te.compute((n,), lambda i: te.exp(y[i]), name="E")
    return [u, te.compute((n,), lambda i: u[i] * 2.0, name="F")]


@pytest.mark.parametrize("name", ["another place", "another shape", "nothing handed on", "a symbolic shape"])
def test_other_loops_stay_apart(name: str) -> None:
    function = te.lower(other(name))
    made = default_schedule(function, HOST)
    assert not any("one loop" in note for note in made.notes)
    check_equivalent(function, made.schedule.function, {"n": 21} if name == "a symbolic shape" else {}, relative=1e-6)


def groups(x: Array, y: Array) -> Any:
    """A root that two later steps read, between steps of other operands."""
    root = np.sqrt(x)
    a = np.log(y) / root
    b = np.exp(-y) * a
    return a - root * b, b


@pytest.mark.parametrize("shape", [(1,), (50,), (7, 33)])
def test_groups_that_feed_each_other_are_one_kernel(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(0.5, 2, shape).astype(np.float32) for _ in range(2))
    compiled = lpx.jit(groups)
    for got, want in zip(compiled(x, y), groups(x.astype(np.float64), y.astype(np.float64)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert len(compiled.lower(x, y).kernels) == 1


def test_a_group_that_needs_another_kernel_in_between_stays_apart() -> None:
    """The sum reads what the first makes, and the last reads the sum."""

    def program(x: Array) -> Any:
        a = np.exp(x)
        return np.sqrt(a) + a.T.sum() * a

    x = np.random.default_rng(0).uniform(0.5, 2, (20, 30)).astype(np.float32)
    np.testing.assert_allclose(lpx.jit(program)(x), program(x.astype(np.float64)), rtol=1e-4)


def test_what_alone_reads_a_product_is_applied_to_its_tiles() -> None:
    """Only what follows is a chain."""

    def program(a: Array, b: Array, bias: Array) -> Any:
        x = np.exp(a @ b + bias)
        half = np.sqrt(x) * 0.5
        return half - x / half

    rng = np.random.default_rng(0)
    a, b, bias = (rng.standard_normal(shape, dtype=np.float32) * 0.2 for shape in ((33, 40), (40, 70), (70,)))
    compiled = lpx.jit(program)
    notes = compiled.lower(a, b, bias).explain()
    assert "exp applied to each tile" in notes
    assert "one loop" in notes
    want = program(*(x.astype(np.float64) for x in (a, b, bias)))
    np.testing.assert_allclose(compiled(a, b, bias), want, rtol=1e-4, atol=1e-4)
