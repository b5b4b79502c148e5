"""Typing of calls: which specialisations of an lpx function numba's types of the arguments fit, and what comes back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, cast

from lpx.errors import ArgumentError
from lpx.interop.numba.library import CallableType, errors, numpy_support, templates, types
from lpx.runtime.arrays import bind_arguments
from lpx.runtime.native import NativeFunction
from lpx.runtime.signature import Parameter, Signature
from lpx.runtime.specialisation import Specialisation


class NativeType(CallableType):
    """The type, in numba, of one kernel or `lpx.jit` function, which it keeps alive.

    In the signature of a call, `keywords` are the names of the last arguments.
    """

    def __init__(self, function: NativeFunction, keywords: tuple[str, ...] = ()) -> None:
        self.function = function
        self.keywords = keywords
        super().__init__(f"lpx function {name_of(function)}({', '.join(keywords)}) at {id(function):#x}")

    def get_call_type(self, context: Any, args: Sequence[Any], kws: Mapping[str, Any]) -> Any:
        """numba's signature of a call; its TypingError names the argument that does not fit, and the remedy."""
        del context
        found = candidates(self.function, args, kws)
        result = _result_type(self.function, found[0].signature, args, kws)
        names = (*(f"_{place}" for place in range(len(args))), *kws)
        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        made = templates.signature(result, *args, *kws.values(), recvr=NativeType(self.function, tuple(kws)))
        return made.replace(pysig=inspect.Signature(parameters))

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """For numba's messages: no fixed list."""
        return [], True

    def get_impl_key(self, sig: Any) -> type:
        """Every call of every function is lowered the same way."""
        del sig
        return type(self)


def name_of(function: NativeFunction) -> str:
    """What messages call it."""
    live = function.specialisations
    return live[0].signature.name if live else str(getattr(function, "__name__", "function"))


def is_array(given: Any) -> TypeGuard[Any]:
    """Whether a type of numba's is that of an array."""
    return isinstance(given, types.Array)


def candidates(function: NativeFunction, args: Sequence[Any], kws: Mapping[str, Any]) -> list[Specialisation]:
    """The specialisations whose parameters have the dtypes and ranks of the arguments' types; at least one.

    All of them return arrays of the same dtypes and ranks. Raises numba's TypingError.
    """
    live = function.specialisations
    if not live:
        raise errors.TypingError(
            f"{name_of(function)} is not compiled for any arrays yet: call it once from Python with arrays such as "
            "these (no Python numbers, and nothing from outside that may change), before the function that uses it is "
            "compiled"
        )
    reasons = [_misfit(function, s.signature, args, kws) for s in live]
    found = [s for s, reason in zip(live, reasons, strict=True) if not reason]
    if not found:
        raise errors.TypingError("\n".join(dict.fromkeys(reasons)))
    return [s for s in found if _kinds(s.signature.outputs) == _kinds(found[0].signature.outputs)]


def bind(
    function: NativeFunction, signature: Signature, args: Sequence[Any], kws: Mapping[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs among the arguments, None for an output that is to be made; `out` may be a tuple.

    Raises ArgumentError.
    """
    if function.takes_outputs_by_position:
        return bind_arguments(signature, args, kws)
    if len(args) > len(signature.inputs):
        raise ArgumentError(
            f"{signature.name} takes {len(signature.inputs)} arguments, {len(args)} were given",
            hint="give outputs as out=",
        )
    inputs, _ = bind_arguments(signature, args, {name: given for name, given in kws.items() if name != "out"})
    out = kws.get("out", (None,) * len(signature.outputs))
    outputs = list(cast("Any", out)) if isinstance(out, tuple) else [out]
    if len(outputs) != len(signature.outputs):
        raise ArgumentError(
            f"{signature.name} has {len(signature.outputs)} results, out= gives {len(outputs)}",
            hint="give one array per result",
        )
    return inputs, outputs


def _misfit(function: NativeFunction, signature: Signature, args: Sequence[Any], kws: Mapping[str, Any]) -> str:
    """Why a call does not fit a signature; empty if it does."""
    try:
        inputs, outputs = bind(function, signature, args, _spread(kws))
    except ArgumentError as error:
        return f"{error.message}; {error.hint}"
    given = [*zip(signature.inputs, inputs, strict=True)]
    given += [(p, t) for p, t in zip(signature.outputs, outputs, strict=True) if t is not None]
    for parameter, kind in given:
        reason = _misfit_of(parameter, kind)
        if reason:
            return f"{signature.name}: {parameter.name} {reason}"
    for parameter, kind in zip(signature.outputs, outputs, strict=True):
        if kind is None and _element_type(parameter) is None:
            return f"{signature.name}: numba has no arrays of {parameter.dtype}, which {parameter.name} is"
    return ""


def _misfit_of(parameter: Parameter, given: Any) -> str:
    element = _element_type(parameter)
    if element is None:
        return f"is of {parameter.dtype}, which numba has no arrays of: call the kernel from Python"
    if takes_number(parameter, given):
        return ""
    rank = len(parameter.shape)
    if not is_array(given):
        return f"is {given}, not an array: pass a C-contiguous array of {parameter.dtype} with {rank} dimension(s)"
    if given.dtype != element:
        return f"has dtype {given.dtype}, {parameter.dtype} is expected: convert it with astype(np.{parameter.dtype})"
    if given.ndim != rank:
        return f"has rank {given.ndim}, {rank} is expected: reshape it"
    if given.layout != "C" or not given.aligned:
        return f"is {given}, not known to be C-contiguous: pass np.ascontiguousarray({parameter.name})"
    if parameter.role != "in" and not given.mutable:
        return "is read-only, and the kernel writes to it: pass a copy"
    return ""


def takes_number(parameter: Parameter, given: Any) -> bool:
    """Whether a number of numba's type `given` may stand for a parameter of rank 0; it takes the parameter's dtype.

    That must be of the same kind, as `np.can_cast(..., "same_kind")` has it, or a wider one.
    """
    if parameter.shape or parameter.role != "in" or not isinstance(given, types.Boolean | types.Integer | types.Float):
        return False
    kinds = ["bool", "integer", "float"]
    return kinds.index(_kind_of(given)) <= kinds.index(_kind_of(_element_type(parameter)))


def _kind_of(given: Any) -> str:
    if isinstance(given, types.Boolean):
        return "bool"
    return "integer" if isinstance(given, types.Integer) else "float"


def _element_type(parameter: Parameter) -> Any:
    """numba's type of the elements; None where it has none."""
    try:
        return numpy_support.from_dtype(parameter.dtype.to_numpy())
    except errors.NumbaNotImplementedError:
        return None


def array_type(parameter: Parameter) -> Any:
    """numba's type of a new array for an output."""
    return types.Array(_element_type(parameter), len(parameter.shape), "C")


def _result_type(function: NativeFunction, signature: Signature, args: Sequence[Any], kws: Mapping[str, Any]) -> Any:
    _, outputs = bind(function, signature, args, _spread(kws))
    results = [array_type(p) if t is None else t for p, t in zip(signature.outputs, outputs, strict=True)]
    if not results:
        return types.none
    return results[0] if len(results) == 1 else types.Tuple(results)


def _spread(kws: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments with an `out` of several arrays as a Python tuple of their types, and None left out."""
    given = {name: tuple(t) if isinstance(t, types.BaseTuple) else t for name, t in kws.items()}
    return {name: t for name, t in given.items() if not isinstance(t, types.NoneType)}


def _kinds(parameters: Sequence[Parameter]) -> list[tuple[str, int]]:
    return [(p.dtype.name, len(p.shape)) for p in parameters]
