"""Kernels for CPUs: `lower_to_llvm` makes LLVM IR text of a flat function or module."""

from __future__ import annotations

from collections.abc import Mapping

from lpx.codegen import capabilities
from lpx.codegen.checks import CheckTable
from lpx.codegen.frame import Frame
from lpx.codegen.kernel import Kernel
from lpx.codegen.module import GeneratedModule, ModuleText, quoted
from lpx.codegen.statements import emit_statement
from lpx.codegen.storage import Memory
from lpx.codegen.types import I64, PTR, Type, Value, int64
from lpx.errors import InternalError
from lpx.expr.buffer import Buffer
from lpx.ir import nodes as ir
from lpx.ir import traverse
from lpx.target import CpuMachine, Target

_LARGEST_IN_CODE = 1024
"""Bytes of a constant that becomes part of the code; larger ones are passed by pointer."""


def lower_to_llvm(program: ir.Function | ir.Module, target: Target) -> GeneratedModule:
    """LLVM IR for a function, or a module of functions that call each other, of the stage `flat`.

    Raises: CompileError naming what the target cannot do; InternalError for IR that the passes should have rewritten.
    """
    functions = {program.name: program} if isinstance(program, ir.Function) else dict(program.functions)
    entry = program.name if isinstance(program, ir.Function) else program.entry
    machine = target.cpu
    module = ModuleText(target.triple, _attributes(target, machine))
    checks = CheckTable()
    bound = {name: _bound_constants(functions, name) for name in functions}
    for function in functions.values():
        if function.stage != "flat":
            raise InternalError(f"{function.name} is {function.stage}, not flat")
        checks.add_statements(function.body)
    polls = False
    for name, function in functions.items():
        kernel = Kernel(function, module, capabilities.of_cpu(machine), checks, bound)
        polls = polls or kernel.polling.needed
        _emit_kernel(kernel, is_entry=name == entry)
    return GeneratedModule(
        text=str(module),
        entry=entry,
        checks=checks.table(),
        bound=bound[entry],
        externs=module.externs,
        definitions=module.definitions,
        polls=polls,
        parallel=module.uses("lpx_parallel") or module.uses("lpx_share"),
    )


def _attributes(target: Target, machine: CpuMachine) -> str:
    """Attributes of every function. `no-builtins` keeps LLVM from making calls of memset and memcpy out of loops."""
    parts = ["nounwind", '"no-builtins"', f'"target-cpu"="{target.processor}"']
    if target.llvm_features:
        parts.append(f'"target-features"="{target.llvm_features}"')
    if machine.arch == "x86_64":
        parts.append(f'"prefer-vector-width"="{machine.vector_bits}"')
    if machine.scalable:  # else fixed-width vectors become NEON code, or none at all
        granule = 128 if machine.arch == "aarch64" else 64
        count = machine.vector_bits // granule
        parts.append(f"vscale_range({count},{count})")
    return " ".join(parts)


def _emit_kernel(kernel: Kernel, *, is_entry: bool) -> None:
    """The function, and its parallel bodies.

    A callee is never inlined: what it only reads, and is therefore told to be invariant, its caller may write.
    """
    frame = Frame(kernel, emit_statement)
    function = kernel.function
    bound = kernel.bound[function.name]
    slots = _Slots(frame)
    for param in function.params:
        read_only = kernel.module.invariant() if param.is_input else ""
        frame.emitter.storage[param.buffer] = _memory(kernel, param.buffer, slots.next_pointer(), read_only)
    for buffer in bound:
        frame.emitter.storage[buffer] = _memory(kernel, buffer, slots.next_pointer(), kernel.module.invariant())
    for buffer in _constants_in_code(function):
        frame.emitter.storage[buffer] = _constant_in_code(kernel, buffer)
    for symbol in function.symbols:
        frame.emitter.variables[symbol] = frame.b.resize(slots.next(), f"i{symbol.dtype.bits}", signed=True)
    signature = f"i32 @{quoted(function.name)}(ptr noalias readonly %args)"
    if not is_entry:
        signature = f"internal {signature} noinline"
    frame.emit(frame, function.body)
    kernel.module.define(function.name, signature, frame.finish())


class _Slots:
    """Reads the argument slots of a kernel one after another."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._number = 0

    def next(self) -> Value:
        """The next slot as an integer."""
        return self._load(I64)

    def next_pointer(self) -> Value:
        """The next slot as a pointer."""
        return self._load(PTR)

    def _load(self, kind: Type) -> Value:
        place = self._frame.b.element("i64", Value(PTR, "%args"), int64(self._number))
        self._number += 1
        return self._frame.b.load(kind, place, 8, self._frame.kernel.module.invariant())


def _memory(kernel: Kernel, buffer: Buffer, pointer: Value, read_only: str) -> Memory:
    return Memory(pointer, buffer.dtype.itemsize, kernel.scopes.get(buffer, ""), read_only)


def _constants_in_code(function: ir.Function) -> list[Buffer]:
    return [buffer for buffer, data in function.constants.items() if data.nbytes <= _LARGEST_IN_CODE]


def _constant_in_code(kernel: Kernel, buffer: Buffer) -> Memory:
    data = kernel.function.constants[buffer].tobytes()
    ref = kernel.module.constant_bytes(buffer.name, data, 64)
    return Memory(Value(PTR, ref), 64, "", kernel.module.invariant())


def _bound_constants(functions: Mapping[str, ir.Function], name: str) -> tuple[Buffer, ...]:
    """Constants passed by pointer to a function: its own large ones, and those of the functions it calls."""
    found: dict[Buffer, None] = {}
    pending, seen = [name], {name}
    while pending:
        function = functions[pending.pop()]
        found.update((b, None) for b, data in function.constants.items() if data.nbytes > _LARGEST_IN_CODE)
        for stmt in traverse.walk(function.body):
            if isinstance(stmt, ir.CallFunction) and stmt.function in functions and stmt.function not in seen:
                seen.add(stmt.function)
                pending.append(stmt.function)
    return tuple(found)
