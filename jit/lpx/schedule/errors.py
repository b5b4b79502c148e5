"""One error class per legality rule of schedule primitives.

`error.message` is one cheap line for a tuner that only counts refusals; `str(error)` is for people: the message, the
user's line, what would be legal, and the program with the offending statement underlined. Rendering happens in `str`
only, so a refused candidate costs no printing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx.errors import LpxError, ScheduleError
from lpx.ir.printer import render_with_mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from lpx.ir.nodes import Function, Stmt
    from lpx.source import Span


class RefusedError(ScheduleError):
    """Base: a primitive refused; `function` and `mark` say where in the program.

    A `check_*` raises it with what it knows; a hint that is costly to find is a function. `Primitive` adds the
    primitive's name, the program and the user's line.
    """

    def __init__(
        self, message: str, *, hint: str | Callable[[], str] = "", mark: Stmt | None = None, span: Span | None = None
    ) -> None:
        super().__init__(message, hint=hint if isinstance(hint, str) else "", span=span)
        self.mark = mark
        self.function: Function | None = None
        self._suggest = hint if callable(hint) else None

    def locate(self, primitive: str, function: Function, span: Span | None) -> None:
        """Fill in which primitive refused, in which program, at which line of the user's; the first call counts."""
        if self.function is not None:
            return
        self.function = function
        self.message = f"{primitive}: {self.message}"
        self.args = (self.message,)
        self.span = self.span or span

    def __str__(self) -> str:
        if self._suggest is not None and not self.hint:
            self.hint = self._suggest()
        text = super().__str__()
        if self.function is None or self.mark is None:
            return text
        return f"{text}\n{render_with_mark(self.function, self.mark)}"


class OptionError(RefusedError):
    """An argument of a primitive that is malformed on its own: a factor below 1, an unknown tail."""


class UnknownNameError(RefusedError):
    """A tensor, block or loop that is not in this program."""


class DeadHandleError(RefusedError):
    """A handle whose loop or block an earlier primitive replaced; says which and where."""


class NestingError(RefusedError):
    """Loops that are not directly inside each other where a primitive needs them to be."""


class ExtentError(RefusedError):
    """A loop extent that a primitive cannot use: symbolic, dependent on another loop, of the wrong size."""


class LoopKindError(RefusedError):
    """A loop whose kind (parallel, vectorized, ...) does not allow the primitive."""


class DependenceError(RefusedError):
    """Iterations that depend on each other and would run in another order, or at the same time."""


class AccessError(RefusedError):
    """An access that is not affine, or not of the shape the primitive can follow."""


class OutputError(RefusedError):
    """A tensor the caller sees, which must stay computed in full."""


class ConsumerError(RefusedError):
    """A tensor read (or not read) where the primitive would compute it."""


class ProducerError(RefusedError):
    """A tensor that would be read before it is computed."""


class CoverageError(RefusedError):
    """A region that would be left uncomputed, or computed twice where that changes the result."""


class BlockFormError(RefusedError):
    """A block that is not of the form the primitive takes: a reduction, several stores, a predicate of its own."""


class MatchError(RefusedError):
    """A block that computes something else than the operation that should stand for it."""


class MismatchError(LpxError):
    """A scheduled program that computes something else than the original: a fault of a primitive."""
