"""Which loops look at the interrupt flag, and how often, so that Ctrl-C stops a long kernel and costs nothing."""

from __future__ import annotations

from lpx.expr.nodes import Const, Expr
from lpx.ir import nodes as ir
from lpx.ir import traverse

_LONG = 1_000_000
"""Statements from which on a kernel counts as long."""
_NESTED = 10_000_000
"""Statements from which on a loop inside another polls too."""
_BETWEEN = 10_000
"""Statements that may run between two polls of one loop."""
_UNKNOWN = 1024
"""What a symbolic extent counts for."""


class Polling:
    """Decides by the number of statements that run, as far as extents are constant. A kernel with a symbolic extent may
    be long.
    """

    def __init__(self, body: ir.Stmt) -> None:
        self._work: dict[ir.Stmt, int] = {}
        self.needed = self._of(body) >= _LONG or any(_is_open_ended(s) for s in traverse.walk(body))

    def interval(self, loop: ir.For, *, outermost: bool) -> int | None:
        """Iterations of `loop` between two polls, None for none at all."""
        wanted = self._of(loop) >= _NESTED or (outermost and self.needed)
        return max(1, _BETWEEN // max(1, self._of(loop.body))) if wanted else None

    def _of(self, stmt: ir.Stmt) -> int:
        """Statements that one run of `stmt` executes."""
        found = self._work.get(stmt)
        if found is None:
            inside = sum(self._of(s) for s in traverse.substatements(stmt))
            found = self._work[stmt] = max(1, inside) * _trips(stmt)
        return found


def _trips(stmt: ir.Stmt) -> int:
    match stmt:
        case ir.For(extent=Const(value=value)):
            return max(1, int(value))
        case ir.For() | ir.While():
            return _UNKNOWN
        case _:
            return 1


def _is_open_ended(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.While) or (isinstance(stmt, ir.For) and not _is_constant(stmt.extent))


def _is_constant(extent: Expr) -> bool:
    return isinstance(extent, Const)
