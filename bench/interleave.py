"""Times of several candidates in one run, taken in turns: A B A B ...

On a machine that is shared or changes its clock, only times taken next to each other may be divided. On one thread,
what other programs take from the core does not count: times are those of the thread. Every candidate is checked before
it is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lpx

Array = NDArray[Any]
Candidate = Callable[[], Any]

SECONDS = 1.0
"""Time spent on one comparison, unless its rounds take longer."""

ROUNDS = 7
"""Least number of rounds; each times every candidate once."""

SHORTEST = 1e-4
"""Seconds that one measurement takes at least: shorter calls are repeated in it."""


PAUSE = 0.02
"""Seconds after which threads that wait for work are asleep, and those that are called are awake."""

Clock = Callable[[], float]


def clock() -> Clock:
    """What times are taken from: the thread's own time where lpx has one thread, else the clock on the wall."""
    return time.thread_time if lpx.get_num_threads() == 1 else time.perf_counter


def check(candidates: Mapping[str, Candidate], tolerance: float) -> None:
    """Call every candidate and compare with the first, relative to the largest magnitude in its result.

    Raises AssertionError naming the candidate whose result differs.
    """
    (reference, run), *others = candidates.items()
    want = np.array(run())
    scale = max(1.0, float(np.max(np.abs(want), initial=0.0)))
    for name, candidate in others:
        got = np.asarray(candidate())
        if got.shape != want.shape or not np.allclose(got, want, rtol=0, atol=tolerance * scale, equal_nan=True):
            raise AssertionError(f"{name} and {reference} do not compute the same")


def interleave(
    candidates: Mapping[str, Candidate], seconds: float = SECONDS, now: Clock | None = None
) -> dict[str, list[float]]:
    """Seconds per call of each candidate, one number per round; `now` is the clock, by default that of `clock()`."""
    now = now or clock()
    repeats = {name: _repeats(run, now) for name, run in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    end = time.perf_counter() + seconds
    while len(next(iter(times.values()))) < ROUNDS or time.perf_counter() < end:
        for name, run in candidates.items():
            _let_pools_rest(run)
            times[name].append(_measure(run, repeats[name], now))
    return times


def _let_pools_rest(run: Candidate) -> None:
    """On several threads, wait until those of the last candidate no longer spin on the cores, and those of `run` do."""
    if lpx.get_num_threads() == 1:
        return
    time.sleep(PAUSE)
    awake = time.perf_counter() + PAUSE
    while time.perf_counter() < awake:
        run()


def compare(
    benchmark: Any,
    candidates: Mapping[str, Candidate],
    *,
    tolerance: float = 1e-5,
    work: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Check, then time candidates in turns; the median seconds of each, which the report divides.

    `lpx` must be among the candidates; its calls are what pytest-benchmark shows. `work` says what one call does, by
    unit (`{"flop": 2e9}`), for rates.
    """
    check(candidates, tolerance)
    medians = {name: median(times) for name, times in interleave(candidates).items()}
    benchmark.extra_info["seconds"] = medians
    benchmark.extra_info["work"] = dict(work or {})
    benchmark.pedantic(candidates["lpx"], rounds=ROUNDS, iterations=_repeats(candidates["lpx"], clock()))
    return medians


def _measure(run: Candidate, repeats: int, now: Clock) -> float:
    begin = now()
    for _ in range(repeats):
        run()
    return (now() - begin) / repeats


def _repeats(run: Candidate, now: Clock) -> int:
    run()
    return max(1, round(SHORTEST / max(_measure(run, 1, now), 1e-9)))
