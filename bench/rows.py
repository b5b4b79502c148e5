"""One comparison of a run, and what its rate is relative to."""

from __future__ import annotations

from collections.abc import Mapping

from lpx.cli.comparison.result import Result
from lpx.records import record


class ReportError(Exception):
    """What was given is not the JSON of one run, or cannot be drawn."""


@record
class Machine:
    """What `bench/conftest.py` writes down: rates are of one core, copied bytes are counted once."""

    machine: str
    threads: int
    libraries: str
    flop_per_second: float
    read_bytes_per_second: float
    copy_bytes_per_second: float

    def describe(self) -> str:
        """One line."""
        return (
            f"{self.threads} thread(s), multiply-adds {self.flop_per_second / 1e9:.0f} GFLOP/s, reading"
            f" {self.read_bytes_per_second / 1e9:.1f} GB/s, copying {self.copy_bytes_per_second / 1e9:.1f} GB/s;"
            f" {self.libraries}"
        )

    def seconds_for_memory(self, work: Mapping[str, float]) -> float:
        """The least time to move what a call reads and writes; where it writes little, memory is only read."""
        read, written = work.get("read", 0.0), work.get("written", 0.0)
        if 4 * written < read:
            return read / self.read_bytes_per_second
        return (read + written) / 2 / self.copy_bytes_per_second

    def seconds_for_arithmetic(self, work: Mapping[str, float]) -> float:
        """The least time for the floating-point operations of a call, in float32 without matrix units."""
        return work.get("flop", 0.0) / self.flop_per_second / self.threads


@record
class Row(Result):
    """A comparison with the file it comes from, and what a call does: `flop`, and `read` and `written` bytes."""

    family: str
    work: Mapping[str, float]

    def rate(self, machine: Machine) -> str:
        """How close lpx is to what bounds it; above 100% where caches hold the arrays, or a wider unit multiplies."""
        memory, arithmetic = machine.seconds_for_memory(self.work), machine.seconds_for_arithmetic(self.work)
        if not memory and not arithmetic:
            return ""
        if arithmetic >= memory:
            return f"{arithmetic / self.seconds['lpx']:.0%} of FMA peak"
        what = "reading" if 4 * self.work.get("written", 0.0) < self.work["read"] else "copying"
        return f"{memory / self.seconds['lpx']:.0%} of {what}"
