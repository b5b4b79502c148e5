"""A vector loop over a length known only at run time: full vectors, and one masked vector for the rest."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lpx import te
from lpx.ir.nodes import Store
from lpx.ir.traverse import walk
from lpx.passes import pipeline
from lpx.schedule import Schedule, create_schedule
from tests.codegen import harness
from tests.gallery.running import assert_close, compiled, random_array

LANES = 16


def gelu() -> te.Tensor:
    """x / 2 * (1 + erf(x / sqrt(2)))."""
    x = te.placeholder((te.var("n"),), name="x")
    return te.compute(x.shape, lambda i: x[i] * 0.5 * (1.0 + te.erf(x[i] * 0.5**0.5)), name="y")


def schedule_gelu(s: Schedule) -> None:
    _, lanes = s.split(s.loops("y")[0], LANES, tail="mask")
    s.vectorize(lanes)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 100])
def test_gelu(n: int) -> None:
    s = create_schedule(gelu())
    schedule_gelu(s)
    x = random_array(n)
    (y,) = compiled(s, x, n=n)  # the arrays end where a page ends: a wrong mask would be a segmentation fault
    erf = np.vectorize(math.erf, otypes=[np.float64])
    assert_close(y, x * 0.5 * (1 + erf(x * 0.5**0.5)))


def test_only_the_last_vector_is_masked() -> None:
    s = create_schedule(gelu())
    schedule_gelu(s)
    flat = pipeline.lower(s.function, harness.HOST).function
    assert [t.mask is None for t in walk(flat.body) if isinstance(t, Store)] == [True, False]
