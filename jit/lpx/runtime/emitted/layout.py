"""Memory layouts that emitted code and Python share: CPython's and NumPy's objects, and lpx's own records.

A call walks plain memory:

    instance --table--> TABLE: count, sizes, then 1 + `count` pointers
                                               --> SPECIALISATION, then its ARGUMENTs, then its BOUND pointers

The first pointer is the specialisation that the last call ran.

An ARGUMENT is followed by one int64 per dimension: an extent, or -1-k for the k-th symbolic extent. ARGUMENTs stand in
call order, inputs before outputs. A kernel takes one array of 64-bit slots: `buffers` data pointers, then the extents.
"""

from __future__ import annotations

from lpx.runtime.emitted.record import I8, I32, I64, PTR, Record

OBJECT = Record(refcount=I64, type=PTR)
"""`PyObject` of a build with the GIL."""
TUPLE_SIZE = Record(16, size=I64)
"""`PyVarObject`."""
ARRAY = Record(16, data=PTR, ndim=I32, shape=PTR, strides=PTR, base=PTR, descr=PTR, flags=I32)
"""`PyArrayObject`."""
DESCR = Record(24, kind=I8, char=I8, byteorder=I8, former_flags=I8, number=I32)
"""`PyArray_Descr`, the part that all versions share."""

C_CONTIGUOUS = 0x0001
WRITEABLE = 0x0400
MAX_DIMENSIONS = 64
"""NumPy's limit."""

INSTANCE = Record(16, vectorcall=PTR, dict=PTR, weakrefs=PTR, fallback=PTR, live=PTR, table=PTR)
"""An instance of the native type: `live` owns the memory at `table`."""

TABLE = Record(count=I64, exclusive=I64, positional=I64, slots=I64, arguments=I64)
"""Header of an instance's table. `exclusive`: 1 where no call fits two specialisations, so that the one of the last
call may be tried first, else 0. `positional`: whether outputs may be given behind the inputs. `slots` and `arguments`
are the most any of its specialisations has."""

SPECIALISATION = Record(
    owner=PTR,  # the Python object that keeps everything else alive
    entry=PTR,  # i32 entry(ptr slots)
    derive=PTR,  # void derive(ptr extents): fills the derived extents from the free ones; or null
    inputs=I64,
    outputs=I64,
    in_outs=I64,  # of the inputs
    buffers=I64,
    free_extents=I64,
    derived_extents=I64,
    bound=I64,
    long=I32,  # whether to release the GIL
)

ARGUMENT = Record(descr=PTR, itemsize=I64, number=I32, ndim=I32, flags=I32, slot=I32)
BOUND = Record(slot=I64, data=PTR, bytes=I64)
SPAN = Record(start=I64, end=I64, written=I64)
"""Memory of one argument of the call in progress."""


def argument_flags(*, written: bool) -> int:
    """NumPy's flags that an argument must have."""
    return C_CONTIGUOUS | WRITEABLE if written else C_CONTIGUOUS
