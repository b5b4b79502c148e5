"""How nodes show themselves: `str(node)` is its text, `repr(node)` its kind and the start of its text.

The printer lives in `lpx.ir`, above the nodes, and registers itself here. Without it a node shows its kind only.
"""

from __future__ import annotations

from collections.abc import Callable

_REPR_WIDTH = 72
_printers: list[Callable[[object], str]] = []


def register_printer(printer: Callable[[object], str]) -> None:
    """Set what `str()` of a node gives."""
    _printers[:] = [printer]


class Shown:
    """Base of everything that has a text. Its `repr` is short: that of a dataclass is exponential in a DAG."""

    __slots__ = ()

    def __str__(self) -> str:
        return _printers[0](self) if _printers else f"<{type(self).__name__}>"

    def __repr__(self) -> str:
        text = " ".join(str(self).split()) if _printers else ""
        if len(text) > _REPR_WIDTH:
            text = text[: _REPR_WIDTH - 3] + "..."
        return f"<{type(self).__name__}{': ' if text else ''}{text}>"
