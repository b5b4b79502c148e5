"""Every exception and warning lpx raises.

A message says what is wrong, where (the user's own line), why it is wrong, and what would be legal instead. Errors a
user can cause derive from `LpxError`; `InternalError` is lpx's own fault and asks for a report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lpx.source import Span


class LpxError(Exception):
    """Base of every error a user can cause.

    `message` is one cheap line; `hint` says what is legal instead; `span` points at the user's source line. `str()`
    renders all three, with the source line and a caret where the file can be read.
    """

    def __init__(self, message: str, *, hint: str = "", span: Span | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.span = span

    def __str__(self) -> str:
        parts = [self.message]
        if self.span is not None:
            parts.append(self.span.render())
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


class DTypeError(LpxError):
    """Operands whose dtypes do not fit together, or a dtype an operation does not take."""


class ShapeError(LpxError):
    """Shapes, ranks or extents that do not fit together."""


class IndexRangeError(LpxError):
    """An index that can leave its tensor."""


class DefinitionError(LpxError):
    """A tensor expression that is not well formed."""


class ParseError(LpxError):
    """Text that is not valid IR; the message names line and column."""


class VerifyError(LpxError):
    """IR that breaks a rule of its stage; names the rule and shows the node."""


class ScheduleError(LpxError):
    """A schedule primitive that was refused; base of one class per legality rule."""


class TraceError(LpxError):
    """A schedule trace that cannot be replayed on this function."""


class TargetError(LpxError):
    """An unknown or unusable target."""


class KnobError(LpxError):
    """An `LPX_*` variable with an illegal value."""


class ArgumentError(LpxError):
    """An argument given at call time that the function does not take."""


class RuntimeCheckError(LpxError):
    """A run-time check of a kernel failed: an index out of range, a division by zero."""


class MemoryAccessError(LpxError):
    """The reference interpreter saw memory used wrongly: out of bounds, unwritten, or without a barrier or wait."""


class UnsupportedError(LpxError):
    """Something valid that lpx cannot do (yet); says what to use instead."""


class ModelError(LpxError):
    """A model file that is malformed, unsafe or not understood."""


class CompileError(LpxError):
    """A function that a target cannot express."""


class InternalError(RuntimeError):
    """A broken invariant inside lpx: never the user's fault."""


class LpxWarning(UserWarning):
    """Base of every warning lpx gives."""


class CacheWarning(LpxWarning):
    """A cache entry or folder that could not be used; lpx goes on without it."""


class FastMathWarning(LpxWarning):
    """A fast-math flag that makes part of a program meaningless."""
