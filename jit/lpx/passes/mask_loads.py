"""Masks for what the sides of a `Select` read, so that both sides may be evaluated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from lpx.arith.analyzer import Analyzer
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Binary, Broadcast, Const, Expr, Load, Select
from lpx.ir import traverse
from lpx.ir.nodes import Function, Stmt
from lpx.passes import knowledge
from lpx.passes.masking import both, masked, may_fail, negated, safe_division
from lpx.records import record, replace


@record
class MaskLoads:
    """Mask loads, and guard integer divisions, that only the taken side of a `Select` may evaluate.

    before: `B[i] = select(i > 0, A[i - 1], 0)`
    after:  `B[i] = A[i - 1, mask=i > 0]`

    What is in bounds whatever the condition says, or is evaluated outside of the `Select` as well, stays as it is. A
    masked load gives 0 where it is off, so a `Select` of a load and 0 needs the mask alone.
    Afterwards both sides of every `Select` can be evaluated safely.
    """

    def __call__(self, function: Function) -> Function:
        if not any(isinstance(e, Select) for e in traverse.walk_expressions(function.body)):
            return function
        body = _visit(function.body, knowledge.at_entry(function))
        return function if body is function.body else replace(function, body=body)


def _visit(stmt: Stmt, analyzer: Analyzer) -> Stmt:
    return knowledge.visit_children(stmt, analyzer, _visit, lambda e: _masked(e, analyzer))


def _masked(expr: Expr, analyzer: Analyzer) -> Expr:
    if not any(isinstance(e, Select) for e in expr_traverse.walk(expr)):
        return expr
    risky: set[Expr] = set()
    for node in expr_traverse.walk(expr):
        if any(c in risky for c in expr_traverse.children(node)) or may_fail(node, analyzer):
            risky.add(node)
    if not risky:
        return expr
    return _Masking(analyzer, risky, _always_evaluated(expr)).visit(expr, None)


def _always_evaluated(expr: Expr) -> set[Expr]:
    """The nodes of `expr` that are evaluated whatever its conditions say."""
    found: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend((node.cond,) if isinstance(node, Select) else expr_traverse.children(node))
    return found


@dataclass(slots=True)
class _Masking:
    _analyzer: Analyzer
    _risky: set[Expr]
    _always: set[Expr]
    _memo: dict[tuple[Expr, Expr | None], Expr] = field(default_factory=dict[tuple[Expr, Expr | None], Expr])

    def visit(self, expr: Expr, mask: Expr | None) -> Expr:
        """`expr`, safe to evaluate although it is asked for only where `mask` is on (None: everywhere)."""
        if expr not in self._risky:
            return expr
        if expr in self._always:
            mask = None
        key = (expr, mask)
        if key not in self._memo:
            self._memo[key] = self._rewrite(expr, mask)
        return self._memo[key]

    def _rewrite(self, expr: Expr, mask: Expr | None) -> Expr:
        if isinstance(expr, Select):
            cond = self.visit(expr.cond, mask)
            sides = [self.visit(expr.a, both(mask, cond)), self.visit(expr.b, both(mask, negated(cond)))]
            if isinstance(sides[0], Load) and sides[0].mask is cond and _is_zero(sides[1]):
                return sides[0]
            return expr_traverse.rebuild(expr, [cond, *sides])
        rebuilt = expr_traverse.rebuild(expr, [self.visit(e, mask) for e in expr_traverse.children(expr)])
        if mask is None or not may_fail(rebuilt, self._analyzer):
            return rebuilt
        if isinstance(rebuilt, Load):
            return masked(rebuilt, mask)
        return safe_division(rebuilt, mask) if isinstance(rebuilt, Binary) else rebuilt


def _is_zero(expr: Expr) -> bool:
    """Whether `expr` is 0 to the bit, in every lane."""
    value = expr.value if isinstance(expr, Broadcast) else expr
    return isinstance(value, Const) and value.value == 0 and math.copysign(1, value.value) > 0
