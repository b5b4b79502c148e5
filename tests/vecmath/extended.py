"""References for float64: the C library's functions of the 80-bit extended format, whose significands have 64 bits.

They are called for whole arrays by a loop that LLVM compiles. A test compares them with mpmath.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_LLVM: Any = importlib.import_module("llvmlite.binding")  # it has no types

IS_EXTENDED = np.finfo(np.longdouble).nmant == 63
"""Whether this machine has the format."""

_LOOP = """
declare x86_fp80 @{name}l({params})

define void @loop(ptr %x, ptr %y, ptr %r, i64 %n) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %following, %next ]
  %px = getelementptr double, ptr %x, i64 %i
  %dx = load double, ptr %px
  %a = fpext double %dx to x86_fp80
  %py = getelementptr double, ptr %y, i64 %i
  %dy = load double, ptr %py
  %b = fpext double %dy to x86_fp80
  %value = call x86_fp80 @{name}l({args})
  %pr = getelementptr x86_fp80, ptr %r, i64 %i
  store x86_fp80 %value, ptr %pr
  %following = add i64 %i, 1
  %more = icmp slt i64 %following, %n
  br i1 %more, label %next, label %done
done:
  ret void
}}
"""


def extended(name: str, *args: Array) -> Array:
    """A function of float64 operands in the extended format, to about a unit of its last place."""
    with np.errstate(all="ignore"):
        match name:
            case "sigmoid":
                decay = extended("exp", -np.abs(args[0]))
                result: Array = np.where(args[0] < 0, decay, 1) / (1 + decay)
                return result
            case "rsqrt":
                root: Array = np.sqrt(args[0].astype(np.longdouble))
                return np.reciprocal(root)
            case _:
                return _call(name, *args)


def ulps_extended(got: Array, true: Array) -> Array:
    """Errors of float64 results; infinite where one is NaN or infinite, or a zero of another sign, and one is not."""
    with np.errstate(all="ignore"):
        rounded = true.astype(np.float64)
        exponent = np.maximum(np.frexp(true)[1] - 53, -1074)
        error = np.abs(np.ldexp(got.astype(np.longdouble) - true, -exponent)).astype(np.float64)
        same = (got == rounded) & (np.signbit(got) == np.signbit(true)) | np.isnan(got) & np.isnan(true)
        special = ~np.isfinite(got) | ~np.isfinite(rounded) | (got == 0) & (true == 0)
    return np.where(special, np.where(same, 0.0, np.inf), error)


def _call(name: str, *args: Array) -> Array:
    x = np.ascontiguousarray(args[0], np.float64)
    y = np.ascontiguousarray(args[-1], np.float64)
    result = np.empty(x.shape, np.longdouble)
    _loop(name, len(args))(x.ctypes.data, y.ctypes.data, result.ctypes.data, x.size)
    return result


@functools.cache
def _loop(name: str, arity: int) -> Callable[[int, int, int, int], None]:
    _LLVM.load_library_permanently("libm.so.6")
    _LLVM.initialize_native_target()
    _LLVM.initialize_native_asmprinter()
    params, operands = ", ".join(["x86_fp80"] * arity), ", ".join(["x86_fp80 %a", "x86_fp80 %b"][:arity])
    module = _LLVM.parse_assembly(_LOOP.format(name=name, params=params, args=operands))
    engine = _LLVM.create_mcjit_compiler(module, _LLVM.Target.from_default_triple().create_target_machine())
    _ENGINES.append(engine)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return cast("Callable[[int, int, int, int], None]", kind(engine.get_function_address("loop")))


_ENGINES: list[Any] = []
"""They own the code."""
