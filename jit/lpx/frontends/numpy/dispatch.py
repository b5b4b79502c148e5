"""What NumPy calls when a ufunc or function meets a traced array: finding the row, dtypes, arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from lpx import dtypes
from lpx.errors import ArgumentError, DefinitionError, DTypeError, UnsupportedError
from lpx.frontends.numpy import registry
from lpx.frontends.numpy.registry import Function, name_of
from lpx.frontends.numpy.trace import Trace, TracedArray, assign
from lpx.graph.nodes import Value
from lpx.source import capture


@registry.protocol("__array_function__")
def dispatch_function(trace: Trace, function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Apply a NumPy function by its row of the table.

    Raises: UnsupportedError when there is none, or when it does not take an argument that was given.
    """
    row = registry.FUNCTIONS.get(function)
    if row is None:
        hint = registry.REFUSED.get(function, "see the table of supported functions in the docs")
        raise UnsupportedError(f"lpx.jit does not support {name_of(function)}", hint=hint, span=capture())
    try:
        bound = _signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{name_of(function)}: {error}", hint=f"it takes {_signature(function)}") from None
    taken = _signature(row).parameters
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional.extend(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif name in taken:
            named[name] = value
        elif not _is_default(value, parameter.default):
            raise _refused_argument(name_of(function), name)
    for name in named:
        if name not in taken:
            raise _refused_argument(name_of(function), name)
    return row(trace, *positional, **named)


@functools.cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _is_default(value: object, default: object) -> bool:
    """Whether an argument says no more than leaving it out would."""
    if value is None or value is default or repr(value) == "<no value>":
        return True
    return isinstance(value, str | int) and value == default


def _refused_argument(function: str, name: str) -> UnsupportedError:
    return UnsupportedError(
        f"lpx.jit does not support {function} with {name}=", hint=f"leave {name} out", span=capture()
    )


@registry.protocol("__array_ufunc__")
def dispatch_ufunc(trace: Trace, ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Apply a ufunc (or its `reduce`, `accumulate`, `outer`) by the tables, with NumPy's own choice of loop dtypes."""
    if method != "__call__":
        return _dispatch_method(trace, ufunc, method, inputs, kwargs)
    row = registry.UFUNCS.get(ufunc)
    if row is None:
        hint = "see the table of supported ufuncs in the docs"
        raise UnsupportedError(f"lpx.jit does not support the ufunc np.{ufunc.__name__}", hint=hint, span=capture())
    rest = {k: v for k, v in kwargs.items() if k not in ("out", "dtype", "where")}
    for name, value in rest.items():
        if not _is_default(value, {"casting": "same_kind", "order": "K", "subok": True}.get(name)):
            raise _refused_argument(f"np.{ufunc.__name__}", name)
    arrays = [trace.array(x) for x in inputs]
    results = _call(trace, ufunc, row, arrays, kwargs.get("dtype"))
    outs: Sequence[object] = kwargs.get("out") or (None,) * len(results)
    where = kwargs.get("where", True)
    results = [_store(trace, target, result, where) for target, result in zip(outs, results, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def _call(
    trace: Trace, ufunc: np.ufunc, row: registry.UfuncRow, arrays: Sequence[TracedArray], dtype: object
) -> list[TracedArray]:
    decided = _decided_comparison(trace, ufunc, arrays)
    if decided is not None:
        return [decided]
    if ufunc in (np.power, np.float_power) and (simple := _simple_power(arrays)) is not None:
        return [simple]
    loop = loop_dtypes(ufunc, arrays, dtype)
    values = [trace.cast(a, d).value for a, d in zip(arrays, loop, strict=False)]
    made = row(trace.builder, *values)
    outputs: tuple[Value, ...] = made if isinstance(made, tuple) else (made,)
    return [trace.cast(TracedArray(trace, v), d) for v, d in zip(outputs, loop[ufunc.nin :], strict=True)]


def _store(trace: Trace, target: object, result: TracedArray, where: object) -> TracedArray:
    if where is True:
        return result if target is None else assign(target, result)
    if not isinstance(target, TracedArray):
        raise UnsupportedError(
            "a ufunc with where= leaves elements undefined",
            hint="give out=, or use np.where(mask, a, b)",
            span=capture(),
        )
    return assign(target, cast("TracedArray", np.where(cast("Any", trace.array(where)), result, target)))


_COMPARISONS = {np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal}


def _decided_comparison(trace: Trace, ufunc: np.ufunc, arrays: Sequence[TracedArray]) -> TracedArray | None:
    """The comparison of an integer array with a Python integer beyond its dtype, which is the same everywhere."""
    if ufunc not in _COMPARISONS:
        return None
    for position, (number, other) in enumerate((arrays, arrays[::-1])):
        dtype = other.value.dtype
        if type(number.number) is not int or other.weak is not None or not dtype.is_integer:
            continue
        if dtype.min_value <= number.number <= dtype.max_value:
            continue
        sides = (number.number, 0) if position == 0 else (0, number.number)
        verdict = bool(ufunc(*(np.asarray(s, object) for s in sides)))
        return trace.add("broadcast", trace.number(verdict, "bool"), shape=other.shape)
    return None


def _simple_power(arrays: Sequence[TracedArray]) -> TracedArray | None:
    """The power of an array to a known exponent where that is a product or root, as NumPy's `**` computes it.

    Raises: DefinitionError for an integer to a negative integer power.
    """
    base, exponent = arrays
    power = exponent.number
    if power is None or isinstance(power, bool):
        return None
    kind = base.value.dtype
    if kind.is_float:
        simple: dict[float, Callable[[Any], Any]] = {
            -1: np.reciprocal,
            0: np.ones_like,
            0.5: np.sqrt,
            1: np.positive,
            2: np.square,
        }
        return cast("TracedArray", simple[power](base)) if power in simple else None
    if not isinstance(power, int) or not kind.is_integer or base.weak is not None:
        return None
    if power < 0:
        raise DefinitionError(
            "integers to negative integer powers are not allowed", hint="convert to floats first", span=capture()
        )
    return _integer_power(base, power)


def _integer_power(base: TracedArray, power: int) -> TracedArray:
    result: TracedArray | None = None
    factor = base
    while power:
        if power & 1:
            result = factor if result is None else result * factor
        power >>= 1
        factor = factor * factor if power else factor
    return cast("TracedArray", np.ones_like(cast("Any", base))) if result is None else +result


def loop_dtypes(ufunc: np.ufunc, arrays: Sequence[TracedArray], dtype: object = None) -> list[np.dtype[Any]]:
    """The dtypes NumPy computes this ufunc in: operands, then results. Python numbers stay weak (NEP 50).

    Raises: DTypeError when the ufunc does not take the operands.
    """
    is_strong = [a.weak in (None, bool) or _is_compared_number(ufunc, a) for a in arrays]
    if not any(is_strong):  # Python numbers alone are what np.asarray makes of them
        is_strong = [True] * len(arrays)
    operands = [a.dtype if strong else a.weak for a, strong in zip(arrays, is_strong, strict=True)]
    given: Any = (*operands, *(None,) * ufunc.nout)
    try:
        if dtype is None:
            return list(ufunc.resolve_dtypes(given))
        signature: Any = (*(None,) * ufunc.nin, *(as_dtype(dtype),) * ufunc.nout)
        return list(ufunc.resolve_dtypes(given, signature=signature))
    except TypeError as error:
        kinds = ", ".join(str(a.dtype) for a in arrays)
        raise DTypeError(
            f"np.{ufunc.__name__} does not take ({kinds})", hint="convert with .astype(...)", span=capture()
        ) from error


def _is_compared_number(ufunc: np.ufunc, x: TracedArray) -> bool:
    """Whether `x` is a Python integer not known yet that is compared: it may be beyond the other operand's dtype."""
    return ufunc in _COMPARISONS and x.weak is int and x.number is None


def as_dtype(dtype: object) -> np.dtype[Any]:
    """A NumPy dtype, of an element type lpx has.

    Raises: DTypeError when it has none.
    """
    return dtypes.parse(dtype).to_numpy()


_REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
_ACCUMULATIONS: dict[np.ufunc, Callable[..., Any]] = {np.add: np.cumsum, np.multiply: np.cumprod}


def _dispatch_method(
    trace: Trace, ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    given: dict[str, Any] = {"axis": 0, **kwargs}
    if isinstance(given.get("out"), tuple):
        (given["out"],) = given["out"]
    if method == "reduce" and ufunc in _REDUCTIONS:
        return dispatch_function(trace, _REDUCTIONS[ufunc], inputs, given)
    if method == "accumulate" and ufunc in _ACCUMULATIONS:
        return dispatch_function(trace, _ACCUMULATIONS[ufunc], inputs, given)
    if method == "outer":
        a, b = (trace.array(x) for x in inputs)
        return dispatch_ufunc(trace, ufunc, "__call__", [a[(..., *(None,) * b.ndim)], b], kwargs)
    raise UnsupportedError(
        f"lpx.jit does not support np.{ufunc.__name__}.{method}",
        hint="write it with ufuncs, np.sum, np.prod, np.max, np.min, np.cumsum or np.cumprod",
        span=capture(),
    )
