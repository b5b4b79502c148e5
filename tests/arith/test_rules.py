"""Every rule of every table: the replacement equals the pattern wherever its side condition holds."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from lpx import dtypes
from lpx.arith.interner import Interner
from lpx.arith.rules import matching
from lpx.arith.rules.rule import CONSTANTS, Family, Rule
from lpx.arith.simplify import simplify
from lpx.dtypes import DType
from lpx.errors import DTypeError
from lpx.expr import build, nodes, traverse
from lpx.expr.nodes import Const, Expr, Var
from tests.arith.evaluator import UndefinedError, evaluate, same
from tests.arith.printing import text

INTEGERS = (dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.int64, dtypes.uint64)
FLOATS = (dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.float64)
DTYPES = {"integer": INTEGERS, "float": FLOATS, "bool": (dtypes.bool_,), "any": (*INTEGERS[:3], *FLOATS[:2])}
SPECIAL_FLOATS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 4.0, 3.0, -1.5, np.inf, -np.inf, np.nan, 1e30, -1e-30, 5.0)
SAMPLES = 12
INSTANCES = 4


def _rules() -> Iterator[tuple[Family, Rule]]:
    return ((family, rule) for family in matching.FAMILIES for rule in family.rules)


def sample(dtype: DType, rng: random.Random) -> int | float:
    """A value of the dtype, biased to its edges."""
    if dtype.is_bool:
        return rng.randrange(2)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return float(dtype.to_numpy().type(rng.choice((*SPECIAL_FLOATS, rng.uniform(-8, 8)))))
    edges = (dtype.min_value, dtype.max_value, 0, 1, dtype.wrap(-1), 2, 3)
    return rng.choice((*edges, dtype.wrap(rng.randrange(-9, 9)), rng.randint(dtype.min_value, dtype.max_value)))


def retyped(pattern: Expr, dtype: DType, leaves: dict[Var, Expr]) -> Expr:
    """The pattern with literals and variables of another dtype."""

    def visit(node: Expr) -> Expr | None:
        if node.dtype.is_bool and not isinstance(node, nodes.Var):
            return None
        if isinstance(node, Const):
            return build.const(float(node.value) if dtype.is_float else int(node.value), dtype)
        return leaves[node] if isinstance(node, Var) else None

    done: dict[Expr, Expr] = {}
    for node in traverse.walk(pattern):
        operands = [done[c] for c in traverse.children(node)]
        made = build.cast(operands[0], dtype) if isinstance(node, nodes.Cast) else traverse.rebuild(node, operands)
        replaced = visit(made)
        done[node] = made if replaced is None else replaced
    return done[pattern]


def _instances(family: Family, rule: Rule, rng: random.Random) -> Iterator[tuple[Expr, list[Var]]]:
    """The pattern over fresh variables, with random constants, in every dtype of the family that takes its literals."""
    for dtype in DTYPES[family.domain]:
        for _ in range(INSTANCES):
            variables: list[Var] = []
            leaves: dict[Var, Expr] = {}
            for variable in traverse.free_vars(rule.pattern):
                if variable in CONSTANTS:
                    leaves[variable] = build.const(sample(dtype, rng), dtype)
                else:
                    kind = dtype
                    if variable.dtype.is_bool or (family.domain == "bool" and not variable.dtype.is_bool):
                        kind = dtypes.bool_ if variable.dtype.is_bool else variable.dtype
                    leaf = build.var(variable.name, kind)
                    leaves[variable] = leaf
                    variables.append(leaf)
            try:
                for order in matching.orders(rule.pattern):
                    yield retyped(order, _operand_dtype(family, rule, dtype), leaves), variables
            except DTypeError:
                continue


def _operand_dtype(family: Family, rule: Rule, dtype: DType) -> DType:
    """In rules of bools over comparisons, the literals and variables inside are numbers."""
    numbers = [v for v in traverse.free_vars(rule.pattern) if not v.dtype.is_bool]
    return numbers[0].dtype if family.domain == "bool" and numbers else dtype


@pytest.mark.parametrize(("family", "rule"), [pytest.param(f, r, id=text(r.pattern)) for f, r in _rules()])
def test_rule_preserves_the_value(family: Family, rule: Rule) -> None:
    rng = random.Random(text(rule.pattern))
    applied = compared = 0
    for instance, variables in _instances(family, rule, rng):
        result = matching.rewrite(instance, Interner().number)
        if result is None:
            continue
        applied += 1
        assert result.dtype == instance.dtype
        assert result.lanes == instance.lanes
        settled = simplify(instance)
        assert simplify(settled) is settled
        for _ in range(SAMPLES):
            values = {v: _value(v.dtype, rng) for v in variables}
            try:
                before = evaluate(instance, values)
            except UndefinedError:
                continue
            compared += 1
            assert same(before, evaluate(result, values)), (text(instance), text(result), values)
            assert same(before, evaluate(settled, values)) or _may_wrap(instance), (text(instance), text(settled))
    assert applied, "no instance of the pattern was rewritten"
    assert compared


def _value(dtype: DType, rng: random.Random) -> object:
    drawn = sample(dtype, rng)
    return dtype.to_numpy().type(drawn) if dtype.is_float else int(drawn)


def _may_wrap(instance: Expr) -> bool:
    """int64 arithmetic over variables is taken as exact by the simplifier, but not by the rules alone."""
    return any(e.dtype == dtypes.index for e in traverse.walk(instance))
