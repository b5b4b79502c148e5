"""Calls that give options beside arrays, straight to machine code.

A call of arrays alone is matched in machine code. One such as `softmax(x, axis=0)` is first known by its options, which
name a native function of the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from lpx.records import record
from lpx.runtime.native import NativeFunction
from lpx.runtime.specialisation import Specialisation

_ARRAY = object()
"""Stands for an array among options."""

General = Callable[[Sequence[Any], Mapping[str, Any]], Any]
"""Makes any call, given its positional and keyword arguments."""


@record
class SplitCall:
    """A call taken apart: options by which it is known, its arrays in the order of the parameters, and `out`."""

    options: tuple[Any, ...]
    arrays: list[Any]
    out: dict[str, Any]


class OptionTable:
    """The native functions that serve calls with options; `general` makes the calls that none of them fits."""

    def __init__(self, parameters: Sequence[str], general: General) -> None:
        self._place = {name: place for place, name in enumerate(parameters)}
        self._general = general
        self._functions: dict[tuple[Any, ...], NativeFunction] = {}

    def call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Make a call."""
        split = self._split(args, kwargs) if self._functions else None
        function = None if split is None else self._functions.get(split.options)
        if split is None or function is None:
            return self._general(args, kwargs)
        return function(*split.arrays, **split.out)

    def add(self, args: Sequence[Any], kwargs: Mapping[str, Any], specialisation: Specialisation) -> None:
        """Let `specialisation`, of the arrays of a call in the order of the parameters, serve calls with its options.

        A call whose arguments are arrays by another way than being ndarrays is none of these.
        """
        split = self._split(args, kwargs)
        if split is None or len(split.arrays) != len(specialisation.signature.inputs):
            return
        function = self._functions.get(split.options)
        if function is None:
            function = NativeFunction(self._with_options(args, kwargs), positional_outputs=False)
            self._functions[split.options] = function
        if specialisation not in function.specialisations:
            function.add(specialisation)

    def _split(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> SplitCall | None:
        """A call by its options and arrays; None where an option cannot be hashed, or has a name that no parameter has.

        1, 1.0 and True are options apart.
        """
        options: list[Any] = []
        arrays: list[Any] = []
        named = [name for name in kwargs if name != "out"]
        if not all(name in self._place for name in named):
            return None
        named.sort(key=self._place.__getitem__)
        for value in (*args, *(kwargs[name] for name in named)):
            if type(value) is np.ndarray:
                options.append(_ARRAY)
                arrays.append(value)
            else:
                options += (type(value), value)
        known = (*options, len(args), *named)
        try:
            hash(known)
        except TypeError:
            return None
        return SplitCall(known, arrays, {"out": kwargs["out"]} if "out" in kwargs else {})

    def _with_options(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[..., Any]:
        """A function of the arrays of a call that makes it with the same options."""
        named = sorted((name for name in kwargs if name != "out"), key=self._place.__getitem__)
        options = [_option(value) for value in args], {name: _option(kwargs[name]) for name in named}

        def call(*arrays: Any, **out: Any) -> Any:
            rest = iter(arrays)
            positional = [next(rest) if value is _ARRAY else value for value in options[0]]
            return self._general(
                positional, {**{k: next(rest) if v is _ARRAY else v for k, v in options[1].items()}, **out}
            )

        return call


def _option(value: Any) -> Any:
    """What is kept of an argument: nothing of an array."""
    return _ARRAY if type(cast(object, value)) is np.ndarray else value
