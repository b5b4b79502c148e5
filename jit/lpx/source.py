"""Source spans: where in the user's own code a node, a primitive or a call came from."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import CodeType, FrameType, TracebackType

from lpx.errors import LpxError
from lpx.records import record

_OWN_ROOTS = ("lpx", "lpx_kernels", "numpy")
"""Packages whose frames are not the user's: ours, and NumPy, which calls us on the user's behalf."""


@record
class Span:
    """One position in a source file. `column` and `end_column` are 0-based, or -1 where unknown."""

    filename: str
    line: int
    column: int = -1
    end_column: int = -1

    def render(self) -> str:
        """The position, with the source line and a caret under it where the file can be read."""
        head = f"  at {self.filename}:{self.line}"
        text = linecache.getline(self.filename, self.line).rstrip()
        if not text:
            return head
        stripped = text.lstrip()
        lines = [head, f"    {stripped}"]
        # Columns count UTF-8 bytes; a caret under non-ASCII text would point astray.
        if self.column >= 0 and text.isascii():
            indent = len(text) - len(stripped)
            begin = max(self.column - indent, 0)
            width = max(self.end_column - self.column, 1) if self.end_column > self.column else 1
            lines.append("    " + " " * begin + "^" * min(width, len(stripped) - begin or 1))
        return "\n".join(lines)


def capture() -> Span | None:
    """The span of the innermost caller outside lpx and NumPy, or None when there is none."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and (_is_own(frame) or _is_plumbing(frame)):
        frame = frame.f_back
    if frame is None:
        return None
    column, end_column = _columns(frame.f_code, frame.f_lasti, frame.f_lineno)
    return Span(frame.f_code.co_filename, frame.f_lineno, column, end_column)


@contextmanager
def locating_errors() -> Generator[None]:
    """Errors that leave the block without a span get one: the innermost line of the user's that they went through (the
    body of a traced function), else the line that called lpx. For the entry points that users call.
    """
    try:
        yield
    except LpxError as error:
        if error.span is None:
            error.span = _innermost(error.__traceback__) or capture()
        raise


def _innermost(traceback: TracebackType | None) -> Span | None:
    found: TracebackType | None = None
    while traceback is not None:
        found = found if _is_own(traceback.tb_frame) or _is_plumbing(traceback.tb_frame) else traceback
        traceback = traceback.tb_next
    if found is None:
        return None
    code = found.tb_frame.f_code
    return Span(code.co_filename, found.tb_lineno, *_columns(code, found.tb_lasti, found.tb_lineno))


def _is_own(frame: FrameType) -> bool:
    name: object = frame.f_globals.get("__name__", "")
    return isinstance(name, str) and name.partition(".")[0] in _OWN_ROOTS


def _is_plumbing(frame: FrameType) -> bool:
    """Whether a frame is of the standard library's that lpx's own code runs through."""
    return frame.f_globals.get("__name__") in ("contextlib", "functools")


def _columns(code: CodeType, instruction: int, line: int) -> tuple[int, int]:
    for index, (start_line, end_line, start, end) in enumerate(code.co_positions()):
        if index * 2 == instruction:
            if start is None or end is None or start_line != line or end_line != line:
                return -1, -1
            return start, end
    return -1, -1
