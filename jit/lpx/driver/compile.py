"""Compilation: a scheduled function to linked machine code, through the disk cache.

Only a cache miss lowers anything. A cached entry holds the object file and, as JSON, what a call needs to know.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lpx import codegen, passes
from lpx.driver import fingerprint
from lpx.driver.compiled import Code, Compiled, Preparation, decode, encode, unique_names
from lpx.driver.preparation import separate
from lpx.errors import InternalError, UnsupportedError
from lpx.expr.nodes import Const, Expr, Var
from lpx.ir.nodes import Function, Param
from lpx.records import replace
from lpx.runtime import objects
from lpx.runtime.cache import default_cache, digest
from lpx.runtime.signature import Dimension, Parameter, Signature
from lpx.target import Target

MakeSchedule = Callable[[], Function]


def compile_function(program: str, make: MakeSchedule, target: Target) -> Compiled:
    """The object code of the function that `make` gives, which the text `program` identifies.

    `make` is called on a cache miss only; it gives a function in the `scheduled` stage.

    Raises: TargetError when `target` is not of this machine; CompileError when it cannot express the function.
    """
    key = fingerprint.key_of("kernel", program, target)
    cache = default_cache()
    entry, once = cache.load(key), digest("preparation", key)
    if entry is not None and entry.metadata["preparation"] is None:
        return decode(entry.metadata, entry.data, b"")
    prepared = None if entry is None else cache.load(once)
    if entry is not None and prepared is not None:
        return decode(entry.metadata, entry.data, prepared.data)
    compiled = _compile(make, target, f"lpx_{key[:16]}")
    cache.store(key, compiled.kernel.data, encode(compiled))
    if compiled.preparation is not None:
        cache.store(once, compiled.preparation.code.data)
    return compiled


def _compile(make: MakeSchedule, target: Target, name: str) -> Compiled:
    seconds: dict[str, float] = {}
    clock = _Clock(seconds)
    function = constants_as_parameters(replace(make(), name=name))
    separated = separate(function)
    clock.lap("schedule")
    kernel = _code_of(separated.main, target, clock)
    preparation = None
    if separated.preparation is not None:
        code = _code_of(separated.preparation, target, clock)
        preparation = Preparation(code, separated.sources, separated.kept)
    return Compiled(kernel, signature_of(function, kernel.signature.checks), preparation, seconds, cached=False)


def _code_of(function: Function, target: Target, clock: _Clock) -> Code:
    flat = passes.lower(function, target).function
    clock.lap("lower")
    module = codegen.lower_to_llvm(flat, target)
    clock.lap("emit")
    if module.externs:
        raise InternalError(f"{function.name} needs functions that nothing links")
    data = objects.compile_module(module.text, machine_of(target), module.definitions)
    clock.lap("llvm")
    signature = signature_of(function, tuple(check.message for check in module.checks))
    return Code(data, function.name, signature, module.polls)


def machine_of(target: Target) -> Any:
    """LLVM's TargetMachine for a CPU target."""
    if target.is_host:
        return objects.target_machine()
    return objects.target_machine(target.triple, target.processor, target.llvm_features)


def constants_as_parameters(function: Function) -> Function:
    """`function` with its constants as parameters after the others, in order."""
    if not function.constants:
        return function
    params = (*function.params, *(Param(buffer, "constant") for buffer in function.constants))
    return replace(function, params=params, constants={})


def signature_of(function: Function, checks: tuple[str, ...] = ()) -> Signature:
    """How a function is called: its parameters, the constant ones as `bound`.

    Raises: UnsupportedError when an extent of an argument is not a number or a symbol.
    """
    names = unique_names([p.buffer.name for p in function.params])
    parameters = tuple(
        Parameter(n, p.buffer.dtype, _dimensions(p.buffer.shape, n), "bound" if p.role == "constant" else p.role)
        for n, p in zip(names, function.params, strict=True)
    )
    return Signature(function.name, parameters, tuple(v.name for v in function.symbols), (), checks)


def _dimensions(shape: tuple[Expr, ...], name: str) -> tuple[Dimension, ...]:
    found: list[Dimension] = []
    for extent in shape:
        if isinstance(extent, Const):
            found.append(int(extent.value))
        elif isinstance(extent, Var):
            found.append(extent.name)
        else:
            raise UnsupportedError(
                f"{name} has an extent that is neither a number nor a symbol",
                hint="give it a symbol of its own: te.var",
            )
    return tuple(found)


class _Clock:
    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self._seconds[phase] = self._seconds.get(phase, 0.0) + now - self._last
        self._last = now
