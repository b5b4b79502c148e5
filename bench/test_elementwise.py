"""Elementwise chains that one kernel computes.

pytest bench/test_elementwise.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pytest
from bench import loops, peak
from bench.compare import Compare

import lpx
from lpx import te
from lpx.cli.comparison.program import Array, Program, aligned_copy, normal
from lpx.cli.comparison.timing import interleave

CHAIN = peak.COPIED
EXP = 1 << 20
OPTIONS = 1 << 20


def chain_in_numpy(x: Array, out: Array) -> None:
    """Into memory that is used again."""
    np.multiply(x, 2, out=out)
    np.add(out, 1, out=out)
    np.maximum(out, 0, out=out)
    np.subtract(out, x * np.float32(0.5), out=out)


PROGRAMS = [
    Program(
        f"max(2 x + 1, 0) - x / 2 of {CHAIN}",
        {"x": normal(CHAIN)},
        lambda xp, x: xp.clip(x * 2 + 1, 0, None) - x * 0.5,
        numpy=chain_in_numpy,
        numba=loops.chain_of_one,
        flop=5.0 * CHAIN,
    ),
    Program(
        f"max(a * 2.5 + b, 0) * c - a of {CHAIN}",
        {name: normal(CHAIN, seed=seed) for seed, name in enumerate("abc")},
        lambda xp, a, b, c: xp.clip(a * 2.5 + b, 0, None) * c - a,
        numba=loops.chain_of_three,
        flop=5.0 * CHAIN,
    ),
    Program(
        "max(x * a + b, 0) - c of 2048 x 2048, a and c by rows, b by columns",
        {"x": normal(2048, 2048), **{name: normal(2048, seed=seed) for seed, name in enumerate("abc")}},
        lambda xp, x, a, b, c: xp.clip(x * a[:, None] + b, 0, None) - c[:, None],
        numba=loops.broadcast_chain,
        flop=4.0 * 2048 * 2048,
    ),
    Program(
        f"exp of {EXP}",
        {"x": normal(EXP)},
        lambda xp, x: xp.exp(x),
        numpy=lambda x, out: np.exp(x, out=out),
        torch=lambda torch, x, out: torch.exp(x, out=out),
        nodes=[("Exp", ["x"], "y", {})],
    ),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_chain(compare: Compare, program: Program) -> None:
    """One expression of each element."""
    compare(program)


def of_one(x: te.Tensor, _b: te.Tensor, _c: te.Tensor, i: te.Scalar) -> te.Scalar:
    """Reads one array."""
    return te.maximum(x[i] * 2.0 + 1.0, 0.0) - x[i] * 0.5


def of_three(a: te.Tensor, b: te.Tensor, c: te.Tensor, i: te.Scalar) -> te.Scalar:
    """Reads three arrays."""
    return te.maximum(a[i] * 2.5 + b[i], 0.0) * c[i] - a[i]


@pytest.mark.parametrize(("chain", "reads"), [(of_one, 1), (of_three, 3)])
def test_a_chain_is_as_fast_as_copying(seconds: float, chain: Callable[..., te.Scalar], reads: int) -> None:
    """At least 85% of the bytes per second of the faster way to copy, in turns with it.

    Bytes are those read and those written, of arrays; each kernel writes to an array of its own (see `bench.peak`).
    """
    tensors = [te.placeholder((CHAIN,), name=name) for name in "abc"]
    inputs = [peak.aligned(CHAIN) for _ in range(reads)]
    kernel = lpx.build(te.compute((CHAIN,), lambda i: chain(*tensors, i), name="y"))
    copies = [lpx.build(peak.copy(CHAIN, past_caches=way)) for way in (False, True)]
    runs = {
        "chain": partial(kernel, *inputs, out=peak.aligned(CHAIN)),
        "copy": partial(copies[0], inputs[0], out=peak.aligned(CHAIN)),
        "copy past caches": partial(copies[1], inputs[0], out=peak.aligned(CHAIN)),
    }
    medians = {name: median(measured) for name, measured in interleave(runs, seconds).items()}
    copying = 2 / min(medians["copy"], medians["copy past caches"])
    share = (reads + 1) / medians["chain"] / copying
    print(f"\n{share:.0%} of the speed of copying")
    assert share >= 0.85


def black_scholes(xp: Any, spot: Any, strike: Any, years: Any) -> Any:
    """The price of a call option, by the formula of Black and Scholes (1973), with a rational form of the normal
    distribution (Abramowitz and Stegun 26.2.17).
    """
    rate, volatility = 0.02, 0.3
    spread = volatility * xp.sqrt(years)
    d1 = (xp.log(spot / strike) + (rate + volatility * volatility * 0.5) * years) / spread
    discounted = strike * xp.exp(-rate * years)
    return spot * normal_below(xp, d1) - discounted * normal_below(xp, d1 - spread)


def normal_below(xp: Any, d: Any) -> Any:
    """The share of a normal distribution below `d`."""
    k = 1 / (1 + 0.2316419 * xp.abs(d))
    series = 1.330274429 * k - 1.821255978
    series = ((series * k + 1.781477937) * k - 0.356563782) * k + 0.319381530
    tail = 0.39894228 * xp.exp(-d * d * 0.5) * series * k
    return xp.where(d > 0, 1 - tail, tail)


def test_black_scholes(compare: Compare) -> None:
    """A formula of logarithms, exponentials and roots."""
    rng = np.random.default_rng(0)
    ranges = {"spot": (50, 150), "strike": (50, 150), "years": (0.1, 2)}
    inputs = {n: aligned_copy(rng.uniform(*ends, OPTIONS).astype(np.float32)) for n, ends in ranges.items()}
    name = f"Black-Scholes of {OPTIONS}"
    compare(Program(name, inputs, black_scholes, numba=loops.black_scholes, tolerance=1e-4))
