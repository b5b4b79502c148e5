"""Arrays of other libraries, through DLPack: into NumPy without a copy, and results back into the caller's kind.

NumPy's DLPack knows neither bfloat16 nor float8. Arrays of these travel as integers of the same width, which their
library can view them as (torch and JAX can).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import ArgumentError

Array = np.ndarray[Any, np.dtype[Any]]

_CPU_DEVICES = (1, 3, 11, 13)  # kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged
_AS_INTEGERS = {t.name: t for t in (dtypes.bfloat16, dtypes.float8_e4m3fn, dtypes.float8_e5m2)}


def to_numpy(value: Any, name: str, *, writable: bool = False) -> Array:
    """`value` as an ndarray that shares its memory: an ndarray, a Python or NumPy number, or a DLPack array on the CPU.

    With `writable`, one that can be written to where the library allows it. Raises ArgumentError, naming parameter
    `name`, for anything else.
    """
    if isinstance(value, np.ndarray):
        array = cast(Array, value)
        if hasattr(array, "mask"):  # asked without an import of numpy.ma, which takes a while
            hint = "pass a.filled(value) or a.data"
            raise ArgumentError(f"{name} is a masked array, whose mask would be ignored", hint=hint)
        return array if type(array) is np.ndarray else array.view(np.ndarray)
    if isinstance(value, (bool, int, float, np.generic)):
        return np.asarray(value)
    if not hasattr(value, "__dlpack__"):
        hint = "pass an ndarray, or any array that speaks DLPack"
        raise ArgumentError(f"{name} is a {type(value).__name__}, not an array", hint=hint)
    if not _is_on_cpu(value):
        raise ArgumentError(f"{name} lives on a device other than the CPU", hint="copy it to the CPU first")
    if getattr(value, "requires_grad", False):
        hint = f"pass {name}.detach(), which shares its memory"
        raise ArgumentError(f"{name} requires a gradient, and kernels record none", hint=hint)
    try:
        return _share(_plain(value, name, writable=writable), writable=writable)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        hint = "pass an ndarray that shares its memory"
        raise ArgumentError(f"{name} cannot be read as an array: {error}", hint=hint) from error


def result_kind(values: Sequence[Any]) -> Callable[[Array], Any]:
    """What turns a new ndarray into the kind of array that the first foreign one among `values` is.

    Else nothing does.
    """
    for value in values:
        if hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic)):
            library = _library(value)
            if hasattr(library, "from_dlpack"):
                return lambda array: _hand_over(array, library)
    return lambda array: array


def _is_on_cpu(value: Any) -> bool:
    device = getattr(value, "__dlpack_device__", None)
    try:
        return device is None or device()[0] in _CPU_DEVICES
    except (BufferError, ValueError):  # DLPack has no such device
        return False
    except RuntimeError:  # it has no memory at all; reading it says why
        return True


def _plain(value: Any, name: str, *, writable: bool) -> Any:
    """`value`, but a tensor that torch would negate when it is read, which its DLPack leaves out, as one negated."""
    is_negated = getattr(value, "is_neg", None)
    if is_negated is None or not is_negated():
        return value
    if writable:
        raise ArgumentError(f"{name} is negated when it is read", hint=f"pass {name}.resolve_neg()")
    return value.resolve_neg()


def _share(value: Any, *, writable: bool) -> Array:
    element = _travels_as_integers(str(getattr(value, "dtype", "")))
    if element is not None:
        integers = value.view(_integer(_library(value), element))
        return _share(integers, writable=writable).view(element.to_numpy())
    shared: Array = np.from_dlpack(value)
    if not writable or shared.flags.writeable:
        return shared
    # Before version 1, DLPack cannot say that memory may be written to; an array's own conversion can.
    own: Array = np.asarray(value)
    same = own.__array_interface__["data"][0] == shared.__array_interface__["data"][0]
    return own if same else shared


def _hand_over(array: Array, library: Any) -> Any:
    element = _travels_as_integers(array.dtype.name)
    if element is None:
        return library.from_dlpack(array)
    integers = library.from_dlpack(array.view(f"i{element.itemsize}"))
    return integers.view(getattr(library, element.name))


def _travels_as_integers(dtype: str) -> DType | None:
    """`dtype` may carry its library's name in front: torch.bfloat16."""
    return _AS_INTEGERS.get(dtype.rpartition(".")[2])


def _integer(library: Any, element: DType) -> Any:
    return getattr(library, f"int{element.bits}")


def _library(value: Any) -> Any:
    """The module that `value` comes from, as far as it can be told."""
    namespace = getattr(value, "__array_namespace__", None)
    return namespace() if namespace is not None else sys.modules.get(type(value).__module__.partition(".")[0])
