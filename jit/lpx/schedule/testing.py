"""A differential tester: does a scheduled program compute what the original computes?

    check_equivalent(lower(C), s.function, {"n": 37})

Both run in the reference interpreter on the same random arrays, with every read of memory that was never written an
error, and with parallel iterations in a shuffled order.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx.dtypes import DType
from lpx.errors import ShapeError
from lpx.ir.interpreter import interpret
from lpx.ir.interpreter.arguments import evaluate
from lpx.ir.nodes import Function
from lpx.schedule.errors import MismatchError

Array = NDArray[Any]
_LARGEST_DRAWN_EXTENT = 9


def check_equivalent(
    before: Function,
    after: Function,
    extents: Mapping[str, int] | None = None,
    *,
    arrays: Sequence[Array] | None = None,
    seed: int = 0,
    relative: float = 0.0,
) -> None:
    """Run both functions on the same arrays and compare what they write, to the bit unless `relative` is given.

    `extents` gives symbolic extents by name; others are drawn. `arrays` gives one array per parameter of `before` (that
    of an output only for its shape); by default elements are drawn. `relative` bounds |difference| / largest magnitude
    in the tensor, for schedules that change the order of a floating-point reduction.

    Raises: MismatchError where results differ; whatever the interpreter raises on a wrong use of memory.
    """
    rng = np.random.default_rng(seed)
    sizes = drawn_extents(before, extents or {}, seed)
    given = list(arrays) if arrays is not None else random_arrays(before, sizes, rng)
    expected, got = ([a.copy() for a in given] for _ in range(2))
    interpret(before, expected, sizes)
    interpret(after, got, sizes, seed=seed)
    for param, want, have in zip(before.params, expected, got, strict=True):
        if not param.is_input:
            _compare(param.buffer.name, want, have, relative)


def drawn_extents(function: Function, given: Mapping[str, int], seed: int) -> dict[str, int]:
    """A value for every symbolic extent: the given one, or a small random one."""
    rng = random.Random(seed)
    return {v.name: given.get(v.name, rng.randint(1, _LARGEST_DRAWN_EXTENT)) for v in function.symbols}


def random_arrays(function: Function, extents: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
    """One array per parameter: small integers, floats of both signs, bools; outputs are filled with 0xAA bytes."""
    symbols = {v: extents[v.name] for v in function.symbols}
    arrays: list[Array] = []
    for param in function.params:
        buffer = param.buffer
        if buffer.layout is not None:
            raise ShapeError(f"parameter {buffer.name} has a layout", hint="pass arrays= of its physical shape")
        shape = evaluate(buffer.shape, symbols)
        values = random_values(buffer.dtype, shape, rng)
        if param.role == "out":
            values = np.frombuffer(b"\xaa" * values.nbytes, values.dtype).reshape(shape).copy()
        arrays.append(values)
    return arrays


def random_values(dtype: DType, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Random elements of a dtype that exercise rounding and sign, but not overflow."""
    if dtype.is_bool:
        return rng.integers(0, 2, tuple(shape)).astype(np.bool_)
    if dtype.is_float:
        return rng.standard_normal(tuple(shape)).astype(dtype.to_numpy())
    low = -100 if dtype.is_signed and dtype.bits > 4 else 0
    return rng.integers(max(low, dtype.min_value), min(100, dtype.max_value) + 1, tuple(shape)).astype(dtype.to_numpy())


def _compare(name: str, want: Array, have: Array, relative: float) -> None:
    if want.dtype.kind == "f" and relative > 0:
        scale = float(np.max(np.abs(want), initial=0.0))
        different = ~np.isclose(have, want, rtol=0.0, atol=relative * scale, equal_nan=True)
    else:
        different = (have != want) & ~(_is_nan(have) & _is_nan(want))
    if not different.any():
        return
    where = tuple(int(i) for i in np.argwhere(different)[0])
    count = f"{int(different.sum())} of {want.size} elements differ"
    raise MismatchError(f"{name}{list(where)} is {have[where]}, not {want[where]} ({count})")


def _is_nan(values: Array) -> Array:
    return np.isnan(values.astype(np.float64)) if values.dtype.kind not in "biu" else np.zeros(values.shape, np.bool_)
