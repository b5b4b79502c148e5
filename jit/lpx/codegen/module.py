"""`ModuleText`: an LLVM module under construction, and `GeneratedModule`: a finished one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lpx.codegen.checks import FailedCheck
from lpx.codegen.foreign import Foreign, foreign_modules
from lpx.errors import InternalError
from lpx.expr.buffer import Buffer
from lpx.records import record

RUNTIME_SYMBOLS: Mapping[str, str] = {
    "lpx_parallel": "declare i32 @lpx_parallel(ptr, ptr, i64) nounwind",
    "lpx_share": "declare i32 @lpx_share(ptr, ptr, i64) nounwind",
    "lpx_barrier": "declare i32 @lpx_barrier(ptr) nounwind",
    "lpx_scratch_acquire": "declare noalias ptr @lpx_scratch_acquire(i64) nounwind",
    "lpx_scratch_release": "declare void @lpx_scratch_release(ptr) nounwind",
    "lpx_interrupted": "@lpx_interrupted = external global i32",
}
"""What generated code takes from the run time, with its declarations. Nothing else may stay unresolved, but for externs
that the program itself names."""


@record
class GeneratedModule:
    """LLVM IR text of a kernel `i32 entry(ptr args)`.

    `args` is an array of 64-bit slots: one pointer per buffer parameter, one per buffer of `bound` (constants too large
    to be part of the code), then one int64 per symbolic extent. A status of k > 0 means that `checks[k - 1]` failed;
    -1 is interrupted, -2 out of memory. Pointers need the alignment of their elements only.

    `polls` says that the kernel may run long and looks at `lpx_interrupted`, `parallel` that it uses the thread pool;
    `externs` are the symbols it needs besides those of the run time. `definitions` are LLVM modules with the functions
    of other compilers that it calls (`codegen.foreign`).
    """

    text: str
    entry: str
    checks: tuple[FailedCheck, ...]
    bound: tuple[Buffer, ...]
    externs: tuple[str, ...]
    definitions: tuple[str, ...]
    polls: bool
    parallel: bool


class ModuleText:
    """Collects functions, declarations, globals, attributes and metadata, each once."""

    def __init__(self, triple: str, attributes: str) -> None:
        self._triple = triple
        self._attributes = attributes
        self._declarations: dict[str, str] = {}
        self._globals: list[str] = []
        self._functions: list[str] = []
        self._defined: set[str] = set()
        self._metadata: dict[str, str] = {}
        self._distinct = 0
        self._externs: list[str] = []
        self._foreign: dict[Foreign, None] = {}

    # --- symbols --------------------------------------------------------------------------------------------------

    def define(self, name: str, signature: str, body: str) -> None:
        """Add a function: `signature` is everything between `define` and its attributes."""
        if name in self._defined:
            raise InternalError(f"{name} is defined twice")
        self._defined.add(name)
        self._functions.append(f"define {signature} #0 {{\n{body}\n}}\n")

    def define_once(self, name: str, text: str) -> None:
        """Add a support function, given whole (with attributes `#0`), unless it is there."""
        if name not in self._defined:
            self._defined.add(name)
            self._functions.append(text)

    def declare(self, result: str, name: str, params: Sequence[str]) -> None:
        """Declare an intrinsic, a support function, a function of the run time or an extern; a repeat does nothing."""
        if name in self._declarations or name in self._defined:
            return
        if not name.startswith("llvm."):
            raise InternalError(f"generated code calls {name}, which is neither an intrinsic nor of the run time")
        self._declarations[name] = f"declare {result} @{name}({', '.join(params)})"

    def intrinsic(self, result: str, name: str, params: Sequence[str]) -> str:
        """Declare an intrinsic; its name as the callee of a call."""
        self.declare(result, name, params)
        return f"@{name}"

    def runtime(self, name: str) -> str:
        """A symbol of the run time, as an operand."""
        self._declarations[name] = RUNTIME_SYMBOLS[name]
        return f"@{name}"

    def extern(self, result: str, name: str, params: Sequence[str]) -> str:
        """Declare a function that the program names and that linking finds; its name as the callee of a call."""
        callee = f"@{quoted(name)}"
        if name not in self._declarations:
            self._externs.append(name)
            self._declarations[name] = f"declare {result} {callee}({', '.join(params)}) nounwind"
        return callee

    def foreign(self, function: Foreign, result: str, params: Sequence[str]) -> str:
        """Declare a function that another compiler made; its name as the callee of a call."""
        self._foreign[function] = None
        callee = f"@{quoted(function.name)}"
        self._declarations[function.name] = f"declare {result} {callee}({', '.join(params)})"
        return callee

    def callee(self, name: str) -> str:
        """A function of this module, defined before or after, as the callee of a call."""
        return f"@{quoted(name)}"

    def invariant(self) -> str:
        """Metadata of a load from memory that nothing writes while the kernel runs."""
        return f", !invariant.load {self.metadata('')}"

    @property
    def externs(self) -> tuple[str, ...]:
        """Functions declared by `extern`, in order of first use."""
        return tuple(self._externs)

    @property
    def definitions(self) -> tuple[str, ...]:
        """LLVM modules that define what `foreign` declared."""
        return foreign_modules(tuple(self._foreign), self._triple, self._attributes)

    @property
    def is_x86(self) -> bool:
        """Whether it is for x86 processors."""
        return self._triple.startswith(("x86_64", "i686"))

    def uses(self, name: str) -> bool:
        """Whether the module takes this symbol of the run time."""
        return name in self._declarations

    def constant_bytes(self, name: str, data: bytes, align: int) -> str:
        """A read-only global holding `data`; its reference. LLVM keeps names of equal text apart by our numbering."""
        ref = f"@{quoted(f'{name}.{len(self._globals)}')}"
        content = "".join(chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\{c:02X}" for c in data)
        self._globals.append(f'{ref} = private unnamed_addr constant [{len(data)} x i8] c"{content}", align {align}')
        return ref

    # --- metadata -------------------------------------------------------------------------------------------------

    def metadata(self, text: str) -> str:
        """A reference to the node `!{text}`; equal texts share a node."""
        return self._metadata.setdefault(f"!{{{text}}}", f"!{len(self._metadata)}")

    def distinct(self, *operands: str) -> str:
        """A reference to a new node whose first operand is itself, as scopes and loops have it."""
        ref = f"!{len(self._metadata)}"
        self._metadata[f"distinct !{{{', '.join((ref, *operands))}}}"] = ref
        return ref

    def branch_weights(self, *, likely: bool) -> str:
        """Metadata for a branch that nearly always, or nearly never, goes to its first label."""
        return self.metadata(f'!"branch_weights", i32 {2000 if likely else 1}, i32 {1 if likely else 2000}')

    # --- output ---------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        metadata = [f"{ref} = {text}" for text, ref in self._metadata.items()]
        return "\n".join(
            [
                f'target triple = "{self._triple}"',
                *self._globals,
                "",
                *self._functions,
                *self._declarations.values(),
                f"attributes #0 = {{ {self._attributes} }}",
                *metadata,
                "",
            ]
        )


def quoted(name: str) -> str:
    """A name as LLVM writes it after @: in quotes where it is not a plain identifier."""
    plain = name.isascii() and name.replace("_", "a").replace(".", "a").isalnum() and not name[0].isdigit()
    return name if plain else '"' + "".join(c if _is_plain(c) else _escape(c) for c in name) + '"'


def _is_plain(char: str) -> bool:
    return char.isascii() and char.isprintable() and char not in '"\\'


def _escape(char: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in char.encode())
