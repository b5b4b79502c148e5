"""Vector indices whose lanes are evenly spaced, written as the ramps they are."""

from __future__ import annotations

from lpx import dtypes
from lpx.arith.analyzer import Analyzer
from lpx.expr import build, traverse
from lpx.expr.nodes import Binary, Broadcast, Const, Expr, Load, Ramp, Shuffle, Var


def as_ramp(index: Expr) -> Expr:
    """`index` as a ramp where its lanes divide their number into several axes that lie one after another in memory.

    before: `x + ramp(0, 1, 64) // 4 * 4 + ramp(0, 1, 64) % 4`
    after:  `ramp(x, 1, 64)`

    Any other index stays as it is.
    """
    if index.lanes == 1 or not any(_divides_lanes(e) for e in traverse.walk(index)):
        return index
    lane = build.var("lane", index.dtype)
    scalar = one_lane(index, lane)
    if scalar is None:
        return index
    analyzer = Analyzer().with_range(lane, 0, index.lanes)
    first = analyzer.simplify(traverse.substitute(scalar, {lane: build.const(0)}))
    step = analyzer.simplify(scalar - first)
    if step is lane:
        return build.ramp(first, 1, index.lanes)
    match step:
        case Binary(op="mul", a=a, b=Const() as factor) if a is lane:
            return build.ramp(first, factor, index.lanes)
        case _:
            return index


def _divides_lanes(expr: Expr) -> bool:
    return isinstance(expr, Binary) and expr.op in ("floordiv", "floormod") and expr.lanes > 1


def one_lane(index: Expr, lane: Var) -> Expr | None:
    """A vector index as a scalar expression of the number of the lane; None where it is not arithmetic of ramps."""

    def visit(node: Expr) -> Expr | None:
        match node:
            case Ramp(base=base, stride=stride):
                return base + stride * lane
            case Broadcast(value=value):
                return value
            case _:
                return None

    if index.dtype != dtypes.index or any(isinstance(e, Shuffle | Load) for e in traverse.walk(index)):
        return None
    return traverse.transform(index, visit)
