"""`lpx.jit`: NumPy-style Python functions compiled per dtypes and shapes of their arguments.

A call whose arrays fit a compiled specialisation goes straight into machine code. Any other call comes to
`JitFunction._call`: the function runs once on traced arrays, its graph is compiled, and the call is made.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from lpx.driver.lowered import Lowered
from lpx.dtypes import DType
from lpx.errors import ArgumentError, DefinitionError, DTypeError
from lpx.frontends.numpy.arguments import Abstract, ArrayArgument, Dynamic, StaticArgument, abstract_arguments
from lpx.frontends.numpy.options import OptionTable
from lpx.frontends.numpy.trace import TracedArray, as_tuple, assign
from lpx.frontends.numpy.tracing import TracedFunction, trace_function
from lpx.graph.executable import Executable, compile_graph
from lpx.records import record
from lpx.runtime import arrays as generic
from lpx.runtime.foreign import result_kind, to_numpy
from lpx.runtime.native import NativeFunction
from lpx.source import capture, locating_errors
from lpx.target import Target


@record
class _Compiled:
    """A traced function and its code, for arguments of one kind."""

    traced: TracedFunction
    executable: Executable

    def captured(self) -> list[NDArray[Any]] | None:
        """The captured arrays as they are now; None where one is no longer what the code was compiled for."""
        values = self.traced.graph.inputs[len(self.traced.graph.inputs) - len(self.traced.captured) :]
        found: list[NDArray[Any]] = []
        for variable, value in zip(self.traced.captured, values, strict=True):
            array = variable.read_array()
            if array is None or array.dtype != value.dtype.to_numpy() or array.shape != value.shape:
                return None
            found.append(array)
        return found


class JitFunction(NativeFunction):
    """A Python function that compiles itself for the arguments it is called with.

    Results come back as the caller's kind of array. `out=` takes an array (or a tuple, for several results) to write.
    """

    __name__: str

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        static: Sequence[str] = (),
        dynamic: Dynamic | None = None,
        fastmath: Sequence[str] = (),
        strict: bool = False,
        target: str = "cpu",
    ) -> None:
        super().__init__(self._call, positional_outputs=False)
        functools.update_wrapper(self, function)
        self._function = function
        self._signature = inspect.signature(function)
        self._static = tuple(static)
        self._dynamic = dynamic or {}
        self._fastmath, self._strict = tuple(fastmath), strict
        self._target = target
        self._compiled: dict[Abstract, list[_Compiled]] = {}
        self._compile_lock = threading.RLock()
        self._options = OptionTable(list(self._signature.parameters), self._general_call)
        for name in (*self._static, *self._dynamic):
            if name not in self._signature.parameters:
                raise DefinitionError(
                    f"{function.__name__} has no parameter {name!r}",
                    hint=f"its parameters are {', '.join(self._signature.parameters)}",
                    span=capture(),
                )

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Every form the call `self(*args, **kwargs)` goes through: graph, te, schedule, IR, LLVM IR, assembly."""
        names, values = self._bind(args, kwargs)
        arguments, _ = abstract_arguments(names, values, self._static, self._dynamic)
        return self._compile(arguments)[0].executable.lowered()

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """What was decided for the call, in words: kernels, schedules, reassociated reductions."""
        return self.lower(*args, **kwargs).explain()

    @property
    def stats(self) -> dict[str, dict[str, float]]:
        """Seconds spent per phase (trace, lower, llvm, link, ...), for each set of arguments, the last compiled."""
        return {
            ", ".join(map(str, key)): dict(compiled[-1].executable.seconds) for key, compiled in self._compiled.items()
        }

    @property
    def compilations(self) -> int:
        """How often the function was compiled."""
        return sum(map(len, self._compiled.values()))

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[str], list[Any]]:
        name_of_function = self._function.__name__
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{name_of_function}: {error}", hint=f"its signature is {self._signature}") from None
        bound.apply_defaults()
        names: list[str] = []
        values: list[Any] = []
        for name, value in bound.arguments.items():
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                hint = "give each parameter a name"
                raise ArgumentError(f"{name_of_function} takes **{name}, which lpx.jit does not support", hint=hint)
            entries = value if kind is inspect.Parameter.VAR_POSITIONAL else (value,)
            for k, entry in enumerate(entries):
                names.append(f"{name}{k}" if kind is inspect.Parameter.VAR_POSITIONAL else name)
                values.append(entry)
        return names, values

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        return self._options.call(args, kwargs)

    def _general_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        with locating_errors():
            return self._located_call(args, dict(kwargs))

    def _located_call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        out = kwargs.pop("out", None) if "out" not in self._signature.parameters else None
        names, values = self._bind(args, kwargs)
        if any(isinstance(v, TracedArray) for v in values):
            return self._inline(args, kwargs, out)
        arguments, arrays = abstract_arguments(names, values, self._static, self._dynamic)
        compiled, captured = self._compile(arguments)
        traced = compiled.traced
        if self._is_of_arrays(arguments, traced) and "out" not in self._signature.parameters:
            self._options.add(args, kwargs, compiled.executable.specialisation)
        for name, dtype in traced.narrowed:
            _check_fits(values[names.index(name)], name, dtype)
        outs = self._outputs(traced, out)
        targets = [_writable(values[names.index(name)], name) for name in traced.written]
        made = as_tuple(generic.call(compiled.executable.specialisation, [*arrays, *captured, *outs], {}))
        for target, content in zip(targets, made[traced.results :], strict=True):
            np.copyto(target, content)
        if not traced.results:
            return None
        wrap = result_kind(values)
        results = made[: traced.results] if outs else tuple(map(wrap, made[: traced.results]))
        return results[0] if traced.single else results

    def _inline(self, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Any:
        """The call as part of another function that is being traced."""
        returned = self._function(*args, **kwargs)
        if out is None:
            return returned
        stored = tuple(assign(o, r) for o, r in zip(as_tuple(out), as_tuple(returned), strict=True))
        return stored[0] if isinstance(returned, TracedArray) else stored

    def _outputs(self, traced: TracedFunction, out: Any) -> tuple[Any, ...]:
        """What the kernel is to write: the given outputs, None for what it makes; nothing where none is given."""
        if out is None:
            return ()
        given = as_tuple(out)
        if len(given) != traced.results:
            raise ArgumentError(
                f"{self._function.__name__} has {traced.results} result(s), but out= gives {len(given)}",
                hint="give one array per result",
            )
        return (*given, *(None,) * len(traced.written))

    def _compile(self, arguments: Abstract) -> tuple[_Compiled, list[NDArray[Any]]]:
        """The code for `arguments` and what is captured now, and the captured arrays it takes."""
        found = self._find(arguments)
        if found is not None:
            return found
        with self._compile_lock:
            found = self._find(arguments)  # another thread may have compiled it meanwhile
            if found is not None:
                return found
            traced = trace_function(self._function, self._function.__name__, arguments)
            target = Target.parse(self._target)
            executable = compile_graph(traced.graph, target, fastmath=self._fastmath, strict=self._strict)
            compiled = _Compiled(traced, executable)
            self._compiled.setdefault(arguments, []).append(compiled)
            if self._is_plain(arguments, traced):
                self.add(executable.specialisation)
        return compiled, compiled.captured() or []

    def _is_plain(self, arguments: Abstract, traced: TracedFunction) -> bool:
        """Whether calls that match by dtype and shape alone may go straight to machine code.

        That takes arrays, and behind them static arguments at their defaults, which a call leaves out.
        """
        arrays = [a for a in arguments if isinstance(a, ArrayArgument)]
        return self._is_of_arrays(arguments, traced) and all(map(self._is_left_out, arguments[len(arrays) :]))

    @staticmethod
    def _is_of_arrays(arguments: Abstract, traced: TracedFunction) -> bool:
        """Whether a specialisation takes the arrays of a call as they come, and gives its results as they are."""
        weak = any(isinstance(a, ArrayArgument) and a.weak for a in arguments)
        returns = traced.single if traced.results == 1 else traced.results > 1
        return not weak and returns and not traced.captured and not traced.written

    def _is_left_out(self, argument: ArrayArgument | StaticArgument) -> bool:
        """Whether an argument is compiled in and has the default value of its parameter."""
        parameter = self._signature.parameters.get(argument.name)
        if isinstance(argument, ArrayArgument) or parameter is None:
            return False
        return argument.value == parameter.default and argument.kind is type(parameter.default)

    def _find(self, arguments: Abstract) -> tuple[_Compiled, list[NDArray[Any]]] | None:
        for compiled in self._compiled.get(arguments, ()):
            captured = compiled.captured()
            if captured is not None:
                return compiled, captured
        return None


def _check_fits(value: int, name: str, dtype: DType) -> None:
    if not dtype.min_value <= value <= dtype.max_value:
        raise DTypeError(
            f"the integer {name} = {value} does not fit {dtype}, which it is converted to",
            hint=f"{dtype} holds {dtype.min_value}..{dtype.max_value}; pass an array of a wider dtype",
        )


def _writable(target: Any, name: str) -> NDArray[Any]:
    """The memory of an argument that the function assigns to. Raises ArgumentError where it is read-only."""
    array = to_numpy(target, name, writable=True)
    if not array.flags.writeable:
        raise ArgumentError(f"{name} is read-only, and the function assigns to it", hint=f"pass a copy of {name}")
    return array


@overload
def jit(function: Callable[..., Any], /) -> JitFunction: ...
@overload
def jit(
    *,
    static: Sequence[str] = (),
    dynamic: Dynamic | None = None,
    fastmath: Sequence[str] = (),
    strict: bool = False,
    target: str = "cpu",
) -> Callable[[Callable[..., Any]], JitFunction]: ...
def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static: Sequence[str] = (),
    dynamic: Dynamic | None = None,
    fastmath: Sequence[str] = (),
    strict: bool = False,
    target: str = "cpu",
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """Compile a function of NumPy-style code: `@lpx.jit`, or `@lpx.jit(dynamic={"x": {0: "n"}})`.

    `static` names arguments whose values are compiled in. `dynamic` names dimensions that one compilation serves at
    any extent. `fastmath` lists LLVM fast-math flags to allow ("reassoc", "contract", "nnan", ...), none by default.
    `strict` keeps to the products and sums that the function asks for: 3 x 3 convolutions then do without Winograd's
    algorithm, which is faster and exact to 5e-5 of the largest result only.

    Writable arrays that the function, or a function it calls, refers to by a global or closure name are read at each
    call, whatever array the name then stands for. All other arrays from outside (read-only ones, attributes, elements
    of containers) and all other objects are constants, as they are when the function is compiled.

    Assignment to an argument (`x[0] = v`, `x += v`, also through views) changes the caller's array once, after the
    kernel has run. A reshaped array is a view, as it is in NumPy of an array that is C-contiguous.
    """

    def decorate(wrapped: Callable[..., Any]) -> JitFunction:
        return JitFunction(wrapped, static=static, dynamic=dynamic, fastmath=fastmath, strict=strict, target=target)

    return decorate if function is None else decorate(function)
