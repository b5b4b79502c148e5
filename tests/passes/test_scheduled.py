"""Tensor programs under real schedules, through the whole pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from lpx import te
from lpx.ir.nodes import Alloc, For, Function
from lpx.ir.printer import print_stmt
from lpx.ir.traverse import walk
from lpx.passes import pipeline
from lpx.schedule import Schedule, create_schedule
from tests.passes.support import assert_pipeline_keeps, assert_same_results

Extents = Sequence[Mapping[str, int]]


def _check(program: te.Tensor, apply: Callable[[Schedule], None], extents: Extents = ({},)) -> Function:
    """The flat function; the schedule and every pass keep the results of the unscheduled program."""
    schedule = create_schedule(program)
    apply(schedule)
    plain = te.lower(program)
    for sizes in extents:
        assert_same_results(plain, schedule.function, sizes)
    return assert_pipeline_keeps(schedule.function, extents)


def _matmul(m: object, n: object, k: object) -> te.Tensor:
    a, b = te.placeholder((m, k), "float32", "A"), te.placeholder((k, n), "float32", "B")
    r = te.reduce_axis(k, "r")
    return te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


def _tile(s: Schedule, rows: int, lanes: int) -> None:
    i, j, r = s.loops("C")
    io, ii = s.split(i, rows)
    jo, ji = s.split(j, lanes)
    s.reorder(io, jo, r, ii, ji)
    s.parallel(io)
    s.unroll(ii)
    s.vectorize(ji)


@pytest.mark.parametrize("size", [(6, 8, 3), (7, 9, 5), (1, 1, 1), (2, 17, 4)])
@pytest.mark.parametrize("is_symbolic", [False, True])
def test_matrix_products(size: tuple[int, int, int], is_symbolic: bool) -> None:
    m, n, k = size
    if is_symbolic:
        symbolic = _matmul(te.var("m"), te.var("n"), te.var("k"))
        _check(symbolic, lambda s: _tile(s, 3, 4), [{"m": m, "n": n, "k": k}])
    else:
        _check(_matmul(m, n, k), lambda s: _tile(s, 3, 4))


def test_a_register_tile_of_fourteen_rows() -> None:
    s = create_schedule(_matmul(28, 64, 16))
    _tile(s, 14, 32)
    flat = pipeline.run(s.function, pipeline.CPU).function
    loops = [x for x in walk(flat.body) if isinstance(x, For)]
    inner = print_stmt(loops[-1])
    assert inner.count("fma(") == 14
    assert "C[" not in inner
    assert "mask" not in inner
    tiles = [x.buffer for x in walk(flat.body) if isinstance(x, Alloc)]
    assert [t.scope for t in tiles] == ["register"]


def test_packed_operands() -> None:
    def apply(s: Schedule) -> None:
        i, j, r = s.loops("C")
        jo, ji = s.split(j, 8)
        ro, ri = s.split(r, 4)
        io, ii = s.split(i, 3)
        jr, jv = s.split(ji, 4)
        s.reorder(jo, ro, io, jr, ri, ii, jv)
        packed = s.cache_read("C", "B")
        s.compute_at(packed, ro)
        s.unroll(ii)
        s.vectorize(jv)
        s.parallel(io)

    for m, n, k in ((6, 16, 8), (7, 19, 10)):
        _check(_matmul(m, n, k), apply)


@pytest.mark.parametrize("n", [1, 3, 8, 20])
def test_fused_stencils(n: int) -> None:
    def program(extent: object) -> te.Tensor:
        a = te.placeholder((extent,), "float32", "A")
        b = te.compute((extent,), lambda i: a[i] * 3.0, name="B")
        return te.compute((extent,), lambda i: b[i] + te.where(i > 0, b[te.maximum(i - 1, 0)], 0.0) * 2.0, name="C")

    def apply(s: Schedule) -> None:
        o, i = s.split(s.loops("C")[0], 4)
        s.compute_at("B", o)
        s.vectorize(i)
        s.parallel(o)

    _check(program(n), apply)
    _check(program(te.var("n")), apply, [{"n": n}])


def test_consumers_under_a_split_loop_write_all_of_the_output() -> None:
    for n in (96, 100):
        a = te.placeholder((n,), "float32", "A")
        c = te.compute((n,), lambda i: a[i] + a[i], name="C")  # noqa: B023
        d = te.compute((n,), lambda i: c[i] + c[i], name="D")  # noqa: B023
        e = te.compute((n,), lambda i: d[i] + a[i], name="E")  # noqa: B023

        def apply(s: Schedule) -> None:
            o, _ = s.split(s.loops("E")[0], 32)
            s.compute_at("D", o)
            s.compute_at("C", o)

        _check(e, apply)


@pytest.mark.parametrize("factor", [8, 16])
@pytest.mark.parametrize("n", [0, 1, 3, 7, 131])
def test_vectors_wider_than_the_extent(n: int, factor: int) -> None:
    a = te.placeholder((n,), "float32", "A")
    b = te.compute((n,), lambda i: te.abs(a[i] * 2.0), name="B")

    def apply(s: Schedule) -> None:
        s.vectorize(s.split(s.loops("B")[0], factor)[1])

    _check(b, apply)


@pytest.mark.parametrize("n", [30, 31])
@pytest.mark.parametrize("factor", [4, 7])
def test_factored_reductions_with_tails(n: int, factor: int) -> None:
    a = te.placeholder((n,), "int32", "A")
    r = te.reduce_axis(n, "r")
    total = te.compute((1,), lambda i: te.sum(a[r] + te.cast(i, "int32"), axis=r), name="S")

    def apply(s: Schedule) -> None:
        _, inner = s.split(s.loops("S")[1], factor)
        s.rfactor("S", inner)

    _check(total, apply)


def test_comparisons_are_numbers_only_where_asked() -> None:
    for n in (3, 8, 17):
        x = te.placeholder((n,), "float32", "x")
        y = te.compute((n,), lambda i: x[i] * te.cast(x[i] >= 0.0, "float32"), name="y")  # noqa: B023
        _check(y, lambda s: s.vectorize(s.split(s.loops("y")[0], 8)[1]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_in_vectors(dtype: str) -> None:
    a = te.placeholder((13,), dtype, "A")
    b = te.compute((13,), lambda i: te.maximum(a[i] * a[i] - a[i], a[12 - i]), name="B")
    _check(b, lambda s: s.vectorize(s.split(s.loops("B")[0], 4)[1]))
