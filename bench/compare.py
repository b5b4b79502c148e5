"""One comparison as a benchmark: checked, timed in turns, and written down for the report."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np

from lpx.cli.comparison.libraries import Libraries
from lpx.cli.comparison.program import Program
from lpx.cli.comparison.timing import ROUNDS, Candidate, calls_to_time, check, clock_of, interleave


class Compare:
    """What the fixture `compare` gives: call it with a program, or with candidates of your own.

    `seconds` are spent on one comparison, `libraries` take part.
    """

    def __init__(self, benchmark: Any, libraries: Libraries, seconds: float) -> None:
        self.benchmark = benchmark
        self.libraries = libraries
        self.seconds = seconds

    def __call__(self, program: Program) -> dict[str, float]:
        """Compare the libraries that have words for a program; the median seconds of each."""
        candidates = self.libraries.candidates(program)
        reference = program.reference
        first = {} if reference is None else {"reference": lambda: reference(*program.inputs.values())}
        check({**first, **candidates}, program.tolerance)
        read = sum(array.nbytes for array in program.inputs.values())
        work = {"read": float(read), "written": float(np.asarray(candidates["lpx"]()).nbytes)}
        return self._time(program.name, candidates, work if program.flop is None else {**work, "flop": program.flop})

    def checked(
        self, name: str, candidates: Mapping[str, Candidate], *, tolerance: float = 1e-5, **work: float
    ) -> dict[str, float]:
        """Compare candidates, one of which is `lpx`; `work` is what one call does: `flop`, `read`, `written` bytes."""
        check(candidates, tolerance)
        return self._time(name, candidates, work)

    def _time(self, name: str, candidates: Mapping[str, Candidate], work: Mapping[str, float]) -> dict[str, float]:
        """The median seconds of each candidate; calls of lpx are what pytest-benchmark shows."""
        medians = {n: median(times) for n, times in interleave(candidates, self.seconds).items()}
        self.benchmark.group = name
        self.benchmark.extra_info["seconds"] = medians
        self.benchmark.extra_info["work"] = dict(work)
        run = candidates["lpx"]
        self.benchmark.pedantic(run, rounds=ROUNDS, iterations=calls_to_time(run, clock_of(run)))
        return medians
