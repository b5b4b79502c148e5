"""One kernel ready to run: linked code, its signature, and the record that the native call path reads."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from lpx.errors import InternalError, RuntimeCheckError
from lpx.runtime.emitted.layout import ARGUMENT, BOUND, SPECIALISATION, argument_flags
from lpx.runtime.objects import LinkedObject
from lpx.runtime.signature import Parameter, Signature
from lpx.runtime.support import support_library
from lpx.source import capture

Array = np.ndarray[Any, np.dtype[Any]]

_ENTER = ctypes.PYFUNCTYPE(None)
_DERIVE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_SHORT = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_LONG = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)  # releases the GIL

INTERRUPTED, OUT_OF_MEMORY = -1, -2


class Specialisation:
    """A linked kernel with everything a call needs.

    `code` exports `entry`, by default `signature.name`: `i32 entry(ptr slots)`. `bound` gives an array for each
    parameter of role `bound`; it is kept alive, and read at call time. `derive` names an exported `void derive(ptr
    extents)` that fills the derived extents, which stand behind the free ones. `long` says that the kernel runs long
    enough to release the GIL for, and may be interrupted.

    Raises InternalError when `bound` does not fit the signature.
    """

    __slots__ = ("__weakref__", "_record", "bound", "code", "derive", "entry", "long", "signature")

    def __init__(
        self,
        signature: Signature,
        code: LinkedObject,
        *,
        entry: str = "",
        bound: Mapping[str, Array] | None = None,
        derive: str = "",
        long: bool = False,
    ) -> None:
        if bool(derive) != bool(signature.derived):
            raise InternalError(f"{signature.name} needs a derive function just when it has derived extents")
        self.signature = signature
        self.code = code
        self.entry = code.address(entry or signature.name)
        self.derive = code.address(derive) if derive else 0
        self.bound = _checked_bound(signature, bound or {})
        self.long = long
        self._record = self._encode()

    @property
    def address(self) -> int:
        """Where the record is that the native call path reads."""
        return ctypes.addressof(self._record)

    @property
    def slots(self) -> int:
        """64-bit slots the kernel takes, and scratch places for derived extents."""
        return len(self.signature.parameters) + len(self.signature.extents) + len(self.signature.derived)

    @property
    def arguments(self) -> int:
        """Arguments of a call that gives every output."""
        return len(self.signature.inputs) + len(self.signature.outputs)

    def derive_extents(self, extents: dict[str, int]) -> None:
        """Adds the derived extents to the free ones."""
        if not self.derive:
            return
        names = (*self.signature.extents, *self.signature.derived)
        values = (ctypes.c_int64 * len(names))(*(extents.get(name, 0) for name in names))
        _DERIVE(self.derive)(ctypes.addressof(values))
        extents.update(zip(names, values, strict=True))

    def launch(self, buffers: Mapping[str, Array], extents: Mapping[str, int]) -> None:
        """Runs the kernel on arrays that are known to fit, by parameter name: the way in for calls that start in
        Python.

        Raises what `fail` raises.
        """
        arrays = {**self.bound, **buffers}
        pointers = [arrays[p.name].__array_interface__["data"][0] for p in self.signature.parameters]
        values = [*pointers, *(extents[name] for name in self.signature.extents)]
        slots = (ctypes.c_int64 * len(values))(*values)
        status = self._run_long(slots) if self.long else _SHORT(self.entry)(ctypes.addressof(slots))
        if status:
            self.fail(status)

    def _run_long(self, slots: Any) -> int:
        support = support_library()
        _ENTER(support.address("lpx_long_enter"))()
        try:
            return int(_LONG(self.entry)(ctypes.addressof(slots)))
        finally:
            _ENTER(support.address("lpx_long_leave"))()

    def fail(self, status: int) -> NoReturn:
        """Raises what a kernel's non-zero status means."""
        name = self.signature.name
        if status == INTERRUPTED:
            _raise_pending_signal()
            raise KeyboardInterrupt
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"{name}: no memory for scratch buffers")
        if 1 <= status <= len(self.signature.checks):
            raise RuntimeCheckError(
                f"{name}: {self.signature.checks[status - 1]}",
                hint="guard it by a condition (te.where, np.where), or pass other data",
                span=capture(),
            )
        raise InternalError(f"{name} returned status {status}, which none of its checks has")

    def _encode(self) -> Any:
        signature = self.signature
        inputs, outputs = signature.inputs, signature.outputs
        bound = [(slot, p) for slot, p in enumerate(signature.parameters) if p.role == "bound"]
        record = bytearray(SPECIALISATION.size)
        SPECIALISATION.write(
            record,
            0,
            owner=id(self),
            entry=self.entry,
            derive=self.derive,
            inputs=len(inputs),
            outputs=len(outputs),
            in_outs=sum(parameter.role == "inout" for parameter in inputs),
            buffers=len(signature.parameters),
            free_extents=len(signature.extents),
            derived_extents=len(signature.derived),
            bound=len(bound),
            long=self.long,
        )
        for parameter in (*inputs, *outputs):
            record += self._encode_argument(parameter)
        for slot, parameter in bound:
            array = self.bound[parameter.name]
            entry = bytearray(BOUND.size)
            BOUND.write(entry, 0, slot=slot, data=array.__array_interface__["data"][0], bytes=array.nbytes)
            record += entry
        return (ctypes.c_char * len(record)).from_buffer(record)

    def _encode_argument(self, parameter: Parameter) -> bytes:
        signature = self.signature
        dtype = parameter.dtype.to_numpy()
        record = bytearray(ARGUMENT.size)
        ARGUMENT.write(
            record,
            0,
            descr=id(dtype),  # kept alive by the cache behind `to_numpy`
            itemsize=dtype.itemsize,
            number=dtype.num,
            ndim=len(parameter.shape),
            flags=argument_flags(written=parameter.role != "in"),
            slot=signature.parameters.index(parameter),
        )
        places = {name: -1 - place for place, name in enumerate((*signature.extents, *signature.derived))}
        for dimension in parameter.shape:
            extent = places[dimension] if isinstance(dimension, str) else dimension
            record += extent.to_bytes(8, "little", signed=True)
        return bytes(record)


def _checked_bound(signature: Signature, bound: Mapping[str, Array]) -> dict[str, Array]:
    wanted = {parameter.name: parameter for parameter in signature.parameters if parameter.role == "bound"}
    if wanted.keys() != bound.keys():
        raise InternalError(f"{signature.name} binds {sorted(wanted)}, was given {sorted(bound)}")
    for name, array in bound.items():
        parameter = wanted[name]
        if array.shape != parameter.shape or array.dtype != parameter.dtype.to_numpy():
            raise InternalError(f"{parameter} of {signature.name} cannot be bound to {array.dtype}{list(array.shape)}")
        if not (array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative):
            raise InternalError(f"{parameter} of {signature.name} must be bound to a contiguous array")
    return dict(bound)


def _raise_pending_signal() -> None:
    """Runs Python's handlers of signals that arrived meanwhile; they may raise."""
    ctypes.pythonapi.PyErr_CheckSignals()
