"""`Kernel`: what the LLVM functions of one kernel share while they are emitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lpx.codegen.builder import Builder
from lpx.codegen.capabilities import Capabilities
from lpx.codegen.checks import CheckTable
from lpx.codegen.module import ModuleText
from lpx.codegen.polling import Polling
from lpx.codegen.storage import Place, register_places
from lpx.errors import CompileError
from lpx.expr.buffer import Buffer
from lpx.ir import nodes as ir
from lpx.ir import traverse

_FASTMATH = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "fast")
_MOST_SCOPES = 64  # each access lists every scope but its own: quadratic in text


@dataclass(slots=True)
class Kernel:
    """One function of the program: the module it goes to, and facts about it.

    `scopes` holds alias metadata of each buffer: no two buffers of a function overlap. `registers` gives the places of
    each register buffer that are accessed. `bound` gives, for each function of the program, the constants that are
    passed to it by pointer.
    """

    function: ir.Function
    module: ModuleText
    capabilities: Capabilities
    checks: CheckTable
    bound: Mapping[str, tuple[Buffer, ...]]
    polling: Polling = field(init=False)
    scopes: Mapping[Buffer, str] = field(init=False)
    registers: Mapping[Buffer, Sequence[Place] | None] = field(init=False)
    _bodies: int = 0

    def __post_init__(self) -> None:
        self.polling = Polling(self.function.body)
        self.scopes = self._alias_scopes()
        self.registers = register_places(self.function.body)

    def builder(self) -> Builder:
        """A builder for one more LLVM function of the kernel."""
        flags = [flag.strip() for flag in str(self.function.attrs.get("fastmath", "")).split(",") if flag.strip()]
        for flag in flags:
            if flag not in _FASTMATH:
                raise CompileError(f"{flag!r} is no fast-math flag", hint=f"use some of {', '.join(_FASTMATH)}")
        return Builder(self.module, self.capabilities, " ".join(flags))

    def body_name(self) -> str:
        """The symbol of the next outlined body."""
        self._bodies += 1
        return f"{self.function.name}.body{self._bodies}"

    def _alias_scopes(self) -> Mapping[Buffer, str]:
        allocs = [s.buffer for s in traverse.walk(self.function.body) if isinstance(s, ir.Alloc)]
        buffers = [p.buffer for p in self.function.params] + [b for b in allocs if b.scope != "register"]
        if not 2 <= len(buffers) <= _MOST_SCOPES:
            return {}
        domain = self.module.distinct()
        scopes = {buffer: self.module.distinct(domain) for buffer in buffers}
        return {buffer: self._alias_metadata(scopes, buffer) for buffer in buffers}

    def _alias_metadata(self, scopes: Mapping[Buffer, str], buffer: Buffer) -> str:
        own = self.module.metadata(scopes[buffer])
        others = self.module.metadata(", ".join(scope for other, scope in scopes.items() if other is not buffer))
        return f", !alias.scope {own}, !noalias {others}"
