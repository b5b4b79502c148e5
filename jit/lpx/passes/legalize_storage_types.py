"""Arithmetic of storage types: computed in float32, rounded back after every operation."""

from __future__ import annotations

from lpx import dtypes
from lpx.errors import CompileError
from lpx.expr import build, nodes
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Expr
from lpx.ir import traverse
from lpx.ir.nodes import Function
from lpx.records import record, replace


@record
class LegalizeStorageTypes:
    """Compute float16, bfloat16 and float8 arithmetic in float32 and round each result to its own dtype.

    before: `C[i] = A[i] * B[i]` in float16
    after:  `C[i] = float16(float32(A[i]) * float32(B[i]))`

    Loads, stores, selects and conversions keep the narrow dtype. Raises: CompileError for arithmetic on int4 and uint4,
    which are converted to int8 first.
    """

    def __call__(self, function: Function) -> Function:
        if not any(e.dtype.is_storage_only for e in traverse.walk_expressions(function.body)):
            return function
        memo: dict[Expr, Expr] = {}
        body = traverse.transform(function.body, on_expr=lambda e: expr_traverse.transform(e, _legalize, memo))
        return function if body is function.body else replace(function, body=body)


def _legalize(expr: Expr) -> Expr | None:
    if not isinstance(expr, nodes.Binary | nodes.Unary | nodes.Compare | nodes.HorizontalReduce | nodes.Call):
        return None
    operands = expr_traverse.children(expr)
    narrow = next((e.dtype for e in operands if e.dtype.is_storage_only), None)
    if narrow is None or (isinstance(expr, nodes.Call) and expr.op.kind in ("hardware", "extern")):
        return None
    if not narrow.is_float:
        raise CompileError(f"{narrow} has no arithmetic", hint="cast it to int8 first, and the result back")
    if isinstance(expr, nodes.HorizontalReduce):
        return _legalize_tree(expr)
    wide = expr_traverse.rebuild(expr, [build.cast(e, dtypes.float32) for e in operands])
    return wide if expr.dtype.is_bool else build.cast(wide, expr.dtype)


def _legalize_tree(expr: nodes.HorizontalReduce) -> Expr:
    """The steps of the reduction one by one, since each rounds."""
    value = expr.value
    while value.lanes > 1:
        half = value.lanes // 2
        low, high = build.shuffle([value], range(half)), build.shuffle([value], range(half, 2 * half))
        odd = build.shuffle([value], [value.lanes - 1]) if value.lanes % 2 else None
        step = _legalize(build.binary(expr.op, low, high))
        value = step if step is not None else value
        if odd is not None:
            value = build.shuffle([value, odd], range(half + 1))
    return value
