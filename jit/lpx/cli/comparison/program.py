"""One computation as each library says it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx import dtypes
from lpx.records import record

Array = NDArray[Any]
Function = Callable[..., Any]
Words = (
    Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
)
"""A function of some arrays, spelt out so that type checkers know the parameters of a lambda."""

Nodes = Sequence[tuple[str, Sequence[str], str, Mapping[str, Any]]]
"""ONNX operators: kind, inputs ("" where one is left out), output, attributes."""

PAGE = 4096


@record
class Program:
    """One computation: its name, what it reads, and how each library does it.

    `function(xp, *inputs)` says it in the words that NumPy, PyTorch and jax.numpy share; the others replace it for one
    library: `lpx(*inputs)` is compiled by `lpx.jit`, `built(*inputs, out=)` is compiled already, `numpy(*inputs)`,
    `numba(*inputs)`, `torch(torch, *inputs)` and `jax(jax, *inputs)` are called. A function that has a parameter `out`
    gets an array of its own to write the result to. Inputs named in `constants` are constants to the libraries that
    hold some. `nodes` are for ONNX Runtime, with `attributes` as further constants. A library that has no words for it
    is left out.

    `flop` are the floating-point operations of a call. `tolerance` is relative to the largest number of the result,
    which is compared with that of `reference`, a function like `numpy` that takes no part in the race, if there is one.
    """

    name: str
    inputs: Mapping[str, Array]
    function: Words | None = None
    lpx: Words | None = None
    built: Function | None = None
    numpy: Words | None = None
    numba: Words | None = None
    torch: Words | None = None
    jax: Words | None = None
    nodes: Nodes = ()
    attributes: Mapping[str, Array] | None = None
    constants: frozenset[str] = frozenset()
    reference: Words | None = None
    flop: float | None = None
    tolerance: float = 1e-5

    @property
    def arguments(self) -> Mapping[str, Array]:
        """The inputs that are not constants."""
        return {name: array for name, array in self.inputs.items() if name not in self.constants}


def bind_constants(program: Program, function: Function, constants: Mapping[str, Any]) -> Function:
    """`function(*inputs)` as one of the arguments only."""
    if not constants:
        return function

    def bound(*arguments: Any) -> Any:
        rest = iter(arguments)
        return function(*(constants[n] if n in constants else next(rest) for n in program.inputs))

    return bound


def in_words_of(namespace: Any, words: Words | None) -> Function | None:
    """`words(namespace, *inputs)` as a function of the inputs, and of `out` if it takes one."""
    if words is None:
        return None
    function: Function = words

    def plain(*inputs: Any) -> Any:
        return function(namespace, *inputs)

    def with_out(*inputs: Any, out: Any) -> Any:
        return function(namespace, *inputs, out=out)

    return with_out if takes_out(function) else plain


def takes_out(function: Words) -> bool:
    """Whether a function writes its result to an array that it is given."""
    try:
        return "out" in inspect.signature(function).parameters
    except ValueError:  # a function in C that says nothing of its parameters
        return False


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    """Normally distributed numbers of any float type of lpx, at the start of a page."""
    numbers = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return aligned_copy(numbers.astype(dtypes.parse(dtype).to_numpy()))


def aligned_copy(array: Array) -> Array:
    """A copy at the start of a page, so that no library is faster by where its arrays happen to lie."""
    copy = aligned_like(array)
    copy[...] = array
    return copy


def aligned_like(array: Array) -> Array:
    """An array of the same shape and type at the start of a page, in row-major order."""
    memory = np.empty(array.nbytes + PAGE, np.uint8)
    first = -memory.ctypes.data % PAGE
    return memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
