"""Programs drawn at random: the same text for a seed, and one result whoever runs it."""

from __future__ import annotations

import numpy as np
import pytest
from bench import random_programs

import lpx
from lpx.cli.comparison.program import Array, normal


def test_a_seed_is_a_program() -> None:
    first, again = random_programs.draw(4), random_programs.draw(4)
    assert (first.source, first.shapes) == (again.source, again.shapes)
    assert len({random_programs.draw(seed).source for seed in range(20)}) == 20
    assert "xp.einsum" in first.source


@pytest.mark.parametrize("seed", [3, 4, 6])
def test_lpx_runs_it(seed: int) -> None:
    drawn = random_programs.draw(seed)
    inputs = [normal(*shape, seed=n) for n, shape in enumerate(drawn.shapes)]

    def by_lpx(*given: Array) -> Array:
        result: Array = drawn.function(np, *given)
        return result

    exact = drawn.function(np, *(x.astype(np.float64) for x in inputs))
    np.testing.assert_allclose(lpx.jit(by_lpx)(*inputs), exact, rtol=0, atol=1e-4 * np.abs(exact).max())
