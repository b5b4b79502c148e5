"""Handles of loops and blocks, and the table that knows what became of each.

A loop is known by its variable, a block by its name. A handle stays good as long as some loop has that variable (some
block that name), whatever happens around it. When a primitive removes the loop, the table notes how and at which line
of the user's, and any later use of the handle says so.
"""

from __future__ import annotations

import keyword
import re

from lpx.expr.nodes import Var
from lpx.records import record
from lpx.schedule.errors import DeadHandleError, UnknownNameError
from lpx.source import Span


@record(eq=False)
class LoopHandle:
    """A loop of a schedule, by its variable. One handle object exists per loop, so `is` compares handles."""

    var: Var

    @property
    def name(self) -> str:
        """The loop's printed name."""
        return self.var.name

    def __repr__(self) -> str:
        return f"<loop {self.var.name}>"


@record
class BlockHandle:
    """A block of a schedule, by its name."""

    name: str

    def __repr__(self) -> str:
        return f"<block {self.name}>"


@record
class Death:
    """How a loop or block ended: "was split into i_o, i_i", and the user's line that did it."""

    what: str
    span: Span | None


@record
class HandleTable:
    """Handles by loop variable, and the deaths of loops and blocks. Grows only; `Edit` adds to it on success."""

    loops: dict[Var, LoopHandle]
    dead_loops: dict[Var, Death]
    dead_blocks: dict[str, Death]

    @staticmethod
    def empty() -> HandleTable:
        return HandleTable({}, {}, {})

    def loop(self, var: Var) -> LoopHandle:
        """The one handle of the loop over `var`."""
        return self.loops.setdefault(var, LoopHandle(var))

    def check_loop_alive(self, var: Var, live: set[Var]) -> None:
        """Raises DeadHandleError where no loop has this variable any more, UnknownNameError where none ever had."""
        if var in live:
            return
        death = self.dead_loops.get(var)
        if death is None:
            raise UnknownNameError(
                f"loop {var.name} is not in this program", hint="take loops from s.loops(...) of the same schedule"
            )
        raise _dead(f"loop {var.name}", death, "use the loops that replaced it, or ask s.loops(...) again")

    def check_block_alive(self, name: str, live: set[str]) -> None:
        """Raises DeadHandleError or UnknownNameError where no block has this name."""
        if name in live:
            return
        death = self.dead_blocks.get(name)
        if death is not None:
            raise _dead(f"block {name}", death, f"the blocks are {', '.join(sorted(live)) or 'none'}")
        raise UnknownNameError(f"no block is named {name}", hint=f"the blocks are {', '.join(sorted(live)) or 'none'}")


def _dead(what: str, death: Death, hint: str) -> DeadHandleError:
    where = "" if death.span is None else f" at {death.span.filename}:{death.span.line}"
    return DeadHandleError(f"{what} {death.what}{where}", hint=hint)


def identifier(hint: str, taken: set[str] | dict[str, object]) -> str:
    """A Python identifier not in `taken`, made from a name hint."""
    stem = re.sub(r"\W", "_", hint) or "v"
    if stem[0].isdigit():
        stem = f"v{stem}"
    name, count = stem, 0
    while name in taken or keyword.iskeyword(name):
        count += 1
        name = f"{stem}_{count}"
    return name
