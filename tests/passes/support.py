"""Differential testing of passes: the reference interpreter before and after, to the bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx.dtypes import DType
from lpx.errors import LpxError
from lpx.expr.nodes import Binary, Const, Expr, Var
from lpx.ir.equal import structural_equal
from lpx.ir.interpreter import interpret
from lpx.ir.nodes import Function
from lpx.ir.parser import parse_function
from lpx.ir.printer import print_function
from lpx.ir.verify import verify
from lpx.passes.contract_accumulations import ContractAccumulations
from lpx.passes.pipeline import CPU, Pass
from lpx.passes.pipeline import run as run_passes

Arrays = list[NDArray[Any]]


def parse(text: str, constants: Sequence[NDArray[Any]] = ()) -> Function:
    """The function that `text` says, verified."""
    function = parse_function(text, constants)
    verify(function)
    return function


def make_arrays(function: Function, extents: Mapping[str, int], seed: int = 0) -> Arrays:
    """Random operands for the parameters; `out` ones hold a value that no test computes."""
    rng = np.random.default_rng(seed)
    values = {symbol: extents[symbol.name] for symbol in function.symbols}
    made: Arrays = []
    for param in function.params:
        shape = tuple(_value(extent, values) for extent in param.buffer.shape)
        made.append(
            np.full(shape, 99).astype(param.buffer.dtype.to_numpy())
            if param.role == "out"
            else _random(rng, shape, param.buffer.dtype)
        )
    return made


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.to_numpy())
    return rng.integers(0, 2 if dtype.is_bool else 8, shape).astype(dtype.to_numpy())


def _value(expr: Expr, values: Mapping[Var, int]) -> int:
    match expr:
        case Const(value=value):
            return int(value)
        case Var():
            return values[expr]
        case Binary(op="add", a=a, b=b):
            return _value(a, values) + _value(b, values)
        case Binary(op="sub", a=a, b=b):
            return _value(a, values) - _value(b, values)
        case Binary(op="mul", a=a, b=b):
            return _value(a, values) * _value(b, values)
        case _:
            raise NotImplementedError(expr)


def run(function: Function, extents: Mapping[str, int] | None = None, seed: int = 0) -> Arrays:
    """The arrays of all parameters after the interpreter ran `function` on random ones."""
    arrays = make_arrays(function, extents or {}, seed)
    interpret(function, arrays, extents or {}, seed=seed)
    return arrays


def assert_same_results(
    before: Function, after: Function, extents: Mapping[str, int] | None = None, seed: int = 0
) -> None:
    """Both functions compute the same bits, and neither touches memory it must not touch."""
    for old, new in zip(run(before, extents, seed), run(after, extents, seed), strict=True):
        if old.tobytes() != new.tobytes():
            raise AssertionError(
                f"results differ for {dict(extents or {})}\n{print_function(before)}\n{old}\n"
                f"{print_function(after)}\n{new.reshape(old.shape)}"
            )


def apply(function: Function, *passes: Pass) -> Function:
    """`function` after `passes`; each result is verified and survives a round trip through text."""
    for apply_pass in passes:
        function = apply_pass(function)
        verify(function)
        again = parse_function(print_function(function), list(function.constants.values()))
        assert structural_equal(function, again)
    return function


def assert_pass_keeps(
    function: Function, *passes: Pass, extents: Sequence[Mapping[str, int]] = ({},), seeds: Sequence[int] = (0,)
) -> Function:
    """`function` after `passes`, having checked after each that results are the same for all `extents`."""
    before = function
    for apply_pass in passes:
        function = apply(function, apply_pass)
        for sizes in extents:
            for seed in seeds:
                assert_same_results(before, function, sizes, seed)
    return function


def assert_pipeline_keeps(
    function: Function, extents: Sequence[Mapping[str, int]] = ({},), seeds: Sequence[int] = (0,)
) -> Function:
    """The flat function, having checked its results; where they differ, the pass that changed them is named."""
    flat = run_passes(function, PIPELINE).function
    try:
        for sizes in extents:
            for seed in seeds:
                assert_same_results(function, flat, sizes, seed)
    except (AssertionError, LpxError):
        assert_pass_keeps(function, *PIPELINE, extents=extents, seeds=seeds)
        raise
    return flat


PIPELINE = tuple(p for p in CPU if not isinstance(p, ContractAccumulations))
"""The passes that keep every bit; contraction rounds differently."""
