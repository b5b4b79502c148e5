"""Functions of arrays that trace where they meet traced arrays and compile themselves elsewhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from lpx.errors import ArgumentError, DTypeError, ShapeError
from lpx.frontends.numpy.functions.shaping import reshaped
from lpx.frontends.numpy.jit import JitFunction
from lpx.frontends.numpy.trace import TracedArray
from lpx.graph import shapes
from lpx.source import capture

P = ParamSpec("P")
R = TypeVar("R")
Array = Any
"""A traced array, an ndarray or any array that speaks DLPack."""


class Primitive(JitFunction):
    """A function of arrays. Its parameters that are annotated as arrays are run-time arguments, all others static.

    Every primitive has a parameter `out`, which its readers and type checkers see and its code never does: the call
    writes what the code returns.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        parameters = inspect.signature(function).parameters
        super().__init__(function, static=[name for name, p in parameters.items() if not _is_array(p)])
        self._signature = inspect.Signature([p for p in parameters.values() if p.name != "out"])


def _is_array(parameter: inspect.Parameter) -> bool:
    return str(parameter.annotation).split(" | ")[0] == "Array"


def primitive(function: Callable[P, R]) -> Callable[P, R]:
    """A `Primitive`, with the type of the function it was made from."""
    made: Any = Primitive(function)
    return made  # type: ignore[no-any-return]


def traced(*arrays: Array) -> list[TracedArray]:
    """The arrays as traced arrays.

    Raises: ArgumentError when there is no array among them.
    """
    trace = next((x.owner for x in arrays if isinstance(x, TracedArray)), None)
    if trace is None:
        raise ArgumentError(f"{arrays[0]!r} is not an array", hint="pass an array of floats", span=capture())
    return [trace.array(x) for x in arrays]


def floats(name: str, x: Array) -> TracedArray:
    """`x`, which must hold floats.

    Raises: DTypeError otherwise.
    """
    (array,) = traced(x)
    if not array.value.dtype.is_float:
        raise DTypeError(
            f"{name} takes floats, not {array.value.dtype}", hint='convert: x.astype("float32")', span=capture()
        )
    return array


def same_dtype(name: str, *arrays: TracedArray) -> None:
    """Check that arrays agree in their dtype.

    Raises: DTypeError where they do not.
    """
    if len({a.value.dtype for a in arrays}) > 1:
        found = ", ".join(str(a.value.dtype) for a in arrays)
        raise DTypeError(f"{name} of {found}", hint="convert to one dtype: .astype(...)", span=capture())


def check_rank(name: str, x: TracedArray, layout: str) -> None:
    """Check that `x` has a dimension per word of `layout`, such as "batch channels height width".

    Raises: ShapeError otherwise.
    """
    if x.ndim != len(layout.split()):
        raise ShapeError(
            f"{name} takes an array [{', '.join(layout.split())}], not one of shape {shapes.shape_text(x.shape)}",
            hint="reshape it, with extents 1 for axes that are missing",
            span=capture(),
        )


def per_axis(value: int | Sequence[int], count: int, name: str, least: int = 0) -> tuple[int, ...]:
    """One number for each of `count` spatial axes: `value` repeated, or as many values as there are axes.

    Raises: ShapeError for another number of values, or for one below `least`.
    """
    values = (int(value),) * count if isinstance(value, int | np.integer) else tuple(map(int, value))
    if len(values) != count:
        raise ShapeError(f"{name} is {value!r}", hint=f"give an int, or one for each of {count} axes", span=capture())
    if min(values) < least:
        raise ShapeError(f"{name} is {values}", hint=f"it must be at least {least}", span=capture())
    return values


def per_channel(name: str, x: TracedArray, values: Array) -> TracedArray:
    """`values[c]` of the dtype of x[n, c, ...], so that they broadcast to it.

    Raises: DTypeError, ShapeError.
    """
    given = x.owner.array(values)
    same_dtype(name, x, given)
    if given.ndim != 1 or not shapes.same_dim(given.shape[0], x.shape[1]):
        raise ShapeError(
            f"{name} of {x.shape[1]} channels takes one number per channel, not {shapes.shape_text(given.shape)}",
            hint="give an array of one dimension",
            span=capture(),
        )
    return reshaped(given, (*given.shape, *(1,) * (x.ndim - 2)))
