"""Properties of the analyzer over random expressions, checked against an independent evaluator."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from lpx.arith.analyzer import Analyzer
from lpx.arith.simplify import simplify
from lpx.expr import traverse
from lpx.expr.nodes import Expr, Var
from tests.arith.evaluator import UndefinedError, Value, evaluate, same
from tests.arith.printing import text
from tests.arith.programs import WORLD, conditions, index_expressions, vectors

SAMPLES = 24
seeds = st.integers(0, 2**16)


def defined(expr: Expr, seed: int, count: int = SAMPLES) -> Iterator[tuple[dict[Var, int], Value]]:
    """Values of the variables with that of `expr`, where it has one (nothing is divided by zero)."""
    for values in WORLD.samples(random.Random(seed), count):
        try:
            yield values, evaluate(expr, values, exact=True)
        except UndefinedError:
            continue


def check_simplified(analyzer: Analyzer, expr: Expr, seed: int) -> None:
    settled = analyzer.simplify(expr)
    assert (settled.dtype, settled.lanes) == (expr.dtype, expr.lanes)
    for values, value in defined(expr, seed):
        assert same(evaluate(settled, values, exact=True), value), (text(expr), text(settled), values)
    again = analyzer.simplify(settled)
    assert again is settled, (text(expr), text(settled), text(again))
    fresh = Analyzer().simplify(settled)
    assert Analyzer().simplify(fresh) is fresh


@given(index_expressions(), seeds)
def test_simplify_keeps_index_values(expr: Expr, seed: int) -> None:
    check_simplified(WORLD.analyzer, expr, seed)


@given(conditions(), seeds)
def test_simplify_keeps_conditions(expr: Expr, seed: int) -> None:
    check_simplified(WORLD.analyzer, expr, seed)


@given(vectors(), seeds)
def test_simplify_keeps_vectors(expr: Expr, seed: int) -> None:
    check_simplified(WORLD.analyzer, expr, seed)


@given(index_expressions(), st.integers(-40, 40), st.integers(-40, 40), st.integers(-40, 40), st.integers(-40, 40))
def test_simplify_without_ranges(expr: Expr, a: int, b: int, c: int, d: int) -> None:
    settled = simplify(expr)
    numbers = (a, b, c, d, a + b, c - d, -a)
    values = dict(zip(sorted(traverse.free_vars(expr), key=lambda v: v.name), numbers, strict=False))
    try:
        value = evaluate(expr, values, exact=True)
    except UndefinedError:
        return
    assert evaluate(settled, values, exact=True) == value, (text(expr), text(settled), values)


@given(conditions(), seeds)
def test_what_is_proved_holds(cond: Expr, seed: int) -> None:
    proved, refuted = WORLD.analyzer.prove(cond), WORLD.analyzer.prove(~cond)
    for values, holds in defined(cond, seed, 2 * SAMPLES):
        assert not (proved and not holds), (text(cond), values)
        assert not (refuted and holds), (text(cond), values)


@given(conditions(4), conditions(4), seeds)
def test_what_is_proved_from_a_fact_holds(fact: Expr, cond: Expr, seed: int) -> None:
    proved = WORLD.analyzer.with_fact(fact).prove(cond)
    for values, holds in defined(cond & fact, seed, 2 * SAMPLES):
        fact_holds = evaluate(fact, values, exact=True)
        assert not (proved and fact_holds and not holds), (text(fact), text(cond), values)


@given(index_expressions(), seeds)
def test_bounds_hold(expr: Expr, seed: int) -> None:
    bounds = WORLD.analyzer.bounds(expr)
    for values, value in defined(expr, seed):
        assert bounds.contains(value), (text(expr), bounds, values, value)


@given(index_expressions(), st.sets(st.sampled_from("ijfks")), seeds)
def test_symbolic_bounds_hold(expr: Expr, names: set[str], seed: int) -> None:
    gone = [WORLD.variable(name) for name in sorted(names)]
    found = WORLD.analyzer.symbolic_bounds(expr, gone)
    if found is None:
        return
    low, high = found
    assert not any(v in traverse.free_vars(low) | traverse.free_vars(high) for v in gone)
    for values, value in defined(expr, seed):
        lowest, highest = evaluate(low, values, exact=True), evaluate(high, values, exact=True)
        assert lowest <= value <= highest, (text(expr), text(low), text(high), values)


@given(index_expressions(), seeds)
def test_affine_form_has_the_same_value(expr: Expr, seed: int) -> None:
    form = WORLD.analyzer.affine(expr)
    assert form is not None
    for values, value in defined(expr, seed):
        total = form.constant
        for term in form.terms:
            product = term.coefficient
            for atom in term.atoms:
                product *= evaluate(atom, values, exact=True)
            total += product
        assert total == value
