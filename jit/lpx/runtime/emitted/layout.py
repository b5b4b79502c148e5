"""What emitted code and Python share: limits, and layouts in memory of objects of CPython, NumPy and lpx.

A call walks plain memory:

    instance --table--> TABLE: count, sizes, then 1 + `count` pointers
                                               --> SPECIALISATION, then its ARGUMENTs, then its BOUND pointers

The first pointer is the specialisation that the last call ran.

An ARGUMENT is followed by one int64 per dimension: an extent, or -1-k for the k-th symbolic extent. ARGUMENTs stand in
call order, inputs before outputs. A kernel takes one array of 64-bit slots: `buffers` data pointers, then the extents.
"""

from __future__ import annotations

from typing import Literal

from lpx.runtime.emitted.record import CType, Record

MAX_THREADS = 256
"""Threads that a parallel region runs on at most."""
SPIN_NANOSECONDS = 200_000
"""How long a thread that waits spins before it sleeps, where every thread has a core of its own."""

OBJECT = Record(refcount="i64", type="ptr")
"""`PyObject` of a build with the GIL."""
TUPLE_SIZE = Record(16, size="i64")
"""`PyVarObject`."""
ARRAY = Record(16, data="ptr", ndim="i32", shape="ptr", strides="ptr", base="ptr", descr="ptr", flags="i32")
"""`PyArrayObject`."""
DESCR = Record(24, kind="i8", char="i8", byteorder="i8", former_flags="i8", number="i32")
"""`PyArray_Descr`, the part that all versions share."""

TYPE = Record(168, flags="i64")
"""`PyTypeObject`, the part used here."""
HAVE_VECTORCALL = 1 << 11
"""A type's flag."""

C_CONTIGUOUS = 0x0001
WRITEABLE = 0x0400
MAX_DIMENSIONS = 64
"""NumPy's limit."""

INSTANCE = Record(16, vectorcall="ptr", dict="ptr", weakrefs="ptr", fallback="ptr", live="ptr", table="ptr")
"""An instance of the native type: `live` owns the memory at `table`."""

TABLE = Record(count="i64", exclusive="i64", positional="i64", slots="i64", arguments="i64")
"""Header of an instance's table. `exclusive`: 1 where no call fits two specialisations, so that the one of the last
call may be tried first, else 0. `positional`: whether outputs may be given behind the inputs. `slots` and `arguments`
are the most any of its specialisations has."""

SPECIALISATION = Record(
    owner="ptr",  # the Python object that keeps everything else alive
    entry="ptr",  # i32 entry(ptr slots)
    derive="ptr",  # void derive(ptr extents): fills the derived extents from the free ones; or null
    inputs="i64",
    outputs="i64",
    in_outs="i64",  # of the inputs
    buffers="i64",
    free_extents="i64",
    derived_extents="i64",
    bound="i64",
    long="i32",  # whether to release the GIL
)

ARGUMENT = Record(descr="ptr", itemsize="i64", number="i32", ndim="i32", flags="i32", slot="i32")
BOUND = Record(slot="i64", data="ptr", bytes="i64")
SPAN = Record(start="i64", end="i64", written="i64")
"""Memory of one argument of the call in progress."""


def argument_flags(*, written: bool) -> int:
    """NumPy's flags that an argument must have."""
    return C_CONTIGUOUS | WRITEABLE if written else C_CONTIGUOUS


CPYTHON_FUNCTIONS: dict[str, tuple[CType | Literal["void"], list[CType]]] = {  # name: (result, parameters)
    "Py_IncRef": ("void", ["ptr"]),
    "Py_DecRef": ("void", ["ptr"]),
    "PyErr_SetString": ("void", ["ptr", "ptr"]),
    "PyEval_RestoreThread": ("void", ["ptr"]),
    "PyEval_SaveThread": ("ptr", []),
    "PyObject_CallMethod": ("ptr", ["ptr", "ptr", "ptr"]),
    "PyObject_ClearWeakRefs": ("void", ["ptr"]),
    "PyObject_GC_Del": ("void", ["ptr"]),
    "PyObject_GC_UnTrack": ("void", ["ptr"]),
    "PyObject_GenericGetDict": ("ptr", ["ptr", "ptr"]),
    "PyObject_GenericSetDict": ("i32", ["ptr", "ptr", "ptr"]),
    "PyObject_Vectorcall": ("ptr", ["ptr", "ptr", "i64", "ptr"]),
    "PyTuple_New": ("ptr", ["i64"]),
    "PyTuple_SetItem": ("i32", ["ptr", "i64", "ptr"]),
    "PyType_GenericAlloc": ("ptr", ["ptr", "i64"]),
    "PyVectorcall_Call": ("ptr", ["ptr", "ptr", "ptr"]),
}
"""Functions of CPython that emitted code calls or points to."""
