"""Compilation: a scheduled function to linked machine code, through the disk cache.

Only a cache miss lowers anything. A cached entry holds the object file and, as JSON, what a call needs to know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from lpx import dtypes
from lpx.codegen.cpu import lower_to_llvm
from lpx.driver import fingerprint
from lpx.errors import InternalError, UnsupportedError
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Const, Expr, Var
from lpx.ir.nodes import Function, Param
from lpx.passes import pipeline
from lpx.runtime import objects
from lpx.runtime.cache import default_cache
from lpx.runtime.signature import Dimension, Parameter, Role, Signature
from lpx.runtime.specialisation import Specialisation
from lpx.runtime.support import link_kernel
from lpx.target import Target

Array = NDArray[Any]
MakeSchedule = Callable[[], Function]


@dataclass(frozen=True, slots=True)
class Compiled:
    """Object code of one kernel, how it is called, and the seconds each phase took (all but linking 0 when cached)."""

    data: bytes
    entry: str
    signature: Signature
    long: bool
    seconds: dict[str, float]
    cached: bool

    def link(self, signature: Signature | None = None, bound: Mapping[str, Array] | None = None) -> Specialisation:
        """The code in memory. `signature` may give parameters other names, or make some `bound` to arrays."""
        begin = time.perf_counter()
        code = link_kernel(self.data, (self.entry,))
        made = Specialisation(signature or self.signature, code, entry=self.entry, bound=bound, long=self.long)
        self.seconds["link"] = time.perf_counter() - begin
        return made


def compile_function(program: str, make: MakeSchedule, target: Target) -> Compiled:
    """The object code of the function that `make` gives, which the text `program` identifies.

    `make` is called on a cache miss only; it gives a function in the `scheduled` stage.

    Raises: TargetError when `target` is not of this machine; CompileError when it cannot express the function.
    """
    key = fingerprint.key_of("kernel", program, target)
    cache = default_cache()
    entry = cache.load(key)
    if entry is not None:
        return _decode(entry.data, entry.metadata)
    compiled = _compile(make, target, f"lpx_{key[:16]}")
    cache.store(key, compiled.data, _encode(compiled))
    return compiled


def _compile(make: MakeSchedule, target: Target, name: str) -> Compiled:
    seconds: dict[str, float] = {}
    clock = _Clock(seconds)
    function = replace(make(), name=name)
    clock.lap("schedule")
    flat = pipeline.lower(constants_as_parameters(function), target).function
    clock.lap("lower")
    module = lower_to_llvm(flat, target)
    clock.lap("emit")
    if module.externs:
        raise InternalError(f"{name} needs functions that nothing links")
    data = objects.compile_module(module.text, machine_of(target))
    clock.lap("llvm")
    signature = signature_of(function, tuple(check.message for check in module.checks))
    return Compiled(data, name, signature, module.polls, seconds, cached=False)


def machine_of(target: Target) -> Any:
    """LLVM's TargetMachine for a CPU target."""
    if target.is_host:
        return objects.target_machine()
    return objects.target_machine(target.triple, target.processor, target.llvm_features)


def constants_as_parameters(function: Function) -> Function:
    """`function` with its constants as parameters after the others, in order."""
    if not function.constants:
        return function
    params = (*function.params, *(Param(buffer, "in") for buffer in function.constants))
    return replace(function, params=params, constants={})


def signature_of(function: Function, checks: tuple[str, ...] = ()) -> Signature:
    """How a function is called: its parameters, then its constants as `bound` ones.

    Raises: UnsupportedError when an extent of an argument is not a number or a symbol.
    """
    bound: Role = "bound"
    params: list[tuple[Buffer, Role]] = [(p.buffer, p.role) for p in function.params]
    params.extend((buffer, bound) for buffer in function.constants)
    names = unique_names([buffer.name for buffer, _ in params])
    parameters = tuple(
        Parameter(name, buffer.dtype, _dimensions(buffer.shape, name), role)
        for name, (buffer, role) in zip(names, params, strict=True)
    )
    return Signature(function.name, parameters, tuple(v.name for v in function.symbols), (), checks)


def unique_names(names: Sequence[str]) -> list[str]:
    """The names in order, a repeated one with a number behind it."""
    seen: dict[str, int] = {}
    unique: list[str] = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        unique.append(name if not count else f"{name}_{count}")
    return unique


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


def _encode(compiled: Compiled) -> dict[str, Any]:
    signature = compiled.signature
    return {
        "entry": compiled.entry,
        "name": signature.name,
        "parameters": [[p.name, p.dtype.name, list(p.shape), p.role] for p in signature.parameters],
        "extents": list(signature.extents),
        "checks": list(signature.checks),
        "long": compiled.long,
    }


def _decode(data: bytes, metadata: Mapping[str, Any]) -> Compiled:
    parameters = tuple(
        Parameter(name, dtypes.parse(dtype), tuple(shape), role) for name, dtype, shape, role in metadata["parameters"]
    )
    signature = Signature(metadata["name"], parameters, tuple(metadata["extents"]), (), tuple(metadata["checks"]))
    return Compiled(data, metadata["entry"], signature, bool(metadata["long"]), {}, cached=True)


class _Clock:
    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self._seconds[phase] = now - self._last
        self._last = now
