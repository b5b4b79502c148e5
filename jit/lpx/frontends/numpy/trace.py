"""Tracing: the array that stands for a tensor while a function runs once to be recorded.

A traced array looks like an `ndarray`. Operators, ufuncs and NumPy functions applied to it add nodes to the graph
instead of computing; what each adds is in the tables of `lpx.frontends.numpy.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from lpx import dtypes
from lpx.errors import DefinitionError, DTypeError, UnsupportedError
from lpx.frontends.numpy import registry
from lpx.graph.builder import GraphBuilder
from lpx.graph.nodes import Dim, Value
from lpx.source import capture

Number = bool | int | float


class Trace:
    """One run of a user's function: the graph it builds, and the arrays it captured from outside.

    `captured` maps the `id` of an array that must be bound at call time to its name. Every other array met is a
    constant.
    """

    def __init__(self, name: str, captured: Mapping[int, str] | None = None) -> None:
        self.builder = GraphBuilder(name)
        self._captured = captured or {}
        self._bound: dict[int, Value] = {}
        self._constants: dict[int, tuple[NDArray[Any], Value]] = {}

    @property
    def bound(self) -> list[str]:
        """Names of the captured arrays that became inputs, in input order."""
        return [self._captured[key] for key in self._bound]

    def argument(self, dtype: dtypes.DType, shape: Sequence[Dim], name: str, weak: type | None = None) -> TracedArray:
        """A new argument of the function being traced."""
        return TracedArray(self, self.builder.input(dtype, shape, name), weak)

    def add(self, operator: str, *operands: Value, **attrs: Any) -> TracedArray:
        """A node with one output."""
        return TracedArray(self, self.builder.add(operator, operands, **attrs))

    def array(self, x: Any) -> TracedArray:
        """`x` as a traced array: a traced array itself, an array, or what `np.asarray` makes of it."""
        if isinstance(x, TracedArray):
            if x.trace is not self:
                raise DefinitionError("an array of another traced function is used here", span=capture())
            return x
        if isinstance(x, list | tuple) and _holds_traced(x):
            return dispatch_function(self, np.stack, ([self.array(e) for e in x],), {})
        if isinstance(x, Number):
            return TracedArray(self, self._value_of(x), type(x), x)
        return TracedArray(self, self._value_of(x))

    def _value_of(self, x: Any) -> Value:
        array: NDArray[Any] = np.asarray(x)
        if array.dtype.hasobject or array.dtype.kind not in "biufV":
            raise DTypeError(f"arrays of {array.dtype} are not supported", hint="use a bool, integer or float dtype")
        if id(x) in self._captured:
            if id(x) not in self._bound:
                self._bound[id(x)] = self.builder.input(
                    dtypes.parse(array.dtype), array.shape, self._captured[id(x)]
                )
            return self._bound[id(x)]
        if id(x) not in self._constants:  # keeps `x` alive, so that its id stays its own
            self._constants[id(x)] = (x, self.builder.constant(array))
        return self._constants[id(x)][1]

    def cast(self, x: TracedArray, dtype: object) -> TracedArray:
        """`x` in another dtype; the same values when it has it already."""
        target = dtypes.parse(dtype)
        if x.value.dtype == target:
            return TracedArray(self, x.value)
        if x.number is not None:
            return TracedArray(self, self.builder.constant(np.asarray(x.number, target.to_numpy())))
        return self.add("cast", x.value, dtype=target.name)


class TracedArray(NDArrayOperatorsMixin):
    """A tensor of the graph being traced. Assignment to it (`x[i] = v`, `x += v`) changes which value it holds.

    `weak` is the Python type of what was a Python number: it takes part in promotion as the number would. `number` is
    its value, where it is known.
    """

    __slots__ = ("number", "trace", "value", "weak")

    def __init__(
        self, trace: Trace, value: Value, weak: type | None = None, number: Number | None = None
    ) -> None:
        self.trace = trace
        self.value = value
        self.weak = weak
        self.number = number

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Extents: ints, or index expressions where dynamic."""
        return self.value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self.value.dtype.to_numpy()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.value.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        total: Dim = 1
        for extent in self.value.shape:
            total = total * extent
        return total

    @property
    def T(self) -> Any:
        """All axes reversed."""
        return np.transpose(self)  # type: ignore[call-overload]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A method of ndarray, by the table."""
        row = registry.METHODS.get(name)
        if row is None:
            raise AttributeError(f"lpx.jit does not support the array attribute {name!r}")

        def method(*args: Any, **kwargs: Any) -> Any:
            return row(self.trace, self, *args, **kwargs)

        return method

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Called by NumPy when a ufunc meets a traced array."""
        return dispatch_ufunc(self.trace, ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Called by NumPy when one of its functions meets a traced array."""
        return dispatch_function(self.trace, function, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        return registry.METHODS["__getitem__"](self.trace, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        registry.METHODS["__setitem__"](self.trace, self, key, value)

    def __len__(self) -> int:
        if not self.value.shape:
            raise TypeError("len() of a 0-d array")
        extent = self.value.shape[0]
        if not isinstance(extent, int):
            raise DefinitionError("the length of this array is dynamic", hint="use x.shape[0]", span=capture())
        return extent

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        raise _unknown_elements("a truth value", "use np.where(cond, a, b), or make the argument static")

    def __index__(self) -> int:
        raise _unknown_elements("a Python number", 'make the argument static: lpx.jit(static=("n",))')

    __int__ = __index__

    def __float__(self) -> float:
        raise _unknown_elements("a Python number", "keep it an array")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise _unknown_elements("a NumPy array", "use functions that NumPy dispatches (np.*), or lpx.nn")

    def __repr__(self) -> str:
        return f"TracedArray({self.value.type_text})"


def _unknown_elements(wanted: str, hint: str) -> DefinitionError:
    return DefinitionError(
        f"a traced array cannot become {wanted}: its elements are not known while the function is traced",
        hint=hint,
        span=capture(),
    )


def _holds_traced(x: object) -> bool:
    if isinstance(x, list | tuple):
        return any(_holds_traced(e) for e in x)
    return isinstance(x, TracedArray)


def dispatch_function(trace: Trace, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Apply a NumPy function by its row of the table.

    Raises: UnsupportedError when there is none, or when it does not take an argument that was given.
    """
    row = registry.FUNCTIONS.get(function)
    name = f"{function.__module__}.{function.__name__}".replace("numpy.", "np.", 1)
    if row is None:
        raise UnsupportedError(
            f"lpx.jit does not support {name}", hint="see the table of supported functions in the docs", span=capture()
        )
    return row(trace, *args, **kwargs)


def dispatch_ufunc(
    trace: Trace, ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Apply a ufunc (or its `reduce`, `accumulate`, `outer`) by the tables, with NumPy's own choice of loop dtypes."""
    if method != "__call__":
        return _dispatch_method(trace, ufunc, method, inputs, kwargs)
    row = registry.UFUNCS.get(ufunc)
    if row is None:
        raise UnsupportedError(f"lpx.jit does not support the ufunc np.{ufunc.__name__}", span=capture())
    rest = dict(kwargs)
    out, dtype = rest.pop("out", None), rest.pop("dtype", None)
    if rest:
        raise UnsupportedError(f"np.{ufunc.__name__} with {', '.join(sorted(rest))}= is not supported", span=capture())
    arrays = [trace.array(x) for x in inputs]
    loop = loop_dtypes(ufunc, arrays, dtype)
    values = [trace.cast(a, d).value for a, d in zip(arrays, loop, strict=False)]
    made = row(trace.builder, *values)
    made = made if isinstance(made, tuple) else (made,)
    results = [trace.cast(TracedArray(trace, v), d) for v, d in zip(made, loop[ufunc.nin :], strict=True)]
    if out is not None:
        results = [assign(target, result) for target, result in zip(out, results, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def assign(target: TracedArray | None, result: TracedArray) -> TracedArray:
    """Write `result` into a traced array given as `out=` (or the target of an augmented assignment)."""
    if target is None:
        return result
    if not np.can_cast(result.dtype, target.dtype, casting="same_kind"):
        raise DTypeError(f"cannot store {result.dtype} in an array of {target.dtype}", span=capture())
    stored = result.trace.cast(result, target.value.dtype)
    if stored.shape != target.shape:
        stored = stored.trace.add("broadcast", stored.value, shape=target.shape)
    target.value = stored.value
    return target


def loop_dtypes(ufunc: np.ufunc, arrays: Sequence[TracedArray], dtype: object = None) -> list[np.dtype[Any]]:
    """The dtypes NumPy computes this ufunc in: operands, then results. Python numbers stay weak (NEP 50).

    Raises: DTypeError when the ufunc does not take the operands.
    """
    operands = [a.dtype if a.weak is None or a.weak is bool else a.weak for a in arrays]
    wanted = {} if dtype is None else {"signature": (*(None,) * ufunc.nin, *(np.dtype(dtype),) * ufunc.nout)}
    try:
        resolved = ufunc.resolve_dtypes((*operands, *(None,) * ufunc.nout), **wanted)
    except TypeError as error:
        kinds = ", ".join(str(a.dtype) for a in arrays)
        raise DTypeError(f"np.{ufunc.__name__} does not take ({kinds})", span=capture()) from error
    return list(resolved)


_REDUCTIONS = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min}
_REDUCTIONS |= {np.logical_and: np.all, np.logical_or: np.any}
_ACCUMULATIONS = {np.add: np.cumsum, np.multiply: np.cumprod}


def _dispatch_method(
    trace: Trace, ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    if method == "reduce" and ufunc in _REDUCTIONS:
        return dispatch_function(trace, _REDUCTIONS[ufunc], inputs, {"axis": 0, **kwargs})
    if method == "accumulate" and ufunc in _ACCUMULATIONS:
        return dispatch_function(trace, _ACCUMULATIONS[ufunc], inputs, {"axis": 0, **kwargs})
    if method == "outer":
        a, b = (trace.array(x) for x in inputs)
        return dispatch_ufunc(trace, ufunc, "__call__", [a[(..., *(None,) * b.ndim)], b], kwargs)
    raise UnsupportedError(f"lpx.jit does not support np.{ufunc.__name__}.{method}", span=capture())
