"""What is known of each kernel: its function, a reference in NumPy, dtypes, and cases to measure.

Tests, benchmarks, tuners and the command line go through `kernels()`; none of them names a kernel.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard, TypeVar, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
Array = NDArray[Any]

FLOATS = ("float32", "float64", "float16", "bfloat16")
EPSILONS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
"""The distance from 1 to the next number."""

WIDE_FLOATS = ("float32", "float64")


class Draw(NamedTuple):
    """An array argument: its shape, its dtype where that is not the kernel's, and the range of its elements.

    Without a range floats are drawn from the normal distribution, integers from -100 to 99 or 0 to 99.
    """

    shape: tuple[int, ...]
    dtype: str = ""
    low: float | None = None
    high: float | None = None

    def array(self, dtype: str, rng: np.random.Generator) -> Array:
        """Elements of `dtype`, unless the argument has its own."""
        target = np_dtype(self.dtype or dtype)
        if target == np.bool_:
            return rng.random(self.shape) < 0.7
        if self.low is not None and self.high is not None:
            return (rng.random(self.shape) * (self.high - self.low) + self.low).astype(target)
        if target.kind in "iu":
            return rng.integers(0 if target.kind == "u" else -100, 100, self.shape).astype(target)
        return np.asarray(rng.standard_normal(self.shape)).astype(target)


class Case(NamedTuple):
    """Arguments of one call: arrays to be drawn, and everything else as it is, by position or name."""

    positional: tuple[Any, ...]
    named: Mapping[str, Any]

    def arguments(self, dtype: str, seed: int = 0) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments in `dtype`."""
        rng = np.random.default_rng(seed)

        def drawn(value: Any) -> Any:
            return value.array(dtype, rng) if isinstance(value, Draw) else value

        return [drawn(value) for value in self.positional], {name: drawn(value) for name, value in self.named.items()}

    def __str__(self) -> str:
        return " ".join(
            [*map(_text, self.positional), *(f"{name}={_text(value)}" for name, value in self.named.items())]
        )


def _text(value: Any) -> str:
    return ("x".join(map(str, value.shape)) or "()") if isinstance(value, Draw) else repr(value)


def case(*positional: Any, **named: Any) -> Case:
    """A case: `case((64, 32), (32, 8), bias=Draw((8,)), activation="relu")`. A tuple by position is a shape."""
    return Case(tuple(Draw(value) if type(value) is tuple else value for value in positional), named)


class Kernel(NamedTuple):
    """One kernel.

    `function` compiles itself for what it is called with, takes `out=`, and is traced where it meets traced arrays.
    `reference` takes the same arguments, floats in float64, and says what is right. A result is right when it is off by
    no more than `tolerance` times the machine epsilon of its dtype, relative to itself and to the size of all results;
    integers must be equal. Where results are sums, `terms` says of how many numbers: rounding errors of a sum grow with
    the square root of that (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019).
    """

    name: str
    family: str
    function: Callable[..., Any]
    reference: Callable[..., Any]
    dtypes: tuple[str, ...]
    cases: tuple[Case, ...]
    tolerance: float
    terms: Callable[..., int] | None = None

    @property
    def summary(self) -> str:
        """The first line of the documentation."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def wanted(self, positional: Sequence[Any], named: Mapping[str, Any]) -> tuple[Array, ...]:
        """The right results of a call, by the reference."""
        results = self.reference(*map(_wide, positional), **{name: _wide(value) for name, value in named.items()})
        return tuple(map(np.asarray, as_tuple(results)))

    def allowed(self, positional: Sequence[Any], named: Mapping[str, Any]) -> float:
        """How far off the results of a call may be, in units of machine epsilon."""
        return self.tolerance * math.sqrt(max(1, self.terms(*positional, **named)) if self.terms else 1)

    def error(self, got: Any, wanted: Sequence[Array]) -> float:
        """The largest error of results, in units of machine epsilon: infinite where NaN or an integer is wrong.

        Raises: ValueError when shapes or kinds of results differ.
        """
        pairs = zip(as_tuple(got), wanted, strict=True)
        return max((_error(np.asarray(result), right) for result, right in pairs), default=0.0)


def as_tuple(results: Any) -> tuple[Any, ...]:
    """The results of a kernel, one or several."""
    return results if _is_tuple(results) else (results,)


def _is_tuple(results: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(results, tuple)


_KERNELS: dict[str, Kernel] = {}


def register(
    function: F,
    family: str,
    reference: Callable[..., Any],
    *cases: Case,
    dtypes: Sequence[str] = FLOATS,
    tolerance: float = 2.0,
    terms: Callable[..., int] | None = None,
) -> F:
    """Add a kernel under the name of its function, which is returned."""
    name = function.__name__
    _KERNELS[name] = Kernel(name, family, function, reference, tuple(dtypes), cases, tolerance, terms)
    return function


def kernels() -> Mapping[str, Kernel]:
    """All kernels by name, those of a family next to each other."""
    return _KERNELS


def np_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a name, "bfloat16" included."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype == np_dtype("bfloat16")


def _wide(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    array = cast(Array, value)
    return array.astype(np.float64) if _is_float(array.dtype) else array


def _error(got: Array, wanted: Array) -> float:
    floats = _is_float(got.dtype)
    if got.shape != wanted.shape or floats != _is_float(wanted.dtype) or (not floats and got.dtype != wanted.dtype):
        raise ValueError(f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}")
    if not got.size:
        return 0.0
    if not floats:
        return 0.0 if np.array_equal(got, wanted) else np.inf
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return np.inf
    right = wanted[finite]
    off = np.abs(got[finite].astype(np.float64) - right)
    size = np.abs(right) + (np.sqrt(np.mean(np.square(right))) if right.size else 0)
    with np.errstate(divide="ignore"):
        relative = np.max(off[off > 0] / size[off > 0], initial=0.0)
    return float(relative) / EPSILONS[got.dtype.name]
