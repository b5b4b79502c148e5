"""Whether CPython's and NumPy's objects look in memory as `emitted.layout` says, seen on real ones."""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from typing import Any

import numpy as np

from lpx.runtime.emitted.layout import ARRAY, C_CONTIGUOUS, DESCR, OBJECT, TUPLE_SIZE, TYPE, WRITEABLE
from lpx.runtime.emitted.record import Field


def layouts_hold() -> bool:
    """False on builds without the GIL, of other than 64 bits, big-endian, or with layouts that lpx does not know."""
    if sysconfig.get_config_var("Py_GIL_DISABLED") or sys.maxsize != 2**63 - 1 or sys.byteorder != "little":
        return False
    return all((_array_holds(np.zeros((2, 3), np.float32)), _array_holds(_sample()), _tuple_holds(), _type_holds()))


def _sample() -> np.ndarray[Any, np.dtype[Any]]:
    array = np.zeros((4, 5, 6), np.int16)[:, ::2]
    array.flags.writeable = False
    return array


def _array_holds(array: np.ndarray[Any, np.dtype[Any]]) -> bool:
    address = id(array)
    expected = {
        OBJECT["type"]: id(np.ndarray),
        ARRAY["data"]: array.__array_interface__["data"][0],
        ARRAY["ndim"]: array.ndim,
        ARRAY["descr"]: id(array.dtype),
        ARRAY["flags"]: array.flags.num,
    }
    if any(_read(address, field) != value for field, value in expected.items()):
        return False
    if bool(array.flags.num & C_CONTIGUOUS) != array.flags.c_contiguous:
        return False
    if bool(array.flags.num & WRITEABLE) != array.flags.writeable:
        return False
    for field, values in ((ARRAY["shape"], array.shape), (ARRAY["strides"], array.strides)):
        place = _read(address, field)
        if tuple(_read(place + 8 * i, Field(0, field.type)) for i in range(array.ndim)) != values:
            return False
    return _descr_holds(array.dtype)


def _descr_holds(dtype: np.dtype[Any]) -> bool:
    address = id(dtype)
    return (
        _read(address, DESCR["number"]) == dtype.num
        and _read(address, DESCR["byteorder"]) == ord(dtype.byteorder)
        and _read(address, DESCR["kind"]) == ord(dtype.kind)
    )


def _tuple_holds() -> bool:
    first, second = object(), object()
    pair = (first, second)
    items = id(pair) + tuple.__basicsize__
    found = tuple(_read(items + 8 * i, OBJECT["type"], relative=False) for i in range(2))
    return found == (id(first), id(second)) and _read(id(pair), TUPLE_SIZE["size"]) == 2


def _type_holds() -> bool:
    return _read(id(np.ndarray), TYPE["flags"]) == np.ndarray.__flags__


def _read(address: int, field: Field, *, relative: bool = True) -> int:
    where = address + field.offset if relative else address
    return int.from_bytes(ctypes.string_at(where, field.size), "little")
