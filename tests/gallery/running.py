"""Runs the programs of the gallery: as machine code in a child process, or in the reference interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx.expr.nodes import Var
from lpx.ir.interpreter import interpret
from lpx.ir.interpreter.arguments import evaluate
from lpx.ir.nodes import Function
from lpx.passes import pipeline
from lpx.schedule import Schedule
from lpx.schedule.testing import check_equivalent
from tests.codegen import harness

Array = NDArray[Any]


def random_array(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    """Normally distributed floats, or small integers."""
    rng = np.random.default_rng(seed)
    if np.issubdtype(np.dtype(dtype), np.integer):
        low = 0 if dtype.startswith("u") else -9
        return rng.integers(low, 10, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def compiled(schedule: Schedule, *inputs: Array, **extents: int) -> list[Array]:
    """The outputs of a scheduled program, computed by its machine code on two threads."""
    function = schedule.function
    outputs = _outputs(function, extents)
    flat = pipeline.lower(function, harness.HOST).function
    shapes = [evaluate(p.buffer.shape, {v: extents[v.name] for v in function.symbols}) for p in function.params]
    assert shapes == [a.shape for a in (*inputs, *outputs)]
    sizes = [extents[v.name] for v in function.symbols]
    assert harness.run(flat, [*inputs, *outputs], sizes, bound=tuple(flat.constants.values())) == 0
    return outputs


def interpreted(schedule: Schedule, *inputs: Array, **extents: int) -> list[Array]:
    """The outputs of a scheduled program, computed by the interpreter with threads in a shuffled order."""
    outputs = _outputs(schedule.function, extents)
    interpret(schedule.function, [*inputs, *outputs], extents, seed=0)
    return outputs


def check_small(schedule: Schedule, plain: Function, extents: Mapping[str, int] | None = None) -> None:
    """The interpreter sees no read of memory that was not written, no race, and the plain program's results."""
    check_equivalent(plain, schedule.function, extents, relative=1e-5)


def _outputs(function: Function, extents: Mapping[str, int]) -> list[Array]:
    symbols: dict[Var, int] = {v: extents[v.name] for v in function.symbols}
    outs = [p.buffer for p in function.params if p.role == "out"]
    return [np.empty(evaluate(b.shape, symbols), b.dtype.to_numpy()) for b in outs]


def assert_close(got: Array, want: Array, relative: float = 1e-5) -> None:
    """Equal up to rounding, relative to the largest element."""
    np.testing.assert_allclose(got, want, rtol=0, atol=relative * float(np.max(np.abs(want), initial=0.0)))
