"""The native library that kernels link against: threads, scratch memory, the interrupt flag; and the call path for
CPython.

It is emitted and compiled once, then comes from the disk cache. It is never unloaded: worker threads sleep in its code
until the process is gone.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import lpx
from lpx import knobs
from lpx.runtime import emitted, objects
from lpx.runtime.cache import default_cache, digest
from lpx.runtime.cores import available_cores
from lpx.runtime.emitted.layout import CPYTHON_FUNCTIONS, MAX_THREADS, SPIN_NANOSECONDS
from lpx.target import host

THREAD_SYMBOLS = ("lpx_pool_configure", "lpx_pool_size", "lpx_pool_started", "lpx_pool_reset", "lpx_long_reset")
KERNEL_SYMBOLS = (
    "lpx_parallel",
    "lpx_share",
    "lpx_barrier",
    "lpx_scratch_acquire",
    "lpx_scratch_release",
    "lpx_scratch_trim",
    "lpx_interrupted",
)
"""What kernels may use."""
_ENTRY_SYMBOLS = ("lpx_long_enter", "lpx_long_leave")
_BASELINE_CPU = {"x86_64": "x86-64"}
_NEW_FROM_DESCR = 94  # place in NumPy's table of C functions


def compile_support(triple: str) -> bytes:
    """Object file of `emitted.emit_support`, for any CPU of the architecture, through the disk cache."""
    return _compiled("support", triple, "", lambda: emitted.emit_support(triple))


@functools.cache
def support_library() -> objects.LinkedObject:
    """The support library of this process; resets itself in forked children."""
    host.may_use_tiles()  # before any thread of the pool, and whether or not code comes from the disk cache
    data = compile_support(objects.host_triple())
    library = objects.link_object(data, [*THREAD_SYMBOLS, *KERNEL_SYMBOLS, *_ENTRY_SYMBOLS])
    library.keep_forever()
    for name in ("lpx_pool_reset", "lpx_long_reset"):
        os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(library.address(name)))
    wanted = knobs.num_threads()
    threads = min(available_cores() if wanted is None else wanted, MAX_THREADS)
    configure = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int64)(library.address("lpx_pool_configure"))
    configure(threads, spin_time(threads))
    return library


def spin_time(threads: int) -> int:
    """Nanoseconds for which a waiting thread of the pool spins: none where threads take turns on the cores."""
    return SPIN_NANOSECONDS if threads <= available_cores() else 0


@functools.cache
def entry_library() -> objects.LinkedObject:
    """The call path of this process."""
    triple = objects.host_triple()
    items = tuple.__basicsize__
    data = _compiled("entry", triple, str(items), lambda: emitted.emit_entry(triple, items))
    library = objects.link_object(
        data,
        ["lpx_type_spec", "lpx_set_flags"],
        libraries=[support_library().library],
        imports=_python_symbols(),
    )
    library.keep_forever()
    return library


def link_kernel(data: bytes, exports: tuple[str, ...]) -> objects.LinkedObject:
    """Links a kernel's object file against the support library. Raises InternalError naming unresolved symbols."""
    return objects.link_object(data, exports, libraries=[support_library().library])


def _compiled(name: str, triple: str, variant: str, emit: Any) -> bytes:
    key = digest(name, triple, variant, _source_digest(), *objects.versions())
    cache = default_cache()
    entry = cache.load(key)
    if entry is not None:
        return entry.data
    machine = objects.target_machine(triple, _BASELINE_CPU.get(triple.split("-", maxsplit=1)[0], "generic"))
    data = objects.compile_module(emit(), machine)
    cache.store(key, data, {"library": name, "lpx": lpx.__version__})
    return data


@functools.cache
def _source_digest() -> str:
    """Digest of the emitting code, so that a change of it is a miss without emitting anything."""
    folder = Path(__file__).parent
    files = [folder / "objects.py", folder / "support.py", *sorted((folder / "emitted").glob("*.py"))]
    return digest(*(file.read_bytes() for file in files))


def _python_symbols() -> dict[str, int]:
    python = ctypes.pythonapi
    symbols = {name: _function_address(getattr(python, name)) for name in CPYTHON_FUNCTIONS}
    out_name = sys.intern("out")
    objects.make_immortal(out_name)
    symbols |= {
        "PyArray_NewFromDescr": _numpy_function(_NEW_FROM_DESCR),
        "PyArray_Type": id(np.ndarray),
        "PyExc_TypeError": ctypes.addressof(ctypes.c_void_p.in_dll(python, "PyExc_TypeError")),
        "PyTuple_Type": id(tuple),
        "_Py_NoneStruct": id(None),
        "lpx_out_name": id(out_name),
    }
    return symbols


def _function_address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _numpy_function(index: int) -> int:
    module: Any = importlib.import_module("numpy._core._multiarray_umath")  # where every C extension finds the table
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(module._ARRAY_API, None)
    return int(ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[index] or 0)
