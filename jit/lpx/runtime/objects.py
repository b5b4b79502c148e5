"""LLVM modules to object bytes, and object bytes to callable code.

There is one path, with a warm disk cache or without: `compile_module` makes object bytes, `link` makes code of them.
Linked code lives as long as its `LinkedObject`; whoever calls into it holds a reference meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import lpx
from lpx import knobs
from lpx.errors import InternalError
from lpx.runtime import elf

llvm: Any = importlib.import_module("llvmlite.binding")  # llvmlite carries no types
_library_numbers = itertools.count()


@functools.cache
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()  # inline assembly aborts the process without it


@functools.cache
def host_triple() -> str:
    """Target triple of this process."""
    return str(llvm.get_process_triple())


@functools.cache
def host_cpu() -> tuple[str, str]:
    """LLVM's name of this machine's CPU, and its features as LLVM's `+a,-b` text."""
    return str(llvm.get_host_cpu_name()), str(llvm.get_host_cpu_features().flatten())


@functools.cache
def target_machine(triple: str = "", cpu: str = "", features: str = "") -> Any:
    """The (shared) LLVM TargetMachine that emits position-independent code in the small code model.

    Empty arguments: triple, CPU and features of this machine; a CPU given without features has its own default ones.
    """
    _initialise()
    if not triple and not cpu:
        cpu, host_features = host_cpu()
        features = features or host_features
    target = llvm.Target.from_triple(triple or host_triple())
    # llvmlite's defaults are static relocation and, under a JIT, the large code model; neither links into a library.
    return target.create_target_machine(cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default")


def versions() -> tuple[str, ...]:
    """Versions that object files depend on, for cache keys: lpx, llvmlite and LLVM."""
    return (
        lpx.__version__,
        str(importlib.import_module("llvmlite").__version__),
        ".".join(map(str, llvm.llvm_version_info)),
    )


def parse_module(text: object) -> Any:
    """LLVM IR text (or an llvmlite module) as a verified LLVM module.

    Raises InternalError with LLVM's message if it is not valid.
    """
    try:
        module = llvm.parse_assembly(str(text))
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM rejects the generated code: {error}") from None
    return module


def optimise(module: Any, machine: Any) -> None:
    """Optimises in place: functions marked `alwaysinline` are inlined, then LLVM's O2 simplification of each function
    runs.

    Loops are not vectorized, interleaved or unrolled at run time, nor is straight-line code vectorized: that is for
    schedules.
    """
    before, simplify, after = _pipelines(machine)
    before.run(module, _pass_builder(machine))
    builder = _pass_builder(machine)
    for function in module.functions:
        if not function.is_declaration:
            simplify.run(function, builder)
    after.run(module, _pass_builder(machine))


@functools.cache
def _pipelines(machine: Any) -> tuple[Any, Any, Any]:
    """The passes of a machine, made once.

    LLVM's whole O2 pipeline can run only once, and llvmlite leaks 80 KB of each.
    """
    before = llvm.create_new_module_pass_manager()
    before.add_always_inliner_pass()
    before.add_ipsccp_pass()
    before.add_global_opt_pass()
    before.add_global_dead_code_eliminate_pass()
    simplify = _pass_builder(machine).getFunctionPassManager()
    after = llvm.create_new_module_pass_manager()
    after.add_instruction_combine_pass()
    after.add_simplify_cfg_pass()
    after.add_constant_merge_pass()
    after.add_global_dead_code_eliminate_pass()
    return before, simplify, after


def _pass_builder(machine: Any) -> Any:
    """What one run of a pipeline needs; a second run would find the first one's dangling callbacks."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    return llvm.create_pass_builder(machine, options)


def compile_module(module: Any, machine: Any = None, definitions: Sequence[str] = ()) -> bytes:
    """Optimises an LLVM module (text, llvmlite.ir or parsed; a parsed one is changed in place) and returns its object
    file.

    `machine` is a `target_machine`; by default that of this machine. `definitions` are modules with functions that this
    one declares. Raises InternalError if LLVM rejects the code.
    """
    machine = target_machine() if machine is None else machine
    parsed = module if isinstance(module, llvm.ModuleRef) else parse_module(module)
    for definition in definitions:
        link_in(parsed, definition, machine)
    optimise(parsed, machine)
    return bytes(machine.emit_object(parsed))


def link_in(module: Any, definition: str, machine: Any) -> None:
    """Puts the functions of an LLVM module into another, for it alone, optimised: their loops are vectorized."""
    other = parse_module(definition)
    names = [f.name for f in other.functions if not f.is_declaration and f.linkage == llvm.Linkage.external]
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(other, builder)
    module.link_in(other)
    for name in names:
        module.get_function(name).linkage = llvm.Linkage.internal


class LinkedObject:
    """Machine code in memory, and the objects whose code it calls. Dropping the last reference frees it."""

    __slots__ = ("__weakref__", "_callees", "_tracker", "addresses", "library")

    def __init__(self, library: str, tracker: Any, names: Sequence[str], callees: Sequence[LinkedObject] = ()) -> None:
        self.library = library
        self._tracker = tracker
        self._callees = tuple(callees)
        self.addresses = {name: int(tracker[name]) for name in names}

    def address(self, name: str) -> int:
        """Address of an exported function or global. Raises InternalError if it was not exported when linking."""
        if name not in self.addresses:
            raise InternalError(f"{name} is not exported by this object; it exports {', '.join(self.addresses)}")
        return self.addresses[name]

    def keep_forever(self) -> None:
        """Never frees the code, not even while the interpreter shuts down: threads may be in it."""
        make_immortal(self._tracker)


def link_object(
    data: bytes,
    exports: Sequence[str],
    *,
    libraries: Sequence[str] = (),
    imports: Mapping[str, int] | None = None,
    callees: Sequence[LinkedObject] = (),
) -> LinkedObject:
    """Loads an object file and returns the code with the addresses of `exports`.

    Symbols are looked for in `libraries` (names of linked objects), `imports` (name to address), what `callees` export,
    and this process. Callees live as long as the result does.
    Raises InternalError naming every symbol that is in none of them.
    """
    builder = llvm.JITLibraryBuilder().add_object_img(data)
    for library in libraries:
        builder.add_jit_library(library)
    known = {name: address for callee in callees for name, address in callee.addresses.items()}
    known.update(imports or {})
    for name, address in known.items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    builder.add_current_process()
    name = f"lpx-{next(_library_numbers)}"  # LLVM does not take a library's name twice, not even after it is gone
    try:
        tracker = builder.link(_jit(), name)
    except RuntimeError as error:
        raise InternalError(_explain(str(error), data, libraries, known)) from None
    linked = LinkedObject(name, tracker, exports, callees)
    if knobs.perf_map():
        _tell_perf(data, linked)
    return linked


def _tell_perf(data: bytes, linked: LinkedObject) -> None:
    """Names the functions to Linux perf, in the file where it looks for those of a just-in-time compiler."""
    with open(f"/tmp/perf-{os.getpid()}.map", "a", encoding="utf-8") as file:
        functions = elf.function_addresses(data, linked.addresses)
        file.writelines(f"{address:x} {size:x} lpx:{name}\n" for name, address, size in functions)


def make_immortal(value: object) -> None:
    """Takes a reference that is never given back."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


@functools.cache
def _jit() -> Any:
    _initialise()
    jit = llvm.create_lljit_compiler(target_machine(), suppress_errors=True)
    make_immortal(jit)  # closing it would unmap code that pool threads and objects still run
    return jit


def _explain(message: str, data: bytes, libraries: Sequence[str], imports: Mapping[str, int]) -> str:
    process = ctypes.CDLL(None)
    missing = [
        name
        for name in elf.undefined_symbols(data)
        if name not in imports
        and not hasattr(process, name)
        and not any(_defines(library, name) for library in libraries)
    ]
    if not missing:
        return f"LLVM cannot load the object file: {message.strip()}"
    return f"generated code needs functions that do not exist: {', '.join(missing)}"


def _defines(library: str, name: str) -> bool:
    try:
        return bool(_jit().lookup(library, name))
    except RuntimeError:
        return False
