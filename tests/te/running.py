"""Runs tensor expressions in the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx import te
from lpx.arith.analyzer import Analyzer
from lpx.expr import build, traverse
from lpx.expr.nodes import Const, Expr, Var
from lpx.ir.interpreter import interpret
from lpx.ir.nodes import Function

Array = NDArray[Any]


def run_all(outputs: te.Tensor | Sequence[te.Tensor], *arrays: Array, **extents: int) -> list[Array]:
    """The `out` arrays of the lowered program, run once in order and once with everything unordered shuffled."""
    function = te.lower(outputs)
    first = _run(function, arrays, extents, None)
    second = _run(function, arrays, extents, 1)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    return first


def run(output: te.Tensor, *arrays: Array, **extents: int) -> Array:
    """The only `out` array of a program."""
    (array,) = run_all(output, *arrays, **extents)
    return array


def run_in_place(output: te.Tensor, *arrays: Array, **extents: int) -> None:
    """A program without `out` parameters: it changes the arrays of its `inout` parameters."""
    assert run_all(output, *arrays, **extents) == []


def _run(function: Function, arrays: Sequence[Array], extents: dict[str, int], seed: int | None) -> list[Array]:
    symbols = _symbols(function, arrays, extents)
    given = [np.array(array) if seed is None else array for array in arrays]
    outs = [
        np.empty([_size(extent, symbols) for extent in param.buffer.shape], param.buffer.dtype.to_numpy())
        for param in function.params
        if param.role == "out"
    ]
    interpret(function, [*given, *outs], extents, seed=seed)
    return outs


def _symbols(function: Function, arrays: Sequence[Array], extents: dict[str, int]) -> dict[Var, Expr]:
    found = {s: build.const(extents[s.name]) for s in function.symbols if s.name in extents}
    for param, array in zip(function.params, arrays, strict=False):
        for extent, size in zip(param.buffer.shape, array.shape, strict=True):
            if isinstance(extent, Var):
                found[extent] = build.const(size)
    return dict(found)


def _size(extent: Expr, symbols: dict[Var, Expr]) -> int:
    value = Analyzer().simplify(traverse.substitute(extent, symbols))
    assert isinstance(value, Const)
    return int(value.value)
