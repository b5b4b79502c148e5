"""Making expressions safe where a condition is off: no load touches memory, no integer division divides by zero."""

from __future__ import annotations

from lpx.arith.analyzer import Analyzer
from lpx.expr import build, nodes
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Expr, Load
from lpx.passes.folding import fold, is_true
from lpx.records import replace

DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")


def guard(expr: Expr, mask: Expr, analyzer: Analyzer) -> Expr:
    """`expr`, reading memory out of bounds and dividing by zero at most in lanes where `mask` is on.

    The value in lanes that are off is arbitrary. `mask` has one lane or as many as `expr`'s vectors; a scalar part of
    `expr` is evaluated where any lane is on. What `analyzer` proves to be harmless stays as it is.
    """

    def on_node(node: Expr) -> Expr | None:
        match node:
            case Load() if not is_in_bounds(node, analyzer):
                return masked(node, mask)
            case nodes.Binary() if may_fail(node, analyzer):
                return safe_division(node, mask)
            case _:
                return None

    return expr_traverse.transform(expr, on_node)


def may_fail(expr: Expr, analyzer: Analyzer) -> bool:
    """Whether evaluating the node itself, its operands aside, may read out of bounds or divide by zero."""
    match expr:
        case Load():
            return not is_in_bounds(expr, analyzer)
        case nodes.Binary(op=op, b=b) if op in DIVISIONS:
            divisor = b.value if isinstance(b, nodes.Broadcast) else b
            if isinstance(divisor, nodes.Const):
                return divisor.value == 0
            return not analyzer.prove(build.compare("ne", b, build.broadcast(build.const(0, b.dtype), b.lanes)))
        case _:
            return False


def is_in_bounds(load: Load, analyzer: Analyzer) -> bool:
    """Whether all lanes of the load are proved to be inside the buffer."""
    for index, extent in zip(load.indices, load.buffer.shape, strict=True):
        if index.dtype != extent.dtype:
            return False
        zero = build.broadcast(build.const(0, index.dtype), index.lanes)
        end = build.broadcast(extent, index.lanes)
        if not analyzer.prove(build.compare("le", zero, index)) or not analyzer.prove(build.compare("lt", index, end)):
            return False
    return True


def safe_division(expr: nodes.Binary, mask: Expr) -> Expr:
    """The integer division with a divisor of 1 where `mask` is off."""
    divisor = build.select(aligned(mask, expr.lanes), expr.b, build.const(1, expr.b.dtype))
    return build.binary(expr.op, expr.a, divisor)


def masked(load: Load, mask: Expr) -> Load:
    """The load with `mask` on top of the mask it has."""
    return replace(load, mask=both(load.mask, aligned(mask, load.lanes)))


def aligned(mask: Expr, lanes: int) -> Expr:
    """`mask` for a value of `lanes` lanes: repeated in every lane, or whether any lane is on for a scalar."""
    if mask.lanes == lanes:
        return mask
    return build.broadcast(mask, lanes) if mask.lanes == 1 else build.horizontal_reduce("bitor", mask)


def both(a: Expr | None, b: Expr | None) -> Expr | None:
    """The mask that is on where both are; None is on everywhere."""
    if a is None or is_true(a):
        return b
    if b is None or is_true(b):
        return a
    lanes = max(a.lanes, b.lanes)
    return fold(build.binary("bitand", build.broadcast(a, lanes), build.broadcast(b, lanes)))


def negated(mask: Expr) -> Expr:
    """The mask that is on where `mask` is off."""
    return fold(build.unary("not", mask))
