"""Where along one variable a condition certainly holds."""

from __future__ import annotations

from collections.abc import Iterable

from lpx.arith.analyzer import Analyzer
from lpx.dtypes import index
from lpx.expr import build, nodes
from lpx.expr.nodes import Expr, Var
from lpx.records import record


@record
class CertainRange:
    """A condition holds wherever low <= var < high; None means that side is unbounded."""

    low: Expr | None
    high: Expr | None


def certain_range(cond: Expr, var: Var, inner: Iterable[Var], analyzer: Analyzer) -> CertainRange | None:
    """The values of `var` at which `cond` holds for all values of the `inner` variables within their ranges.

    `cond` is a comparison of scalar index expressions that is affine in `var`, with a constant coefficient once terms
    are collected, or a conjunction of such. Example: io*32 + ii < n for ii in [0, 32) certainly holds for
    io < n // 32. None when the condition is not of that kind, or `inner` cannot be eliminated.
    """
    gone = tuple(inner)
    parts = [_one_range(part, var, gone, analyzer) for part in conjuncts(cond)]
    total = CertainRange(None, None)
    for part in parts:
        if part is None:
            return None
        total = CertainRange(_tightest("max", total.low, part.low), _tightest("min", total.high, part.high))
    return CertainRange(
        None if total.low is None else analyzer.simplify(total.low),
        None if total.high is None else analyzer.simplify(total.high),
    )


def conjuncts(cond: Expr) -> list[Expr]:
    """The conditions that `cond` joins with `&`, in order."""
    stack, found = [cond], list[Expr]()
    while stack:
        match stack.pop():
            case nodes.Binary(op="bitand", a=a, b=b):
                stack.extend((b, a))
            case other:
                found.append(other)
    return found


def _one_range(cond: Expr, var: Var, inner: tuple[Var, ...], analyzer: Analyzer) -> CertainRange | None:
    everywhere = CertainRange(None, None)
    if analyzer.prove(cond):
        return everywhere
    slack = _slack(cond)
    lowest = None if slack is None else analyzer.lower_bound(slack, inner)
    form = None if lowest is None else analyzer.affine(lowest)
    coefficient = None if form is None else form.coefficient(var)
    if lowest is None or coefficient is None:
        return None
    rest = lowest - var * coefficient
    if coefficient < 0:
        return CertainRange(None, rest // -coefficient + 1)
    if coefficient > 0:
        return CertainRange(-(rest // coefficient), None)  # the ceiling of -rest / coefficient
    return everywhere if analyzer.prove(rest >= 0) else None


def _slack(cond: Expr) -> Expr | None:
    """The index expression that is >= 0 where the comparison holds; None for other conditions."""
    match cond:
        case nodes.Compare(op="lt", a=a, b=b) if a.lanes == 1 and a.dtype == index:
            return b - a - 1
        case nodes.Compare(op="le", a=a, b=b) if a.lanes == 1 and a.dtype == index:
            return b - a
        case _:
            return None


def _tightest(op: nodes.BinaryOp, a: Expr | None, b: Expr | None) -> Expr | None:
    if a is None or b is None:
        return b if a is None else a
    return build.binary(op, a, b)
