"""`Frame`: one LLVM function under construction, a kernel's entry or the body of a parallel region."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Literal

from lpx.codegen import types
from lpx.codegen.checks import DIVISION_BY_ZERO
from lpx.codegen.emitter import Emitter
from lpx.codegen.kernel import Kernel
from lpx.codegen.types import I32, Value, int32, int64
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr
from lpx.ir import nodes as ir
from lpx.records import record

Mode = Literal["outside", "sharing", "alone"]
"""Where code runs: outside of parallel regions, in one whose loops are shared among threads, or by one thread alone."""


@record
class Thread:
    """This thread's number and the number of threads of a parallel region, and the region's handle."""

    number: Value
    count: Value
    region: Value


class Frame:
    """State of the function being emitted; `emit` emits any statement into it.

    A failed check stores its status and goes to the innermost exit. An exit gives back what its scope holds and, when
    there is a status, goes on to the next one; the last returns the status.
    """

    def __init__(self, kernel: Kernel, emit: Callable[[Frame, ir.Stmt], None], thread: Thread | None = None) -> None:
        self.kernel = kernel
        self.emit = emit
        self.thread = thread
        self.mode: Mode = "outside" if thread is None else "sharing"
        self.depth = 0
        """Loops around the present statement, within this function."""
        self.stack_bytes = 0
        self.streamed: frozenset[Buffer] = frozenset()
        """Buffers that are written past the caches."""
        self.b = kernel.builder()
        self.emitter = Emitter(self.b, self._fail_on_zero_divisor)
        self._status = self.b.stack("i32", 4)
        self._exits = ["exit"]
        self.b.store(int32(0), self._status, 4)

    def finish(self) -> str:
        """End the function; the text of its body."""
        self.b.start("exit")
        self.b.return_(self.b.load(I32, self._status, 4))
        return self.b.text()

    def scalar(self, expr: Expr) -> Value:
        """An operand of a statement that uses nothing else of the expression."""
        value = self.emitter.value(expr)
        self.emitter.finish()
        return value

    def fail_when(self, condition: Value, status: Value) -> None:
        """Stop with `status` where the scalar condition holds."""
        with self.b.when(condition, likely=False):
            self.b.store(status, self._status, 4)
            self.b.branch(self._exits[-1])

    def fail_with(self, status: Value) -> None:
        """Stop with `status` unless it is 0."""
        self.fail_when(self.b.compare("icmp ne", status, types.zero(I32)), status)

    def _fail_on_zero_divisor(self, condition: Value) -> None:
        self.fail_when(condition, int32(self.kernel.checks.number(DIVISION_BY_ZERO)))

    @contextmanager
    def cleanup(self, release: Callable[[], None]) -> Generator[None]:
        """Run what `release` emits at the end of what is emitted within, also when that fails."""
        label = self.b.new_block("release")
        self._exits.append(label)
        yield
        self._exits.pop()
        self.b.start(label)
        release()
        stopped = self.b.compare("icmp ne", self.b.load(I32, self._status, 4), types.zero(I32))
        with self.b.when(stopped, likely=False):
            self.b.branch(self._exits[-1])

    def fill_slots(self, values: Sequence[Value]) -> Value:
        """An array of 64-bit slots on the stack that holds `values`; its address."""
        slots = self.b.stack("i64", 8, max(1, len(values)))
        for number, value in enumerate(values):
            self.b.store(value, self.b.element("i64", slots, int64(number)), 8)
        return slots
