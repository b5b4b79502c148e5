"""Simplification without knowledge of variables."""

from __future__ import annotations

from lpx.arith.analyzer import Analyzer
from lpx.expr.nodes import Expr


def simplify(expr: Expr) -> Expr:
    """An equal expression that is cheaper to compute; the same object when there is nothing to gain."""
    return Analyzer().simplify(expr)
