"""One compilation for every length: equal, to the bit, to compilations for one length under the same trace."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lpx
from lpx import te
from lpx.schedule import replay
from tests.driver.programs import Array, Extent, matmul, normal

LENGTHS = (0, 1, 2, 7, 8, 9, 31, 32, 33, 1000)


def wave(n: Extent) -> te.Tensor:
    x = te.placeholder((n,), name="x")
    return te.compute((n,), lambda i: te.exp(x[i]) * te.sin(x[i]), name="y")


def length(n: Extent) -> te.Tensor:
    """The sum of squares of each of four rows."""
    x = te.placeholder((4, n), name="x")
    r = te.reduce_axis(n, name="r")
    return te.compute((4,), lambda i: te.sum(x[i, r] * x[i, r], axis=r), name="y")


def columns(n: Extent) -> te.Tensor:
    """The sum of each of n columns."""
    x = te.placeholder((5, n), name="x")
    r = te.reduce_axis(5, name="r")
    return te.compute((n,), lambda j: te.sum(x[r, j], axis=r), name="y")


def rows(n: Extent) -> te.Tensor:
    """A product with n rows."""
    return matmul(n, 20, 40)


Make = Callable[[Extent], te.Tensor]
CASES: dict[str, tuple[Make, Callable[[int], tuple[Array, ...]]]] = {
    "elementwise": (wave, lambda n: (normal(n),)),
    "reduction": (length, lambda n: (normal(4, n),)),
    "kept": (columns, lambda n: (normal(5, n),)),
    "contraction": (rows, lambda n: (normal(n, 20), normal(20, 40))),
}


@pytest.mark.parametrize("case", CASES)
def test_one_compilation_for_every_length(case: str) -> None:
    make, arrays = CASES[case]
    general = lpx.build(make(te.var("n")))
    trace = general.forms.schedule.trace
    for n in LENGTHS:
        static = lpx.build(replay(trace, make(n)) if n else make(n))  # of an empty sum no loop is left to schedule
        inputs = arrays(n)
        want, got = static(*inputs), general(*inputs)
        assert got.shape == want.shape
        assert got.tobytes() == want.tobytes(), f"length {n}"


def test_lengths_that_disagree_are_refused() -> None:
    n = te.var("n")
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    kernel = lpx.build(te.compute((n,), lambda i: a[i] + b[i], name="c"))
    with pytest.raises(lpx.errors.ArgumentError, match=r"b has extent 4 on axis 0: .*float32\[n=3\] is expected"):
        kernel(np.ones(3, np.float32), np.ones(4, np.float32))
