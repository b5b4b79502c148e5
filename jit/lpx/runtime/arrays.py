"""The generic call path: any array, any strides, any byte order, in plain Python around the same machine code.

A call that the native path does not take ends here. Arguments become what the kernel wants, by view where possible and
by copy where not; the kernel runs on those; outputs are copied back to where the caller wants them. Arrays that overlap
behave as if inputs had been copied first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from lpx.errors import ArgumentError
from lpx.runtime.foreign import result_kind, to_numpy
from lpx.runtime.signature import Parameter, Signature
from lpx.runtime.specialisation import Array, Specialisation


def call(specialisation: Specialisation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Calls a kernel with any arrays that have its dtypes and shapes; `kwargs` may name parameters, or `out`.

    Returns the given outputs, or new ones of the first foreign argument's kind (torch, any DLPack library), else
    NumPy's. Raises ArgumentError naming the parameter, what was given and what is expected.
    """
    signature = specialisation.signature
    inputs, outs = bind_arguments(signature, args, kwargs)
    extents: dict[str, int] = {}
    arrays = [
        check_array(signature, p, to_numpy(v, p.name, writable=p.role == "inout"), extents)
        for p, v in zip(signature.inputs, inputs, strict=True)
    ]
    specialisation.derive_extents(extents)
    given = [
        None if v is None else check_array(signature, p, to_numpy(v, p.name, writable=True), extents)
        for p, v in zip(signature.outputs, outs, strict=True)
    ]
    results = _run(specialisation, arrays, given, extents)
    wrap = result_kind(inputs)
    returned = [wrap(new) if out is None else out for new, out in zip(results, outs, strict=True)]
    if not returned:
        return None
    return returned[0] if len(returned) == 1 else tuple(returned)


def bind_arguments(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The arguments in parameter order: inputs, and outputs with None for each that is not given.

    Raises ArgumentError for a missing, surplus, doubled or unknown argument.
    """
    inputs, outputs = signature.inputs, signature.outputs
    parameters = (*inputs, *outputs)
    if len(args) > len(parameters):
        raise ArgumentError(
            f"{signature.name} takes at most {len(parameters)} arguments, {len(args)} were given", hint=str(signature)
        )
    values = {p.name: value for p, value in zip(parameters, args, strict=False)}
    keywords = dict(kwargs)
    if "out" in keywords and "out" not in {p.name for p in parameters}:
        keywords |= _named_outputs(signature, keywords.pop("out"))
    for name, value in keywords.items():
        if name not in {p.name for p in parameters}:
            raise ArgumentError(f"{signature.name} has no parameter {name!r}", hint=str(signature))
        if values.get(name) is not None:
            raise ArgumentError(f"{signature.name} was given {name!r} twice", hint=str(signature))
        values[name] = value
    missing = [p.name for p in inputs if p.name not in values]
    if missing:
        raise ArgumentError(f"{signature.name} was not given {', '.join(missing)}", hint=str(signature))
    return [values[p.name] for p in inputs], [values.get(p.name) for p in outputs]


def check_array(signature: Signature, parameter: Parameter, array: Array, extents: dict[str, int]) -> Array:
    """`array`, if its dtype and shape are those of `parameter`; binds symbolic extents seen for the first time.

    A number passed for a parameter of rank 0 takes its dtype. Byte order and strides are free. Raises ArgumentError.
    """
    dtype = parameter.dtype.to_numpy()
    if (
        array.ndim == 0
        and not parameter.shape
        and np.can_cast(array.dtype, dtype, "same_kind")
        and parameter.role == "in"
    ):
        return array.astype(dtype)
    if array.dtype.newbyteorder("=") != dtype:
        _refuse(signature, parameter, array, extents, f"has dtype {array.dtype}", f"convert it with astype({dtype})")
    if array.ndim != len(parameter.shape):
        _refuse(signature, parameter, array, extents, f"has rank {array.ndim}", "give it the rank that is expected")
    for axis, (wanted, extent) in enumerate(zip(parameter.shape, array.shape, strict=True)):
        known = extents.setdefault(wanted, extent) if isinstance(wanted, str) else wanted
        if known != extent:
            _refuse(
                signature,
                parameter,
                array,
                extents,
                f"has extent {extent} on axis {axis}",
                f"axis {axis} must have extent {known}",
            )
    if parameter.role != "in" and not array.flags.writeable:
        _refuse(signature, parameter, array, extents, "is read-only", "the kernel writes to it")
    if parameter.role != "in" and any(s == 0 and e > 1 for s, e in zip(array.strides, array.shape, strict=True)):
        _refuse(signature, parameter, array, extents, "repeats elements in memory", "give it memory of its own")
    return array


def _named_outputs(signature: Signature, out: Any) -> dict[str, Any]:
    names = [p.name for p in signature.outputs]
    if out is None:
        return {}
    given: Sequence[object] = cast(Sequence[object], out) if isinstance(out, (tuple, list)) else [out]
    if len(given) != len(names):
        raise ArgumentError(f"{signature.name} has {len(names)} outputs, out= gives {len(given)}", hint=str(signature))
    return dict(zip(names, given, strict=True))


def _run(
    specialisation: Specialisation, inputs: Sequence[Array], outputs: Sequence[Array | None], extents: Mapping[str, int]
) -> list[Array]:
    """Runs the kernel on plain arrays and returns its outputs.

    A written array that is not plain, or shares memory with another argument, is replaced by a temporary and copied
    back to at the end.
    """
    signature = specialisation.signature
    given = [*zip(signature.inputs, inputs, strict=True)]
    given += [(p, a) for p, a in zip(signature.outputs, outputs, strict=True) if a is not None]
    buffers: dict[str, Array] = {}
    copied_back: list[tuple[Array, Array]] = []
    for parameter, array in given:
        others = [other for p, other in given if p is not parameter]
        shared = parameter.role != "in" and any(
            np.may_share_memory(array, other) for other in (*others, *specialisation.bound.values())
        )
        if shared:
            _check_apart(signature, parameter, array, given)
        plain = None if shared else _as_plain(parameter, array)
        if plain is None:
            plain = _temporary(parameter, array)
            if parameter.role != "in":
                copied_back.append((array, plain))
        buffers[parameter.name] = plain
    for parameter in signature.outputs:
        if parameter.name not in buffers:
            buffers[parameter.name] = _new_output(signature, parameter, extents)
    specialisation.launch(buffers, extents)
    for target, source in copied_back:
        np.copyto(target, source)
    return [buffers[p.name] for p in signature.outputs]


def _as_plain(parameter: Parameter, array: Array) -> Array | None:
    """`array`, if kernels can take its memory as it is."""
    dtype = parameter.dtype.to_numpy()
    if not (array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative):
        return None
    return array if array.dtype is dtype else array.view(dtype)


def _temporary(parameter: Parameter, array: Array) -> Array:
    """A plain array in the place of `array`, with its values unless the kernel only writes."""
    dtype = parameter.dtype.to_numpy()
    return np.empty(array.shape, dtype) if parameter.role == "out" else np.array(array, dtype, order="C")


def _check_apart(
    signature: Signature, parameter: Parameter, array: Array, given: Sequence[tuple[Parameter, Array]]
) -> None:
    for other, second in given:
        if other is not parameter and other.role != "in" and np.shares_memory(array, second):
            raise ArgumentError(
                f"{signature.name} writes both {parameter.name} and {other.name}, which share memory",
                hint="give it two arrays that do not overlap",
            )


def _new_output(signature: Signature, parameter: Parameter, extents: Mapping[str, int]) -> Array:
    shape = [extents[d] if isinstance(d, str) else d for d in parameter.shape]
    if any(extent < 0 for extent in shape):
        raise ArgumentError(
            f"{signature.name} would return {parameter.name} with the shape {shape}", hint="pass larger arrays"
        )
    return np.empty(shape, parameter.dtype.to_numpy())


def _refuse(
    signature: Signature, parameter: Parameter, array: Array, extents: Mapping[str, int], fault: str, hint: str
) -> NoReturn:
    dimensions = [f"{d}={extents[d]}" if isinstance(d, str) and d in extents else str(d) for d in parameter.shape]
    raise ArgumentError(
        f"{signature.name}: {parameter.name} {fault}: {array.dtype}{list(array.shape)} was given, "
        f"{parameter.dtype}[{', '.join(dimensions)}] is expected",
        hint=hint,
    )
