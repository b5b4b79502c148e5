"""Folding of one node whose operands are folded already: what substitution makes trivial.

Substituting a constant or a vector of lanes for a loop variable leaves `0 * 14 + 3` and `broadcast(x) + ramp(0, 1, 8)`
behind. Folding on the spot keeps copies small; everything that needs a proof is `lpx.arith`'s.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from lpx import dtypes
from lpx.expr import build, nodes
from lpx.expr.nodes import Binary, Broadcast, Const, Expr, Ramp

_INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": int.__add__,
    "sub": int.__sub__,
    "mul": int.__mul__,
    "min": min,
    "max": max,
    "bitand": int.__and__,
    "bitor": int.__or__,
    "bitxor": int.__xor__,
}
_DIVISION: dict[str, Callable[[int, int], int]] = {"floordiv": int.__floordiv__, "floormod": int.__mod__}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
}
TRUE = Const(dtypes.bool_, 1, True)
FALSE = Const(dtypes.bool_, 1, False)


def fold(expr: Expr) -> Expr:
    """An equal expression, simpler where the node's own operands show it; `expr` itself elsewhere."""
    match expr:
        case Binary():
            return _fold_binary(expr)
        case nodes.Compare(op=op, a=Const(value=x), b=Const(value=y)):
            return TRUE if _COMPARE[op](x, y) else FALSE
        case nodes.Compare(op=op, a=Broadcast(value=x), b=Broadcast(value=y)):
            return build.broadcast(fold(build.compare(op, x, y)), expr.lanes)
        case nodes.Unary(op="not", a=Const(value=value)) if expr.dtype.is_bool:
            return FALSE if value else TRUE
        case nodes.Unary(op="not", a=nodes.Compare(op=op, a=a, b=b)) if a.dtype.is_integer:
            return _opposite(op, a, b)
        case nodes.Select(cond=Const(value=value) | Broadcast(value=Const(value=value)), a=a, b=b):
            return a if value else b
        case nodes.Cast(value=Const(value=value)) if expr.dtype.is_integer and expr.value.dtype.is_integer:
            return Const(expr.dtype, 1, expr.dtype.wrap(int(value)))
        case nodes.Cast(value=Broadcast(value=value)):
            return build.broadcast(build.cast(value, expr.dtype), expr.lanes)
        case _:
            return expr


def _opposite(op: nodes.CompareOp, a: Expr, b: Expr) -> Expr:
    """not (a op b), of integers."""
    match op:
        case "eq":
            return build.compare("ne", a, b)
        case "ne":
            return build.compare("eq", a, b)
        case "lt":
            return build.compare("le", b, a)
        case "le":
            return build.compare("lt", b, a)


def conjuncts(cond: Expr) -> list[Expr]:
    """The conditions that `cond` joins by `and`, in order."""
    if isinstance(cond, Binary) and cond.op == "bitand" and cond.dtype.is_bool:
        return [*conjuncts(cond.a), *conjuncts(cond.b)]
    return [] if is_true(cond) else [cond]


def conjunction(conds: list[Expr]) -> Expr | None:
    """All of `conds` joined by `and`; None for an empty list."""
    joined: Expr | None = None
    for cond in conds:
        joined = cond if joined is None else build.binary("bitand", joined, cond)
    return joined


def is_true(expr: Expr) -> bool:
    """Whether `expr` is the constant true, in every lane."""
    value = expr.value if isinstance(expr, Broadcast) else expr
    return isinstance(value, Const) and value.dtype.is_bool and value.value == 1


def is_false(expr: Expr) -> bool:
    """Whether `expr` is the constant false, in every lane."""
    value = expr.value if isinstance(expr, Broadcast) else expr
    return isinstance(value, Const) and value.dtype.is_bool and value.value == 0


def constant(expr: Expr) -> int | None:
    """The value of an integer constant, None for any other expression."""
    return int(expr.value) if isinstance(expr, Const) and expr.dtype.is_integer else None


def _fold_binary(expr: Binary) -> Expr:
    a, b = expr.a, expr.b
    if isinstance(a, Broadcast) and isinstance(b, Broadcast):
        return build.broadcast(fold(build.binary(expr.op, a.value, b.value)), expr.lanes)
    if expr.dtype.is_bool:
        return _fold_logic(expr)
    if not expr.dtype.is_integer:
        return expr
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold_constants(expr, int(a.value), int(b.value))
    if expr.lanes > 1:
        return _fold_ramps(expr)
    return _fold_identity(expr)


def _fold_logic(expr: Binary) -> Expr:
    a, b = expr.a, expr.b
    if expr.op == "bitand":
        if is_true(a) or is_false(b):
            return b
        if is_true(b) or is_false(a):
            return a
    if expr.op == "bitor":
        if is_false(a) or is_true(b):
            return b
        if is_false(b) or is_true(a):
            return a
    return expr


def _fold_constants(expr: Binary, x: int, y: int) -> Expr:
    if expr.op in _INTEGER:
        return Const(expr.dtype, 1, expr.dtype.wrap(_INTEGER[expr.op](x, y)))
    if expr.op in _DIVISION and y != 0:
        return Const(expr.dtype, 1, expr.dtype.wrap(_DIVISION[expr.op](x, y)))
    return expr


def _fold_identity(expr: Binary) -> Expr:
    a, b, op = expr.a, expr.b, expr.op
    left, right = constant(a), constant(b)
    if op in ("add", "sub"):
        return _fold_sum(expr, left, right)
    if op == "mul":
        if left == 1:
            return b
        if right == 1:
            return a
        if (left == 0 and _cannot_fail(b)) or (right == 0 and _cannot_fail(a)):
            return Const(expr.dtype, 1, 0)
        if right is not None and expr.dtype == dtypes.index:
            return _fold_product(expr, right)
    if op == "floordiv" and right == 1:
        return a
    return expr


def _fold_sum(expr: Binary, left: int | None, right: int | None) -> Expr:
    """Zeros go; constants of index arithmetic move outwards, where they join: `(x + 3) + (y - 1)` is `(x + y) + 2`."""
    if right == 0:
        return expr.a
    if left == 0 and expr.op == "add":
        return expr.b
    if expr.dtype != dtypes.index:
        return expr
    x, first = _split_constant(expr.a)
    y, second = _split_constant(expr.b)
    if x is expr.a and (y is expr.b or isinstance(expr.b, Const)):
        return expr
    if expr.op == "sub":
        second = -second
    if y is None or x is None:
        term = x if y is None else y
        if term is None or (x is None and expr.op == "sub"):
            return expr
        return _plus_constant(term, first + second)
    return _plus_constant(fold(build.binary(expr.op, x, y)), first + second)


def _split_constant(expr: Expr) -> tuple[Expr | None, int]:
    """(term, constant) of a sum; no term for a constant."""
    match expr:
        case Const(value=value):
            return None, int(value)
        case Binary(op="add", a=a, b=Const(value=value)):
            return a, int(value)
        case Binary(op="sub", a=a, b=Const(value=value)):
            return a, -int(value)
        case _:
            return expr, 0


def _plus_constant(term: Expr, value: int) -> Expr:
    if value == 0:
        return term
    return build.binary("add" if value > 0 else "sub", term, Const(term.dtype, 1, abs(value)))


def _fold_product(expr: Binary, factor: int) -> Expr:
    """`(x * 2) * 3` is `x * 6`, and `(x + 2) * 3` is `x * 3 + 6`."""
    if isinstance(expr.a, Binary) and expr.a.op == "mul" and isinstance(expr.a.b, Const):
        return build.binary("mul", expr.a.a, Const(expr.dtype, 1, expr.dtype.wrap(int(expr.a.b.value) * factor)))
    term, offset = _split_constant(expr.a)
    if term is None or offset == 0:
        return expr
    return _plus_constant(fold(build.binary("mul", term, expr.b)), offset * factor)


def _cannot_fail(expr: Expr) -> bool:
    match expr:
        case nodes.Var() | Const():
            return True
        case Binary(op="add" | "sub" | "mul", a=a, b=b):
            return _cannot_fail(a) and _cannot_fail(b)
        case _:
            return False


def _fold_ramps(expr: Binary) -> Expr:
    neutral = {"add": 0, "sub": 0, "mul": 1, "floordiv": 1}.get(expr.op)
    if neutral is not None and isinstance(expr.b, Broadcast) and constant(expr.b.value) == neutral:
        return expr.a
    if neutral is not None and isinstance(expr.a, Broadcast) and constant(expr.a.value) == neutral:
        return expr.b if expr.op in ("add", "mul") else expr
    a, b = line(expr.a), line(expr.b)
    if a is None or b is None:
        return expr
    if expr.op in ("add", "sub"):
        return _ramp(_apply(expr, a[0], b[0]), _apply(expr, a[1], b[1]), expr.lanes)
    if expr.op == "mul" and isinstance(expr.b, Broadcast):
        return _ramp(_apply(expr, a[0], expr.b.value), _apply(expr, a[1], expr.b.value), expr.lanes)
    if expr.op == "mul" and isinstance(expr.a, Broadcast):
        return _ramp(_apply(expr, expr.a.value, b[0]), _apply(expr, expr.a.value, b[1]), expr.lanes)
    return expr


def line(expr: Expr) -> tuple[Expr, Expr] | None:
    """(base, stride) of a vector that is a ramp or a broadcast; None for other vectors."""
    match expr:
        case Ramp(base=base, stride=stride):
            return base, stride
        case Broadcast(value=value):
            return value, Const(value.dtype, 1, 0)
        case _:
            return None


def _apply(expr: Binary, a: Expr, b: Expr) -> Expr:
    if expr.op == "mul" and 0 in (constant(a), constant(b)):
        return Const(expr.dtype, 1, 0)
    return fold(build.binary(expr.op, a, b))


def _ramp(base: Expr, stride: Expr, lanes: int) -> Expr:
    return build.broadcast(base, lanes) if constant(stride) == 0 else build.ramp(base, stride, lanes)
