"""What a comparison came to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, log

from lpx.records import record


@record
class Result:
    """Median seconds of one call by library, `lpx` among them."""

    name: str
    seconds: Mapping[str, float]

    @property
    def best_peer(self) -> str:
        """The fastest library but lpx, whose other ways of doing it (`lpx_...`) are no peers; "" without one."""
        peers = [n for n in self.seconds if n.partition("_")[0] != "lpx"]
        return min(peers, key=self.seconds.__getitem__, default="")

    @property
    def ratio(self) -> float:
        """The best peer's time over that of lpx: above 1, lpx is faster."""
        return self.seconds[self.best_peer] / self.seconds["lpx"]


def geometric_mean(ratios: Iterable[float]) -> float:
    """Of at least one ratio."""
    logarithms = [log(ratio) for ratio in ratios]
    return exp(sum(logarithms) / len(logarithms))


def duration(seconds: float) -> str:
    """For people to read."""
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
