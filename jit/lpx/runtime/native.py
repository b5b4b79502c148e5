"""Callables whose calls CPython makes straight into machine code.

    function = NativeFunction(fallback)      # fallback(*args, **kwargs) takes every call that fits no specialisation
    function.add(specialisation)
    function(a, b); function(a, b, out); function(a, b, out=out)

Subclass it, or set attributes on instances, to build more; neither costs a call anything.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lpx.runtime import layout_check
from lpx.runtime.emitted.layout import HAVE_VECTORCALL, TABLE
from lpx.runtime.portable import PortableBase
from lpx.runtime.specialisation import Specialisation
from lpx.runtime.support import entry_library

if TYPE_CHECKING:

    class NativeBase:
        """The emitted type: calls run the first specialisation in `_table` that fits, else `fallback`."""

        fallback: Callable[..., Any]
        _live: tuple[Any, ...] | None
        _table: int

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

else:

    def _make_base():
        if not layout_check.layouts_hold():
            return PortableBase
        make = ctypes.pythonapi.PyType_FromSpec
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
        return make(entry_library().address("lpx_type_spec"))

    NativeBase = _make_base()


class NativeFunction(NativeBase):
    """A callable over a list of specialisations, tried in the order they were added.

    A call with exactly the arrays a specialisation is for (plain, native-endian, C-contiguous ndarrays of its dtypes
    and shapes, outputs writable and apart from all other arguments) runs it without any Python code; every other call
    is `fallback(*args, **kwargs)`. Results: the outputs as a tuple, a single one alone, None if there are none; given
    outputs are returned themselves. They are given as `out=`, or behind the inputs unless `positional_outputs` is off.
    """

    def __init__(self, fallback: Callable[..., Any], *, positional_outputs: bool = True) -> None:
        self.fallback = fallback
        self._positional_outputs = positional_outputs
        self._lock = threading.Lock()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _enable_vectorcall(cls)

    @property
    def specialisations(self) -> tuple[Specialisation, ...]:
        """The live specialisations in the order calls try them."""
        live = self._live
        return live[:-1] if live else ()

    @property
    def takes_outputs_by_position(self) -> bool:
        """Whether outputs may be given behind the inputs."""
        return self._positional_outputs

    def add(self, specialisation: Specialisation) -> None:
        """Makes calls that fit `specialisation` run it, unless an earlier one fits too."""
        with self._lock:
            self._publish((*self.specialisations, specialisation))

    def replace(self, specialisations: tuple[Specialisation, ...]) -> None:
        """Makes these the live specialisations; calls in progress finish with the old ones."""
        with self._lock:
            self._publish(specialisations)

    def clear(self) -> None:
        """Drops every specialisation."""
        self.replace(())

    def _publish(self, specialisations: tuple[Specialisation, ...]) -> None:
        table = bytearray(TABLE.size)
        TABLE.write(
            table,
            0,
            count=len(specialisations),
            exclusive=_exclude_each_other(specialisations),
            positional=self._positional_outputs,
            slots=max((s.slots for s in specialisations), default=0),
            arguments=max((s.arguments for s in specialisations), default=0),
        )
        addresses = [s.address for s in specialisations]
        table += struct.pack(f"<{len(addresses) + 1}q", *(addresses[:1] or [0]), *addresses)
        memory = (ctypes.c_char * len(table)).from_buffer(table)
        old = self._live  # owns the old table until calls no longer find it
        self._live = (*specialisations, memory)
        self._table = ctypes.addressof(memory)
        del old


def _exclude_each_other(specialisations: Sequence[Specialisation]) -> bool:
    """Whether it is seen that no call fits two of them: their inputs differ, in dtypes or in constant shapes."""
    signatures = [s.signature for s in specialisations]
    numbers = {(len(s.inputs), len(s.outputs)) for s in signatures}
    kinds = {tuple([(p.dtype, p.shape) for p in s.inputs]) for s in signatures}
    return len(kinds) == len(signatures) > 1 == len(numbers) and not any(s.extents for s in signatures)


def _enable_vectorcall(cls: type) -> None:
    """Lets CPython call instances of a subclass directly, which it does by itself from 3.12 on."""
    overridden = any("__call__" in base.__dict__ for base in cls.__mro__ if base not in NativeBase.__mro__)
    if sys.version_info >= (3, 12) or overridden or issubclass(cls, PortableBase):
        return
    set_flags = ctypes.CFUNCTYPE(None, ctypes.py_object, ctypes.c_int64)(entry_library().address("lpx_set_flags"))
    set_flags(cls, HAVE_VECTORCALL)


_enable_vectorcall(NativeFunction)
