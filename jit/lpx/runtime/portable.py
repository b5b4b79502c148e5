"""The call path in plain Python, for interpreters whose object layouts lpx does not know.

Same meaning, some microseconds more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from lpx.runtime.signature import Parameter, Signature
from lpx.runtime.specialisation import Array, Specialisation


class PortableBase:
    """Stands in for the emitted type: calls run the first live specialisation that fits, else `fallback`."""

    fallback: Callable[..., Any]
    _live: tuple[Any, ...] | None = None
    _table: int = 0
    _positional_outputs: bool = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        live = self._live
        if live and kwargs.keys() <= {"out"}:
            for specialisation in live[:-1]:
                by_name = "out" in kwargs or not self._positional_outputs
                matched = _match(specialisation, args, kwargs.get("out"), by_name=by_name)
                if matched is not None:
                    return _launch(specialisation, *matched, kwargs.get("out"))
        return self.fallback(*args, **kwargs)


def _match(
    specialisation: Specialisation, args: tuple[Any, ...], out: Any, *, by_name: bool
) -> tuple[dict[str, Array], dict[str, int]] | None:
    """Arrays by parameter name and extents of a call that fits, or None."""
    signature = specialisation.signature
    values = _ordered(signature, args, out, by_name=by_name)
    if values is None:
        return None
    extents: dict[str, int] = {}
    buffers: dict[str, Array] = {}
    parameters = (*signature.inputs, *signature.outputs)
    for place, (parameter, value) in enumerate(zip(parameters, values, strict=False)):
        if place == len(signature.inputs):
            specialisation.derive_extents(extents)
        if not _fits(parameter, value, extents):
            return None
        buffers[parameter.name] = value
    if len(values) == len(signature.inputs):
        specialisation.derive_extents(extents)
    if min(extents.values(), default=0) < 0 or _overlap(specialisation, buffers):
        return None
    return buffers, extents


def _ordered(signature: Signature, args: tuple[Any, ...], out: Any, *, by_name: bool) -> tuple[Any, ...] | None:
    """Inputs, then outputs if they are given; None if the number is wrong."""
    inputs, outputs = len(signature.inputs), len(signature.outputs)
    if not by_name:
        return args if len(args) in (inputs, inputs + outputs) else None
    if len(args) != inputs:
        return None
    if out is None:
        return args
    if outputs == 1:
        return (*args, out)
    if type(out) is not tuple:
        return None
    given = cast(tuple[object, ...], out)
    return (*args, *given) if len(given) == outputs else None


def _fits(parameter: Parameter, value: Any, extents: dict[str, int]) -> bool:
    dtype = parameter.dtype.to_numpy()
    return (
        type(value) is np.ndarray
        and value.dtype.num == dtype.num
        and value.dtype.isnative
        and value.ndim == len(parameter.shape)
        and value.flags.c_contiguous
        and value.flags.aligned
        and (parameter.role == "in" or value.flags.writeable)
        and all(
            (extents.setdefault(wanted, extent) if isinstance(wanted, str) else wanted) == extent
            for wanted, extent in zip(parameter.shape, value.shape, strict=True)
        )
    )


def _overlap(specialisation: Specialisation, buffers: dict[str, Array]) -> bool:
    """Whether an array that is written shares memory with another one."""
    written = {p.name for p in specialisation.signature.parameters if p.role in ("inout", "out")}
    everything = {**buffers, **specialisation.bound}
    return any(
        name != other and np.may_share_memory(buffers[name], array)
        for name in written & buffers.keys()
        for other, array in everything.items()
    )


def _launch(specialisation: Specialisation, buffers: dict[str, Array], extents: dict[str, int], out: Any) -> Any:
    outputs = specialisation.signature.outputs
    for p in outputs:
        if p.name not in buffers:
            shape = [extents[d] if isinstance(d, str) else d for d in p.shape]
            buffers[p.name] = np.empty(shape, p.dtype.to_numpy())
    specialisation.launch(buffers, extents)
    if type(out) is tuple:
        return cast(tuple[object, ...], out)
    results = tuple(buffers[p.name] for p in outputs)
    return results[0] if len(results) == 1 else results or None
