"""Interval arithmetic contains every result."""

from __future__ import annotations

import random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpx.arith import interval
from lpx.arith.interval import UNBOUNDED, Interval, apply, point
from lpx.dtypes import index
from lpx.expr import build
from lpx.expr.nodes import BinaryOp
from tests.arith.evaluator import UndefinedError, evaluate

OPS: tuple[BinaryOp, ...] = tuple(op for op in get_args(BinaryOp) if op != "div")
ends = st.one_of(st.none(), st.integers(-12, 12))
FAR = 40


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    lo, hi = draw(ends), draw(ends)
    return Interval(hi, lo) if lo is not None and hi is not None and lo > hi else Interval(lo, hi)


def members(a: Interval, rng: random.Random) -> list[int]:
    lo = -FAR if a.lo is None else a.lo
    hi = FAR if a.hi is None else a.hi
    return [lo, hi, *(rng.randint(min(lo, hi), max(lo, hi)) for _ in range(6))]


@pytest.mark.parametrize("op", OPS)
@given(a=intervals(), b=intervals(), seed=st.integers(0, 999))
def test_result_is_contained(op: BinaryOp, a: Interval, b: Interval, seed: int) -> None:
    result = apply(op, a, b)
    rng = random.Random(seed)
    x, y = build.var("x"), build.var("y")
    for left in members(a, rng):
        for right in members(b, rng):
            try:
                value = evaluate(build.binary(op, x, y), {x: left, y: right}, exact=True)
            except UndefinedError:
                continue
            assert result.contains(value), (op, a, b, left, right, value, result)


@pytest.mark.parametrize(
    ("op", "a", "b", "want"),
    [
        ("add", Interval(0, None), point(3), Interval(3, None)),
        ("sub", Interval(0, 7), Interval(0, 7), Interval(-7, 7)),
        ("mul", Interval(-3, 5), Interval(-2, 4), Interval(-12, 20)),
        ("mul", Interval(1, None), Interval(None, -2), Interval(None, -2)),
        ("floordiv", Interval(-5, 5), point(2), Interval(-3, 2)),
        ("floordiv", Interval(0, None), Interval(1, None), Interval(0, None)),
        ("truncdiv", Interval(-5, 5), point(2), Interval(-2, 2)),
        ("floormod", UNBOUNDED, point(8), Interval(0, 7)),
        ("floormod", Interval(17, 19), point(8), Interval(1, 3)),
        ("floormod", UNBOUNDED, point(-8), Interval(-7, 0)),
        ("truncmod", Interval(-3, None), point(8), Interval(-7, 7)),
        ("min", Interval(0, None), point(5), Interval(0, 5)),
        ("max", Interval(None, 9), point(5), Interval(5, 9)),
        ("bitand", UNBOUNDED, point(15), Interval(0, 15)),
        ("shl", Interval(1, 3), point(4), Interval(16, 48)),
        ("shr", Interval(-5, 40), point(3), Interval(-1, 5)),
    ],
)
def test_result_is_tight(op: BinaryOp, a: Interval, b: Interval, want: Interval) -> None:
    assert apply(op, a, b) == want


def test_meet_join_and_emptiness() -> None:
    assert Interval(0, None).meet(Interval(None, 5)) == Interval(0, 5)
    assert Interval(0, 1).join(Interval(4, None)) == Interval(0, None)
    assert Interval(3, 2).is_empty
    assert not UNBOUNDED.is_empty
    assert interval.BOOLEAN.within(0, 1)
    assert not UNBOUNDED.within(index.min_value, index.max_value)
