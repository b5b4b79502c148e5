"""Programs the driver's tests build, with what NumPy says they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx import te
from lpx.expr.nodes import Expr
from lpx.ir.interpreter import interpret
from lpx.ir.nodes import Function

Array = NDArray[Any]
Extent = int | Expr


def scaled_sum(n: Extent, factor: float = 2.0) -> te.Tensor:
    """C[i] = A[i] * factor + B[i]."""
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    return te.compute((n,), lambda i: a[i] * factor + b[i], name="C")


def matmul(m: Extent, k: Extent, n: Extent) -> te.Tensor:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


def minimum_and_maximum(n: int) -> list[te.Tensor]:
    """Two outputs of two inputs."""
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    low = te.compute((n,), lambda i: te.minimum(a[i], b[i]), name="low")
    high = te.compute((n,), lambda i: te.maximum(a[i], b[i]), name="high")
    return [low, high]


def weighted(weights: Array) -> te.Tensor:
    """C[i] = A[i] * weights[i], the weights a constant of the program."""
    a, w = te.placeholder(weights.shape, name="A"), te.constant(weights, name="W")
    return te.compute(weights.shape, lambda i: a[i] * w[i], name="C")


def normal(*shape: int, seed: int = 0) -> Array:
    """Normally distributed float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def interpreted(function: Function, *inputs: Array, **extents: int) -> list[Array]:
    """The outputs of a function whose outputs have constant extents, or those of the first input."""
    outputs = [
        np.empty([_extent(e, extents) for e in p.buffer.shape], p.buffer.dtype.to_numpy())
        for p in function.params
        if p.role == "out"
    ]
    interpret(function, [*inputs, *outputs], extents)
    return outputs


def _extent(extent: Expr, extents: dict[str, int]) -> int:
    text = str(extent)
    return extents[text] if text in extents else int(text)
