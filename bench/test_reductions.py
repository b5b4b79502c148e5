"""Reductions over rows, columns and everything.

pytest bench/test_reductions.py
"""

from __future__ import annotations

import numpy as np
import pytest
from bench import loops
from bench.compare import Compare

from lpx.cli.comparison.program import Function, Program, normal
from lpx.records import record

SHAPES = [(2048, 1024), (4096, 4096), (512, 512)]


@record
class Case:
    """A reduction in everyone's words, ONNX's operator over `axes` if it has one, numba's loops and PyTorch's words."""

    function: Function
    operator: str = ""
    axes: tuple[int, ...] = ()
    numba: Function | None = None
    torch: Function | None = None
    exact: bool = False


CASES: dict[str, Case] = {
    "sum of rows": Case(lambda xp, x: xp.sum(x, axis=1), "ReduceSum", (1,)),
    "sum of columns": Case(lambda xp, x: xp.sum(x, axis=0), "ReduceSum", (0,), numba=loops.column_sums),
    "sum of all": Case(lambda xp, x: xp.sum(x), "ReduceSum", (0, 1)),
    "max of rows": Case(lambda xp, x: xp.amax(x, axis=1), "ReduceMax", (1,)),
    "max of columns": Case(lambda xp, x: xp.amax(x, axis=0), "ReduceMax", (0,)),
    "max of all": Case(lambda xp, x: xp.amax(x), "ReduceMax", (0, 1)),
    "mean of rows": Case(lambda xp, x: xp.mean(x, axis=1), "ReduceMean", (1,)),
    "mean of columns": Case(lambda xp, x: xp.mean(x, axis=0), "ReduceMean", (0,)),
    "variance of rows": Case(lambda xp, x: xp.var(x, axis=1), torch=lambda t, x: t.var(x, 1, correction=0)),
    "variance of columns": Case(lambda xp, x: xp.var(x, axis=0), torch=lambda t, x: t.var(x, 0, correction=0)),
    "deviation of all": Case(lambda xp, x: xp.std(x), torch=lambda t, x: t.std(x, correction=0)),
    "any of all": Case(lambda xp, x: xp.any(x > 9), exact=True),
    "all of rows": Case(lambda xp, x: xp.all(x < 9, axis=1), exact=True),
    "argmax of rows": Case(lambda xp, x: xp.argmax(x, axis=1), exact=True),
    "argmax of columns": Case(lambda xp, x: xp.argmax(x, axis=0), exact=True),
    "argmax of all": Case(lambda xp, x: xp.argmax(x), exact=True),
    "argmin of rows": Case(lambda xp, x: xp.argmin(x, axis=1), exact=True),
    "running sum of rows": Case(lambda xp, x: xp.cumsum(x, axis=1), numba=loops.running_sums),
    "running sum of columns": Case(lambda xp, x: xp.cumsum(x, axis=0)),
    "running product of rows": Case(lambda xp, x: xp.cumprod(x, axis=1)),
}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("name", CASES)
def test_reduction(compare: Compare, name: str, shape: tuple[int, int]) -> None:
    """One reduction of a matrix by one function."""
    case = CASES[name]
    program = Program(
        f"{name}, {shape[0]} x {shape[1]}",
        {"x": normal(*shape)},
        case.function,
        numba=case.numba,
        torch=case.torch,
        nodes=[(case.operator, ["x", "axes"], "y", {"keepdims": 0})] if case.operator else (),
        attributes={"axes": np.asarray(case.axes)},
        tolerance=0 if case.exact else 1e-4,
    )
    compare(program)
