"""What a call's arguments are to the compiler: arrays of a dtype and shape, Python numbers, values compiled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from lpx import dtypes
from lpx.errors import ArgumentError, DefinitionError
from lpx.frontends.numpy.trace import Number
from lpx.records import record
from lpx.runtime.foreign import to_numpy

Dynamic = Mapping[str, Mapping[int, str]]
"""For each argument, the names of its symbolic dimensions: `{"x": {0: "n"}}`."""


@record
class ArrayArgument:
    """An argument that is an array at run time. `weak` names the Python type of a number."""

    name: str
    dtype: dtypes.DType
    shape: tuple[int | str, ...]
    weak: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.weak or self.dtype}[{', '.join(map(str, self.shape))}]"


@record
class StaticArgument:
    """An argument whose value is part of the compiled code; `kind` tells 1 from 1.0 and True."""

    name: str
    kind: type
    value: object

    def __str__(self) -> str:
        return f"{self.name}: {self.value!r}"


Abstract = tuple[ArrayArgument | StaticArgument, ...]
"""What a call is compiled for, as a hashable key."""


def is_python_number(value: object) -> TypeGuard[Number]:
    """Whether `value` is a bool, int or float of Python's own, which promotes weakly."""
    return isinstance(value, Number) and not isinstance(value, np.generic)


def abstract_arguments(
    names: Sequence[str], values: Sequence[Any], static: Sequence[str], dynamic: Dynamic
) -> tuple[Abstract, list[NDArray[Any]]]:
    """What the arguments are to the compiler, and the arrays among them.

    Raises: DefinitionError when a static argument cannot be hashed, ArgumentError for an argument that is no array.
    """
    kinds: list[ArrayArgument | StaticArgument] = []
    arrays: list[NDArray[Any]] = []
    for name, value in zip(names, values, strict=True):
        if name in static or _is_compiled_in(value):
            kinds.append(_static(name, value))
            continue
        array = _array_of(name, value)
        symbolic = dynamic.get(name, {})
        for axis in symbolic:
            if not 0 <= axis < array.ndim:
                raise ArgumentError(
                    f"dynamic= names axis {axis} of {name}, which has {array.ndim} dimension(s)",
                    hint="count axes from 0",
                )
        shape = tuple(symbolic.get(axis, extent) for axis, extent in enumerate(array.shape))
        weak = type(value).__name__ if is_python_number(value) else ""
        kinds.append(ArrayArgument(name, dtypes.parse(array.dtype), shape, weak))
        arrays.append(array)
    return tuple(kinds), arrays


def _array_of(name: str, value: object) -> NDArray[Any]:
    if is_python_number(value):
        number: NDArray[Any] = np.asarray(value)
        if number.dtype.hasobject:
            raise ArgumentError(f"{name} is the integer {value}, beyond 64 bits", hint="pass a float")
        return number
    try:
        return to_numpy(value, name)
    except ArgumentError as error:
        hint = f'{error.hint}; or name it in lpx.jit(static=("{name}",)), for a value to be compiled in'
        raise ArgumentError(error.message, hint=hint) from None


def _is_compiled_in(value: object) -> bool:
    """Whether `value` can only be part of the code: None, text, tuples, dtypes."""
    return value is None or isinstance(value, str | tuple | type | np.dtype)


def _static(name: str, value: object) -> StaticArgument:
    try:
        hash(value)
    except TypeError:
        raise DefinitionError(
            f"the static argument {name} is {value!r}, which cannot be hashed",
            hint="pass arrays as arguments of their own; make lists tuples",
        ) from None
    return StaticArgument(name, type(value), value)
