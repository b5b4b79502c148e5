"""Run-time checks: which status of a kernel means which message."""

from __future__ import annotations

from lpx.ir import nodes as ir
from lpx.ir import traverse
from lpx.records import record
from lpx.source import Span

INTERRUPTED = -1
"""Status of a kernel that Ctrl-C stopped."""
OUT_OF_MEMORY = -2
"""Status of a kernel that got no scratch memory."""
DIVISION_BY_ZERO = "integer division by zero"


@record
class FailedCheck:
    """What to tell when a check fails: the message, and the user's line it came from."""

    message: str
    span: Span | None = None


class CheckTable:
    """Numbers checks from 1: `Check` statements in program order, then the divisions that need one.

    Copies of one check (a loop unrolled or peeled) share a number.
    """

    def __init__(self) -> None:
        self._numbers: dict[FailedCheck, int] = {}

    def add_statements(self, body: ir.Stmt) -> None:
        """Number every `Check` below `body`."""
        for stmt in traverse.walk(body):
            if isinstance(stmt, ir.Check):
                self.number(stmt.message, stmt.span)

    def number(self, message: str, span: Span | None = None) -> int:
        """The status of a check."""
        return self._numbers.setdefault(FailedCheck(message, span), len(self._numbers) + 1)

    def table(self) -> tuple[FailedCheck, ...]:
        """The checks; entry k - 1 has status k."""
        return tuple(self._numbers)
