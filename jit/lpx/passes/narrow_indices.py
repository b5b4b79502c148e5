"""Vectors of indices in 32 bits, where their values are proved to fit.

Scalar indices stay as wide as addresses are. In a vector, 64-bit lanes take twice the registers, and halve what one
gather or one comparison does.
"""

from __future__ import annotations

from collections.abc import Sequence

from lpx import dtypes
from lpx.arith.analyzer import Analyzer
from lpx.expr import build, nodes
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Broadcast, Compare, Expr, Load, Ramp
from lpx.ir import traverse
from lpx.ir.nodes import AtomicUpdate, Function, Stmt, Store
from lpx.passes import knowledge
from lpx.passes.folding import constant, fold, line
from lpx.records import record, replace

_NARROW = dtypes.int32
_ARITHMETIC = ("add", "sub", "mul", "min", "max", "floordiv", "floormod", "truncdiv", "truncmod")


@record
class NarrowIndices:
    """Compute gathered indices in int32 where every step fits, and masks of consecutive lanes in int32 always.

    before: `ramp(x, 1, 8) < broadcast(n, 8)`, `A[ramp(0, 3, 8) % broadcast(7, 8)]`
    after:  `ramp(0i32, 1i32, 8) < broadcast(int32(min(max(n - x, 0), 8)), 8)`, `A[ramp(0i32, 3i32, 8) % ..]`
    """

    def __call__(self, function: Function) -> Function:
        if all(e.lanes == 1 for e in traverse.walk_expressions(function.body)):
            return function
        body = _visit(function.body, knowledge.at_entry(function))
        return function if body is function.body else replace(function, body=body)


def _visit(stmt: Stmt, analyzer: Analyzer) -> Stmt:
    memo: dict[Expr, Expr] = {}

    def on_node(expr: Expr) -> Expr | None:
        match expr:
            case Load(indices=indices) if expr.lanes > 1:
                return expr_traverse.rebuild(expr, [*_narrowed(indices, analyzer), *_mask_of(expr)])
            case Compare(lanes=lanes) if lanes > 1 and expr.a.dtype == dtypes.index:
                return lane_mask(expr)
            case _:
                return None

    visited = knowledge.visit_children(stmt, analyzer, _visit, lambda e: expr_traverse.transform(e, on_node, memo))
    if isinstance(visited, Store | AtomicUpdate):
        narrowed = tuple(_narrowed(visited.indices, analyzer))
        same = all(a is b for a, b in zip(narrowed, visited.indices, strict=True))
        return visited if same else replace(visited, indices=narrowed)
    return visited


def _mask_of(load: Load) -> tuple[Expr, ...]:
    return () if load.mask is None else (load.mask,)


def _narrowed(indices: Sequence[Expr], analyzer: Analyzer) -> list[Expr]:
    narrow = (None if i.lanes == 1 or line(i) is not None else _narrow(i, analyzer) for i in indices)
    return [index if new is None else new for index, new in zip(indices, narrow, strict=True)]


def _narrow(expr: Expr, analyzer: Analyzer) -> Expr | None:
    """A vector of indices computed in 32 bits; None when a step might not fit, or has no narrow form."""
    if expr.dtype != dtypes.index or not analyzer.bounds(expr).within(_NARROW.min_value, _NARROW.max_value):
        return None
    match expr:
        case Broadcast(value=value):
            return build.broadcast(fold(build.cast(value, _NARROW)), expr.lanes)
        case Ramp(base=base, stride=stride):
            if not all(analyzer.bounds(e).within(_NARROW.min_value, _NARROW.max_value) for e in (base, stride)):
                return None
            first, step = (fold(build.cast(e, _NARROW)) for e in (base, stride))
            return build.ramp(first, step, expr.lanes)
        case nodes.Binary(op=op, a=a, b=b) if op in _ARITHMETIC:
            x, y = _narrow(a, analyzer), _narrow(b, analyzer)
            return None if x is None or y is None else build.binary(op, x, y)
        case nodes.Cast(value=value) if value.dtype.is_integer and value.dtype.bits <= _NARROW.bits:
            return build.cast(value, _NARROW)
        case Load():
            return build.cast(expr, _NARROW)
        case _:
            return None


def lane_mask(expr: Compare) -> Expr | None:
    """A comparison of consecutive indices with one bound as a comparison of lane numbers; None for others.

    base + lane < bound is lane < bound - base, and there the right side may be cut to 0..lanes. A bound read from
    memory stays where it is, since the difference could wrap.
    """
    if knowledge.reads_memory(expr):
        return None
    match expr:
        case Compare(op="lt" | "le" as op, a=Ramp(base=base, stride=stride), b=Broadcast(value=bound)):
            if constant(stride) != 1:
                return None
            limit = fold(bound - base + (1 if op == "le" else 0))
            return build.compare("lt", _lane_numbers(expr.lanes), _cut(limit, expr.lanes))
        case Compare(op="lt" | "le" as op, a=Broadcast(value=bound), b=Ramp(base=base, stride=stride)):
            if constant(stride) != 1:
                return None
            limit = fold(bound - base + (1 if op == "lt" else 0))
            return build.compare("le", _cut(limit, expr.lanes), _lane_numbers(expr.lanes))
        case _:
            return None


def _lane_numbers(lanes: int) -> Expr:
    return build.ramp(build.const(0, _NARROW), build.const(1, _NARROW), lanes)


def _cut(limit: Expr, lanes: int) -> Expr:
    clamped = fold(build.minimum(fold(build.maximum(limit, 0)), lanes))
    number = constant(clamped)
    scalar = build.cast(clamped, _NARROW) if number is None else build.const(number, _NARROW)
    return build.broadcast(scalar, lanes)
