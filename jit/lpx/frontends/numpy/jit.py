"""`lpx.jit`: NumPy-style Python functions compiled per dtypes and shapes of their arguments.

A call whose arrays fit a compiled specialisation goes straight into machine code. Any other call comes to
`JitFunction._call`: the function runs once on traced arrays, its graph is compiled, and the call is made.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from lpx.driver.lowered import Lowered
from lpx.errors import ArgumentError, DefinitionError
from lpx.frontends.numpy import functions, ufuncs
from lpx.frontends.numpy.tracing import (
    Abstract,
    ArrayArgument,
    Dynamic,
    StaticArgument,
    TracedFunction,
    abstract_arguments,
    captured_arrays,
    trace_function,
)
from lpx.graph.executable import Executable, compile_graph
from lpx.runtime import arrays as generic
from lpx.runtime.foreign import to_numpy
from lpx.runtime.native import NativeFunction
from lpx.source import capture
from lpx.target import Target

TABLES = (functions, ufuncs)


class JitFunction(NativeFunction):
    """A Python function that compiles itself for the arguments it is called with.

    Results come back as the caller's kind of array. `out=` takes an array (or a tuple, for several results) to write.
    """

    def __init__(
        self, function: Callable[..., Any], *, static: Sequence[str], dynamic: Dynamic, fastmath: Sequence[str], target: str
    ) -> None:
        super().__init__(self._call)
        functools.update_wrapper(self, function)
        self._function = function
        self._signature = inspect.signature(function)
        self._static = tuple(static)
        self._dynamic = dynamic
        self._fastmath = tuple(fastmath)
        self._target = target
        self._compiled: dict[Abstract, tuple[TracedFunction, Executable]] = {}
        self._compile_lock = threading.RLock()
        for name in (*static, *dynamic):
            if name not in self._signature.parameters:
                raise DefinitionError(
                    f"{function.__name__} has no parameter {name!r}",
                    hint=f"its parameters are {', '.join(self._signature.parameters)}",
                    span=capture(),
                )

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Every form the call `self(*args, **kwargs)` goes through: graph, te, schedule, IR, LLVM IR, assembly."""
        arguments, _ = self._abstract(args, kwargs)
        return self._compile(arguments)[1].lowered()

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """What was decided for the call, in words: kernels, schedules, reassociated reductions."""
        return self.lower(*args, **kwargs).explain()

    @property
    def stats(self) -> dict[str, dict[str, float]]:
        """Seconds spent per phase (trace, lower, llvm, link, ...), for each compiled set of arguments."""
        return {_describe(key): dict(executable.seconds) for key, (_, executable) in self._compiled.items()}

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _abstract(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Abstract, list[NDArray[Any]]]:
        names, values = self._bind(args, kwargs)
        return abstract_arguments(names, values, self._static, self._dynamic)

    def _bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[str], list[Any]]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self._function.__name__}: {error}", hint=f"its signature is {self._signature}") from None
        bound.apply_defaults()
        names: list[str] = []
        values: list[Any] = []
        for name, value in bound.arguments.items():
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                raise ArgumentError(f"{self._function.__name__} takes **{name}, which lpx.jit does not support")
            entries = value if kind is inspect.Parameter.VAR_POSITIONAL else (value,)
            for k, entry in enumerate(entries):
                names.append(f"{name}{k}" if kind is inspect.Parameter.VAR_POSITIONAL else name)
                values.append(entry)
        return names, values

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        outs = kwargs.pop("out", None) if "out" not in self._signature.parameters else None
        names, values = self._bind(args, kwargs)
        arguments, arrays = abstract_arguments(names, values, self._static, self._dynamic)
        traced, executable = self._compile(arguments)
        captured = captured_arrays(self._function) if traced.captured else {}
        inputs = [*arrays, *(captured[name] for name in traced.captured)]
        given = () if outs is None else (outs if isinstance(outs, tuple) else (outs,))
        if given and len(given) != traced.results:
            raise ArgumentError(f"{self._function.__name__} has {traced.results} result(s), but out= gives {len(given)}")
        padded = (*given, *(None,) * len(traced.written)) if given else ()
        made = generic.call(executable.specialisation, inputs, {"out": padded} if padded else {})
        results = made if isinstance(made, tuple) else (made,)
        self._write_back(traced, names, values, results[traced.results :])
        if traced.single:
            return results[0]
        return tuple(results[: traced.results]) if traced.results else None

    @staticmethod
    def _write_back(traced: TracedFunction, names: list[str], values: list[Any], contents: Sequence[Any]) -> None:
        for name, content in zip(traced.written, contents, strict=True):
            target = values[names.index(name)]
            if isinstance(target, np.ndarray):
                np.copyto(target, content)
            else:
                np.copyto(to_numpy(target, name, writable=True), content)

    def _compile(self, arguments: Abstract) -> tuple[TracedFunction, Executable]:
        found = self._compiled.get(arguments)
        if found is not None:
            return found
        with self._compile_lock:
            if arguments not in self._compiled:
                traced = trace_function(self._function, self._function.__name__, arguments)
                executable = compile_graph(traced.graph, Target.parse(self._target), fastmath=self._fastmath)
                self._compiled[arguments] = (traced, executable)
                if _is_plain(arguments, traced):
                    self.add(executable.specialisation)
            return self._compiled[arguments]


def _is_plain(arguments: Abstract, traced: TracedFunction) -> bool:
    """Whether calls that match by dtype and shape alone may go straight to machine code."""
    plain = all(isinstance(a, ArrayArgument) and not a.weak for a in arguments)
    return plain and not traced.captured and not traced.written and (traced.single or traced.results > 1)


def _describe(arguments: Abstract) -> str:
    parts: list[str] = []
    for a in arguments:
        text = repr(a.value) if isinstance(a, StaticArgument) else f"{a.weak or a.dtype}[{', '.join(map(str, a.shape))}]"
        parts.append(f"{a.name}: {text}")
    return ", ".join(parts)


@overload
def jit(function: Callable[..., Any], /) -> JitFunction: ...
@overload
def jit(
    *,
    static: Sequence[str] = (),
    dynamic: Dynamic | None = None,
    fastmath: Sequence[str] = (),
    target: str = "cpu",
) -> Callable[[Callable[..., Any]], JitFunction]: ...
def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static: Sequence[str] = (),
    dynamic: Dynamic | None = None,
    fastmath: Sequence[str] = (),
    target: str = "cpu",
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """Compile a function of NumPy-style code: `@lpx.jit`, or `@lpx.jit(dynamic={"x": {0: "n"}})`.

    `static` names arguments whose values are compiled in. `dynamic` names dimensions that one compilation serves at
    any extent. `fastmath` lists LLVM fast-math flags to allow ("reassoc", "contract", "nnan", ...), none by default.

    Arrays the function captures are constants when read-only, else they are read at each call. Assignment to an
    argument (`x[0] = v`, `x += v`) changes the caller's array once, after the kernel has run.
    """

    def decorate(wrapped: Callable[..., Any]) -> JitFunction:
        return JitFunction(wrapped, static=static, dynamic=dynamic or {}, fastmath=fastmath, target=target)

    return decorate if function is None else decorate(function)
