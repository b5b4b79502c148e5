"""Multiply-add contraction inside accumulations: the one place where a product and a sum are rounded once."""

from __future__ import annotations

from lpx.expr import build
from lpx.expr.nodes import Binary, Const, Expr, Load, Select
from lpx.expr.traverse import structural_equal
from lpx.ir import traverse
from lpx.ir.nodes import Block, Function, Stmt, Store
from lpx.records import record, replace

_CONTRACTED = ("float32", "float64")


@record
class ContractAccumulations:
    """In the update of a reduction, compute `acc + x * y` and `acc - x * y` by one `fma`.

    before: `C[vi] = C[vi] + A[vi, vr] * B[vr]`
    after:  `C[vi] = fma(A[vi, vr], B[vr], C[vi])`

    Where the product is added under a condition, as by `te.where(c, x * y, 0)`, so is the `fma`. Only float32 and
    float64, and only an accumulator that is added to directly. A function with the attribute
    `contract` set to False is left alone.
    """

    def __call__(self, function: Function) -> Function:
        if function.attrs.get("contract") is False:
            return function
        body = traverse.transform(function.body, _contract_block)
        return function if body is function.body else replace(function, body=body)


def _contract_block(stmt: Stmt) -> Stmt | None:
    if not isinstance(stmt, Block) or not any(axis.kind == "reduce" for axis in stmt.axes):
        return None
    body = traverse.transform(stmt.body, _contract_store)
    return stmt if body is stmt.body else replace(stmt, body=body)


def _contract_store(stmt: Stmt) -> Stmt | None:
    if not isinstance(stmt, Store) or stmt.buffer.dtype.name not in _CONTRACTED or not isinstance(stmt.value, Binary):
        return None
    contracted = _contracted(stmt, stmt.value)
    return None if contracted is None else replace(stmt, value=contracted)


def _contracted(stmt: Store, value: Binary) -> Expr | None:
    match value:
        case Binary(op="add" | "sub", a=acc, b=Binary(op="mul", a=x, b=y)) if _is_target(acc, stmt):
            return build.call("fma", x if value.op == "add" else -x, y, acc)
        case Binary(op="add", a=Binary(op="mul", a=x, b=y), b=acc) if _is_target(acc, stmt):
            return build.call("fma", x, y, acc)
        case Binary(op="add", a=acc, b=Select(cond=cond, a=Binary(op="mul", a=x, b=y), b=Const(value=0))) if _is_target(
            acc, stmt
        ):  # a sum that starts from 0 is never -0, so adding 0 leaves it as it is
            return build.select(cond, build.call("fma", x, y, acc), acc)
        case _:
            return None


def _is_target(expr: Expr, stmt: Store) -> bool:
    """Whether `expr` reads the very element that `stmt` writes."""
    return (
        isinstance(expr, Load)
        and expr.buffer is stmt.buffer
        and all(structural_equal(i, j) for i, j in zip(expr.indices, stmt.indices, strict=True))
    )
