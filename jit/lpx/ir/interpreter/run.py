"""Running a function on NumPy arrays."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx.errors import ArgumentError, MemoryAccessError, ShapeError
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Var
from lpx.ir.interpreter import storage as memory
from lpx.ir.interpreter.arguments import bind, evaluate, solve_extents
from lpx.ir.interpreter.expressions import Env
from lpx.ir.interpreter.leaves import Options
from lpx.ir.interpreter.statements import StatementCompiler
from lpx.ir.interpreter.storage import Storage
from lpx.ir.interpreter.threads import Thread
from lpx.ir.nodes import Function, Module

_DEEPEST = 50_000  # Python frames; closures of a deep expression call each other


def interpret(
    function: Function,
    arrays: Sequence[NDArray[Any]],
    extents: Mapping[str, int] | None = None,
    *,
    module: Module | None = None,
    checked: bool = True,
    threads: int = 2,
    seed: int | None = None,
) -> None:
    """Run `function`, of any stage, on one array per parameter; outputs are written in place.

    `extents` gives symbolic extents by name; those that are the size of some dimension of an array need not be given.
    A parameter with a layout takes an array of its physical shape; a parameter of a flat function takes any array with
    as many elements, as they lie in memory. `checked`: reading memory that was never written is an error, and so is an
    `out` parameter with elements left unwritten; else memory starts as zeros and outputs as they are. Parallel regions
    run on `threads` simulated threads; `seed` shuffles everything that may run in any order.

    Raises: ArgumentError, ShapeError for arrays that do not fit; MemoryAccessError for a wrong use of memory;
    RuntimeCheckError for a failed check or an integer division by zero.
    """
    rng = None if seed is None else random.Random(seed)
    program = _Program(Options(checked, threads, rng), module)
    with _deep_recursion():
        program.start(function, arrays, extents or {})


@contextmanager
def _deep_recursion() -> Generator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class _CompiledFunction:
    """A function ready to run, any number of times."""

    def __init__(self, function: Function, program: _Program) -> None:
        self.function = function
        self._checked = program.options.checked
        compiler = StatementCompiler(program.options, program.call)
        self._action = compiler.program(function.body)
        self._params = [(param, compiler.slots.of(param.buffer)) for param in function.params]
        self._symbols = [compiler.slots.of(symbol) for symbol in function.symbols]
        self._constants = [(compiler.slots.of(b), _constant(b, array)) for b, array in function.constants.items()]
        self._size = compiler.slots.size

    def run(self, storages: Sequence[Storage], extents: Sequence[int]) -> None:
        """Run on the memory of the parameters and the values of the symbols, in order."""
        env: Env = [None] * self._size
        env[0] = Thread()
        values = dict(zip(self.function.symbols, extents, strict=True))
        for slot, extent in zip(self._symbols, extents, strict=True):
            env[slot] = extent
        for slot, constant in self._constants:
            env[slot] = constant
        for (param, slot), storage in zip(self._params, storages, strict=True):
            env[slot] = _as_declared(param.buffer, storage, values)
            if self._checked and param.role == "out":
                storage.values[:] = [None] * len(storage.values)
        self._action(env)

    def check_outputs(self, storages: Sequence[Storage]) -> None:
        """Raises MemoryAccessError when an output has elements that were not written."""
        for (param, _), storage in zip(self._params, storages, strict=True):
            if self._checked and param.role == "out" and None in storage.values:
                indices = np.unravel_index(storage.values.index(None), storage.shape)
                raise MemoryAccessError(
                    f"{storage.element([int(i) for i in indices])} is never written",
                    hint=f"an out parameter is written entirely; make {storage.name} inout, or write all of it",
                )


class _Program:
    """The functions of one run, compiled when first called."""

    def __init__(self, options: Options, module: Module | None) -> None:
        self.options = options
        self._module = module
        self._compiled: dict[Function, _CompiledFunction] = {}

    def start(self, function: Function, arrays: Sequence[NDArray[Any]], extents: Mapping[str, int]) -> None:
        """Run `function` on arrays."""
        if len(arrays) != len(function.params):
            raise ArgumentError(
                f"{function.name} takes {len(function.params)} array(s), not {len(arrays)}",
                hint="pass one array per parameter, outputs included",
            )
        symbols = solve_extents(function, arrays, extents)
        bound = [bind(param, array, symbols) for param, array in zip(function.params, arrays, strict=True)]
        self._run(function, [b.storage for b in bound], list(symbols.values()))
        for b in bound:
            if not b.param.is_input:
                b.write_back()

    def call(self, name: str, storages: list[Storage], extents: list[int]) -> None:
        """Run a function of the module on memory."""
        if self._module is None or name not in self._module.functions:
            raise ArgumentError(f"there is no function {name} to call", hint="pass the module that holds it")
        self._run(self._module.functions[name], storages, extents)

    def _run(self, function: Function, storages: Sequence[Storage], extents: Sequence[int]) -> None:
        if function not in self._compiled:
            self._compiled[function] = _CompiledFunction(function, self)
        compiled = self._compiled[function]
        compiled.run(storages, extents)
        compiled.check_outputs(storages)


def _constant(buffer: Buffer, array: NDArray[Any]) -> Storage:
    return Storage(buffer.name, buffer.dtype, array.shape, memory.values_of(array, buffer.dtype))


def _as_declared(buffer: Buffer, storage: Storage, symbols: Mapping[Var, int]) -> Storage:
    shape = evaluate(buffer.shape, symbols)
    if math.prod(shape) != len(storage.values) or buffer.dtype != storage.dtype:
        raise ShapeError(f"{storage} is passed as {buffer.name}, which is {buffer.dtype}{list(shape)}")
    return storage.reshaped(buffer.name, shape)
