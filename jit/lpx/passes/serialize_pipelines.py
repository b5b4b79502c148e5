"""Software-pipelined loops to plain ones, for targets that have nothing to overlap them with."""

from __future__ import annotations

from lpx.ir import traverse
from lpx.ir.nodes import For, Function, Stmt
from lpx.records import record, replace


@record
class SerializePipelines:
    """Forget the stages of loops: the statements of an iteration run one after another, as they are written.

    before: `for i in 0..n stages(0:0, 1:1) { S; T }`
    after:  `for i in 0..n { S; T }`
    """

    def __call__(self, function: Function) -> Function:
        body = traverse.transform(function.body, _serialize)
        return function if body is function.body else replace(function, body=body)


def _serialize(stmt: Stmt) -> Stmt | None:
    return replace(stmt, stages=None) if isinstance(stmt, For) and stmt.stages is not None else None
