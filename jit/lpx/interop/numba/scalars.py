"""`@numba.njit` functions of scalars inside of tensor expressions: their LLVM code becomes part of the kernel's.

gain = lpx.interop.numba.scalar(numba.njit(lambda x, k: x * k if x > 0 else x))
te.compute((n,), lambda i: gain(a[i], 0.5))
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lpx import dtypes
from lpx.codegen.types import memory_element_of, value_type
from lpx.dtypes import DType
from lpx.errors import DefinitionError, DTypeError, UnsupportedError
from lpx.expr import build
from lpx.expr.foreign import ForeignFunction, register_foreign
from lpx.expr.nodes import Expr
from lpx.expr.ops import Op
from lpx.interop.numba.library import errors, numba, numpy_support, types
from lpx.runtime.cache import digest
from lpx.runtime.isolation import isolate
from lpx.source import capture

_IMPLEMENTATION = "implementation"
_DIGITS = 16  # of the digest, in a name


class ScalarFunction:
    """A function of scalars of numba's, for expressions and for numbers.

    For operands that are expressions it is compiled for their dtypes (a Python number takes that of the first one); the
    result has the dtype that numba gives it. Each lane is computed, also where a `te.where` takes the other side.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        self._compiled: dict[tuple[DType, ...], ForeignFunction] = {}

    @property
    def __name__(self) -> str:
        return str(self.function.py_func.__name__)

    def __call__(self, *args: Any) -> Any:
        given = [a for a in args if isinstance(a, Expr)]
        if not given:
            return self.function(*args)
        operands = [build.as_expr(a, given[0].dtype) for a in args]
        return build.call(self._compile(tuple(e.dtype for e in operands)).op, *operands)

    def _compile(self, parameters: tuple[DType, ...]) -> ForeignFunction:
        if parameters not in self._compiled:
            self._compiled[parameters] = _compile(self.function, parameters)
            register_foreign(self._compiled[parameters])
        return self._compiled[parameters]

    def __repr__(self) -> str:
        return f"<lpx scalar function {self.__name__}>"


def scalar(function: Any) -> ScalarFunction:
    """`function`, made by `@numba.njit`, for use in tensor expressions: it takes and returns numbers and bools.

    It must have no effects, return for any operands, and raise nothing: give it `error_model="numpy"`, with which
    division by zero gives an infinity. Its code is as numba makes it, with the fast-math flags it is declared with.

    Raises: DefinitionError when it is none of numba's; where it is used, UnsupportedError saying what is in the way.
    """
    if not hasattr(function, "py_func") or not hasattr(function, "targetoptions"):
        hint = "decorate it: @numba.njit(error_model='numpy')"
        raise DefinitionError(f"{function!r} is not compiled by numba", hint=hint, span=capture())
    return ScalarFunction(function)


def _compile(function: Any, parameters: Sequence[DType]) -> ForeignFunction:
    """numba's code for operands of these dtypes.

    What numba took from its cache has no LLVM IR, so it is compiled by a dispatcher that has none.
    """
    name = str(function.py_func.__name__)
    own = numba.jit(**{**function.targetoptions, "nopython": True, "parallel": False})(function.py_func)
    try:
        own.compile(tuple(_numba_type(name, d) for d in parameters))
    except errors.NumbaError as error:
        shown = ", ".join(map(str, parameters))
        raise UnsupportedError(f"numba cannot compile {name}({shown}): {error}", span=capture()) from None
    (overload,) = own.overloads.values()
    result = _result_of(name, overload.signature.return_type)
    isolated = isolate(overload.library.get_llvm_str(), overload.fndesc.llvm_func_name, _IMPLEMENTATION)
    _check_needs(name, isolated.needs)
    if isolated.variables:
        _refuse(name, "uses memory of this process (a large global array)", "pass it as an argument of the kernel")
    if "numba_exception_output" in isolated.text:
        _refuse(name, "may raise an exception", "give it error_model='numpy', and raise nothing in it")
    code = f"{isolated.text}\n{_entry('', parameters, result)}"
    symbol = f"numba.{re.sub('[^A-Za-z0-9_]', '_', name)}.{digest(code)[:_DIGITS]}"
    definition = f"{_entry(symbol, parameters, result)}\n{isolated.text}"
    op = Op(symbol, len(parameters), "foreign", "any", result.name)
    return ForeignFunction(op, tuple(parameters), _meaning(own, parameters, result), definition)


def _meaning(function: Any, parameters: Sequence[DType], result: DType) -> Callable[..., int | float]:
    """numba's function on Python numbers: the same code, in one lane."""
    kinds = [d.to_numpy().type for d in parameters]
    made = result.to_numpy().type

    def apply(*values: float) -> int | float:
        given = (kind(value) for kind, value in zip(kinds, values, strict=True))
        number: int | float = made(function(*given)).item()
        return number

    return apply


def _entry(symbol: str, parameters: Sequence[DType], result: DType) -> str:
    """The function as kernels call it: numba's returns through a pointer, takes another for exceptions, and has a byte
    for a bool.
    """
    kinds = [value_type(d).text for d in parameters]
    passed = [f"{memory_element_of(d)} %{'b' if d.is_bool else 'a'}{k}" for k, d in enumerate(parameters)]
    kept, made = memory_element_of(result), value_type(result).text
    taken = ", ".join(f"{t} %a{k}" for k, t in enumerate(kinds))
    return "\n".join(
        [
            f'define {made} @"{symbol}"({taken}) alwaysinline nounwind {{',
            f"  %result = alloca {kept}, align 8",
            "  %exception = alloca ptr, align 8",
            *(f"  %b{k} = zext i1 %a{k} to i8" for k, d in enumerate(parameters) if d.is_bool),
            f"  %status = call i32 @{_IMPLEMENTATION}({', '.join(['ptr %result', 'ptr %exception', *passed])})",
            f"  %value = load {kept}, ptr %result, align 8",
            *(["  %bit = trunc i8 %value to i1"] if result.is_bool else []),
            f"  ret {made} {'%bit' if result.is_bool else '%value'}",
            "}",
        ]
    )


def _check_needs(name: str, needs: Sequence[str]) -> None:
    """The functions that are called are of the C library, which is in every process."""
    process = ctypes.CDLL(None)
    for needed in needs:
        if needed.startswith(("numba_", "NRT_", "Py", "_Py")) or not hasattr(process, needed):
            _refuse(name, f"calls {needed}", "use arithmetic and functions of math that the C library has")


def _refuse(name: str, fault: str, hint: str) -> None:
    raise UnsupportedError(f"{name} cannot be part of a kernel: it {fault}", hint=hint, span=capture())


def _numba_type(name: str, dtype: DType) -> Any:
    if dtype.is_storage_only:
        hint = "cast it to float32, and the result back"
        raise DTypeError(f"{name} is given {dtype}, which numba has no numbers of", hint=hint, span=capture())
    return types.boolean if dtype.is_bool else numpy_support.from_dtype(dtype.to_numpy())


def _result_of(name: str, kind: Any) -> DType:
    try:
        return dtypes.parse(np.dtype(numpy_support.as_dtype(kind)))
    except (errors.NumbaNotImplementedError, DTypeError):
        _refuse(name, f"returns {kind}", "return one number or bool")
        raise
