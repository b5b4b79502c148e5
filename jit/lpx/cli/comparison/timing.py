"""Times of several candidates in one run, taken in turns: A B A B ...

On a machine that is shared or changes its clock, only times taken next to each other may be divided. Every candidate is
checked before it is timed.

What other programs take from the core does not count on one thread: times are processor time. A candidate that works
on the calling thread alone is timed by that thread's clock. Some libraries hand their work to a pool even if it has
one thread (XLA does when it dispatches asynchronously: the caller's clock sees 4% of a matrix product); these are
found by a trial, and timed by the clock of the whole process, which counts the same seconds wherever they are spent.
While a thread waits for another no processor time passes, an advantage that such a library keeps. On several threads
all times are those of the clock on the wall.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx.errors import LpxError
from lpx.runtime.pool import get_num_threads

Array = NDArray[Any]
Candidate = Callable[[], Any]
Clock = Callable[[], float]

SECONDS = 1.0
"""Time spent on one comparison, unless its rounds take longer."""

ROUNDS = 7
"""Least number of rounds; each times every candidate once."""

SHORTEST = 1e-4
"""Seconds that one measurement takes at least: shorter calls are repeated in it."""

PAUSE = 0.02
"""Seconds after which threads that wait for work are asleep, and those that are called are awake."""

TRIAL = 2e-3
"""Seconds of processor time that show where a candidate works."""

ELSEWHERE = 0.02
"""Share of the work that must be on other threads for the clock of the process to be used."""


class DisagreementError(LpxError):
    """Two libraries compute different results."""


def check(candidates: Mapping[str, Candidate], tolerance: float) -> None:
    """Call every candidate and compare with the first, relative to the largest magnitude in its result.

    Raises DisagreementError naming the candidate whose result differs.
    """
    (reference, run), *others = candidates.items()
    want = as_array(run()).copy()
    scale = max(1.0, float(np.max(np.abs(want), initial=0.0)))
    for name, candidate in others:
        got = as_array(candidate())
        if got.shape != want.shape:
            raise DisagreementError(f"{name} gives the shape {got.shape}, {reference} {want.shape}")
        if not np.allclose(got, want, rtol=0, atol=tolerance * scale, equal_nan=True):
            off = float(np.nanmax(np.abs(got - want))) / scale
            raise DisagreementError(
                f"{name} and {reference} do not compute the same: they differ by {off:.1e} of the largest number,"
                f" {tolerance:.0e} is allowed"
            )


def as_array(result: Any) -> Array:
    """A library's result as a float64 or int64 array, which holds any narrower element exactly."""
    if str(getattr(result, "dtype", "")) == "torch.bfloat16":  # NumPy has no such dtype
        result = result.float()
    array = np.asarray(result)
    return array.astype(np.int64 if array.dtype.kind in "biu" else np.float64)


def clock() -> Clock:
    """What times work on the calling thread: its own clock where lpx has one thread, else the clock on the wall."""
    return time.thread_time if get_num_threads() == 1 else time.perf_counter


def clock_of(run: Candidate) -> Clock:
    """The clock that sees all of a candidate's work: see the head of this file."""
    if get_num_threads() > 1:
        return clock()
    run()
    time.sleep(PAUSE)
    thread, process = time.thread_time(), time.process_time()
    spent = 0.0
    while spent < TRIAL:
        run()
        spent = time.process_time() - process
    elsewhere = spent - (time.thread_time() - thread)
    return time.process_time if elsewhere > ELSEWHERE * spent else time.thread_time


def interleave(
    candidates: Mapping[str, Candidate], seconds: float = SECONDS, now: Clock | None = None
) -> dict[str, list[float]]:
    """Seconds per call of each candidate, one number per round; `now` is the clock, by default `clock_of` each."""
    clocks = {name: now or clock_of(run) for name, run in candidates.items()}
    repeats = {name: calls_to_time(run, clocks[name]) for name, run in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    end = time.perf_counter() + seconds
    while len(next(iter(times.values()))) < ROUNDS or time.perf_counter() < end:
        for name, run in candidates.items():
            _let_pools_rest(run, clocks[name])
            times[name].append(_measure(run, repeats[name], clocks[name]))
    return times


def fastest(runs: Sequence[Candidate]) -> Candidate:
    """The fastest of a library's ways to do the same: none of its settings is best for every program."""
    if len(runs) == 1:
        return runs[0]
    times = interleave({str(i): run for i, run in enumerate(runs)}, seconds=0.0)
    return min(zip(times.values(), runs, strict=True), key=lambda pair: median(pair[0]))[1]


def calls_to_time(run: Candidate, now: Clock) -> int:
    """Calls that together take long enough to be timed."""
    run()
    return max(1, round(SHORTEST / max(_measure(run, 1, now), 1e-9)))


def _let_pools_rest(run: Candidate, now: Clock) -> None:
    """Wait until other candidates' threads no longer spin on the cores, and those of `run` do."""
    if now is time.thread_time:
        return
    time.sleep(PAUSE)
    awake = time.perf_counter() + PAUSE
    while time.perf_counter() < awake:
        run()


def _measure(run: Candidate, repeats: int, now: Clock) -> float:
    begin = now()
    for _ in range(repeats):
        run()
    return (now() - begin) / repeats
