"""Programs that no schedule was written for: two from present models, and ten drawn at random.

Default `lpx.jit` next to torch.compile and JAX. NumPy takes no part; its result in float64 is what all are compared
with.

pytest bench/test_unseen.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from bench import random_programs
from bench.compare import Compare

from lpx.cli.comparison.program import Array, Function, Program, normal

TOLERANCE = 1e-4
SEEDS = range(10)


def shared(name: str, inputs: Mapping[str, Array], function: Function, **rest: Any) -> Program:
    """A program `function(xp, *inputs)` for compilers, checked against NumPy's result in float64."""

    def in_float64(*given: Array) -> Any:
        return function(np, *(x.astype(np.float64) for x in given))

    def by_lpx(*given: Any) -> Any:
        return function(np, *given)

    def by_jax(jax: Any, *given: Any) -> Any:
        return function(jax.numpy, *given)

    return Program(
        name, inputs, lpx=by_lpx, torch=function, jax=by_jax, reference=in_float64, tolerance=TOLERANCE, **rest
    )


def clipped_scores(xp: Any, q: Any, k: Any) -> Any:
    """Scores of several heads that share their keys, within limits."""
    return xp.clip(xp.einsum("bhqd,bkd->bhqk", q, k) * 0.125, -2.0, 2.0)


def test_clipped_scores(compare: Compare) -> None:
    """A contraction with a batch axis on one side only."""
    b, h, q, k, d = 4, 8, 128, 256, 64
    inputs = {"q": normal(b, h, q, d), "k": normal(b, k, d, seed=1)}
    compare(shared("clip(einsum bhqd,bkd->bhqk)", inputs, clipped_scores, flop=2.0 * b * h * q * k * d))


def gated_mlp(xp: Any, x: Any, w1: Any, w3: Any, w2: Any) -> Any:
    """(silu(x w1) * (x w3)) w2, the feed-forward block of Shazeer, "GLU Variants Improve Transformer", 2020."""
    gate = x @ w1
    return (gate / (1 + xp.exp(-gate)) * (x @ w3)) @ w2


@pytest.mark.parametrize("constant", [False, True], ids=["arguments", "constants"])
def test_gated_mlp(compare: Compare, constant: bool) -> None:
    """Three products, the first two of which share an operand."""
    rows, width, hidden = 128, 768, 2048
    weights = {"w1": normal(width, hidden, seed=1), "w3": normal(width, hidden, seed=3), "w2": normal(hidden, width)}
    for array in weights.values():
        array *= array.shape[0] ** -0.5
    program = shared(
        f"gated MLP {rows} x {width} x {hidden}{', constant weights' if constant else ''}",
        {"x": normal(rows, width), **weights},
        gated_mlp,
        constants=frozenset(weights if constant else ()),
        flop=6.0 * rows * width * hidden,
    )
    compare(program)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_program(compare: Compare, seed: int) -> None:
    """A program of `bench/random_programs.py`; -s shows its text."""
    drawn = random_programs.draw(seed)
    print(f"\n{drawn.source}")
    inputs = {f"x{n}": normal(*shape, seed=n) for n, shape in enumerate(drawn.shapes)}
    compare(shared(f"random program {seed}", inputs, drawn.function))
