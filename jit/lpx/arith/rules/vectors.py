"""Rules for vectors: operations on broadcasts are done once, evenly spaced lanes stay a `Ramp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx.arith.decide import lane_ends
from lpx.dtypes import index
from lpx.expr import build, nodes, traverse
from lpx.expr.nodes import Binary, Broadcast, Const, Expr, Ramp

if TYPE_CHECKING:
    from lpx.arith.context import Context

_LANEWISE = (nodes.Unary, nodes.Binary, nodes.Compare, nodes.Select, nodes.Cast, nodes.Bitcast, nodes.Lookup)


def rewrite(ctx: Context, node: Expr) -> Expr | None:
    """`node` with its vectors made simpler, or None."""
    match node:
        case Ramp(base=base, stride=Const(value=0), lanes=lanes):
            return build.broadcast(base, lanes)
        case nodes.Shuffle():
            return _shuffle(node)
        case nodes.HorizontalReduce(op="min" | "max" | "bitand" | "bitor", value=Broadcast(value=value)):
            return value
        case Binary(op=op, a=Ramp() | Broadcast() as a, b=Ramp() | Broadcast() as b) if node.dtype.is_integer:
            lifted = _lift(node)
            return _ramps(ctx, op, a, b) if lifted is None else lifted
        case nodes.Unary(op="neg", a=Ramp(base=base, stride=stride, lanes=lanes)) if node.dtype.is_integer:
            return build.ramp(-base, -stride, lanes)
        case nodes.Cast(dtype=dtype, value=Ramp() as ramp) if dtype.is_integer and dtype.bits <= ramp.dtype.bits:
            return build.ramp(build.cast(ramp.base, dtype), build.cast(ramp.stride, dtype), ramp.lanes)
        case _:
            return _lift(node)


def _lift(node: Expr) -> Expr | None:
    """An operation all of whose operands are broadcasts, as the broadcast of a scalar operation."""
    if node.lanes == 1 or not _is_lanewise(node):
        return None
    scalars: list[Expr] = []
    for operand in traverse.children(node):
        if not isinstance(operand, Broadcast):
            return None
        scalars.append(operand.value)
    return build.broadcast(traverse.rebuild(node, scalars), node.lanes) if scalars else None


def _is_lanewise(node: Expr) -> bool:
    if isinstance(node, nodes.Call):
        return node.op.kind in ("math", "primitive", "foreign")
    return isinstance(node, _LANEWISE)


def _shuffle(node: nodes.Shuffle) -> Expr | None:
    if len(node.vectors) == 1 and node.indices == tuple(range(node.vectors[0].lanes)):
        return node.vectors[0]
    picked: list[Expr] = []
    for lane in node.indices:
        scalar = _lane(node.vectors, lane)
        if scalar is None:
            return None
        picked.append(scalar)
    if all(scalar is picked[0] for scalar in picked):
        return build.broadcast(picked[0], node.lanes)
    return None


def _lane(vectors: tuple[Expr, ...], lane: int) -> Expr | None:
    """The scalar in one lane of a concatenation, where it is known without a vector operation."""
    for vector in vectors:
        if lane < vector.lanes:
            break
        lane -= vector.lanes
    else:
        return None
    match vector:
        case Broadcast(value=value):
            return value
        case Ramp(base=base, stride=stride) if vector.dtype.is_integer:
            return base + stride * lane
        case _:
            return vector if vector.lanes == 1 else None


def _ramps(ctx: Context, op: nodes.BinaryOp, a: Ramp | Broadcast, b: Ramp | Broadcast) -> Expr | None:
    match op:
        case "add" | "sub":
            return build.ramp(build.binary(op, _base(a), _base(b)), build.binary(op, _stride(a), _stride(b)), a.lanes)
        case "mul" if isinstance(a, Broadcast) or isinstance(b, Broadcast):
            factor = _base(a) if isinstance(a, Broadcast) else _base(b)
            ramp = b if isinstance(a, Broadcast) else a
            return build.ramp(_base(ramp) * factor, _stride(ramp) * factor, a.lanes)
        case "shl" if isinstance(b, Broadcast):
            return build.ramp(_base(a) << b.value, _stride(a) << b.value, a.lanes)
        case "floordiv" | "floormod" if isinstance(a, Ramp) and isinstance(b, Broadcast) and a.dtype == index:
            return _divided(ctx, op, a, b.value)
        case "min" | "max" if a.dtype == index:
            return _extremum(ctx, op, a, b)
        case _:
            return None


def _base(vector: Ramp | Broadcast) -> Expr:
    return vector.base if isinstance(vector, Ramp) else vector.value


def _stride(vector: Ramp | Broadcast) -> Expr:
    return vector.stride if isinstance(vector, Ramp) else build.const(0, vector.dtype)


def _divided(ctx: Context, op: nodes.BinaryOp, ramp: Ramp, divisor: Expr) -> Expr | None:
    """A stride that the divisor divides keeps the lanes even; so does a ramp that stays within one quotient."""
    base, stride, by = ctx.polynomial(ramp.base), ctx.polynomial(ramp.stride), ctx.polynomial(divisor)
    if by.is_zero or not (ctx.is_exact(base) and ctx.is_exact(stride) and ctx.is_exact(by)):
        return None
    emit = ctx.table.emit
    if ctx.is_positive(by):
        step, left = ctx.divide(stride, by)
        if left.is_zero:
            if op == "floormod":
                return build.broadcast(ramp.base % divisor, ramp.lanes)
            return build.ramp(ramp.base // divisor, emit(step), ramp.lanes)
        _, first = ctx.divide(base, by)
        last = first + stride.scaled(ramp.lanes - 1)
        if ctx.is_non_negative(last) and ctx.is_positive(by - last):
            if op == "floormod":
                return build.ramp(ramp.base % divisor, ramp.stride, ramp.lanes)
            return build.broadcast(ramp.base // divisor, ramp.lanes)
    return None


def _extremum(ctx: Context, op: nodes.BinaryOp, a: Expr, b: Expr) -> Expr | None:
    """One operand, where it is the smaller (larger) in the first and last lane and so in all between."""
    left, right = lane_ends(ctx, a), lane_ends(ctx, b)
    if left is None or right is None:
        return None
    differences = [y - x for x, y in zip(left, right, strict=True)]
    if all(ctx.is_non_negative(d) for d in differences):
        return a if op == "min" else b
    if all(ctx.is_non_negative(d.scaled(-1)) for d in differences):
        return b if op == "min" else a
    return None
