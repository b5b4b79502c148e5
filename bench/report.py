"""A table of ratios from the JSON of one run of the benchmarks.

pytest bench --benchmark-json=run.json && python -m bench.report run.json

A ratio is the time of the best peer over that of lpx: above 1, lpx is faster. Times of different runs are not
comparable, so a second file is refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Any


class ReportError(Exception):
    """What was given is not the JSON of one run."""


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: median seconds by library, and a rate relative to what the machine can do at most."""

    name: str
    seconds: Mapping[str, float]
    share: str

    @property
    def best_peer(self) -> str:
        """The fastest library but lpx, whose other ways of doing it (`lpx_...`) are no peers."""
        return min((n for n in self.seconds if n.partition("_")[0] != "lpx"), key=self.seconds.__getitem__)

    @property
    def ratio(self) -> float:
        """Best peer's time over lpx's."""
        return self.seconds[self.best_peer] / self.seconds["lpx"]


def read(paths: Sequence[Path]) -> tuple[Mapping[str, Any], list[Row]]:
    """What a run says of the machine, and its comparisons.

    Raises ReportError unless there is one file with comparisons of one run.
    """
    if len(paths) != 1:
        raise ReportError(
            f"give the JSON of one run, not {len(paths)} files: times of different runs are not comparable"
        )
    try:
        content: Any = json.loads(paths[0].read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReportError(f"cannot read {paths[0]}: {error}") from error
    if not isinstance(content, dict) or "lpx" not in content or "benchmarks" not in content:
        raise ReportError(f"{paths[0]} was not written by pytest bench --benchmark-json")
    machine = content["lpx"]
    compared = [b for b in content["benchmarks"] if "seconds" in b["extra_info"]]
    if not compared:
        raise ReportError(f"{paths[0]} has no comparison with a peer")
    return machine, [_row(b, machine) for b in compared]


def _row(benchmark: Mapping[str, Any], machine: Mapping[str, Any]) -> Row:
    extra = benchmark["extra_info"]
    return Row(benchmark["group"], extra["seconds"], _share(extra["seconds"]["lpx"], extra["work"], machine))


def _share(seconds: float, work: Mapping[str, float], machine: Mapping[str, Any]) -> str:
    if "flop" in work:
        return f"{work['flop'] / seconds / machine['flop_per_second'] / machine['threads']:.0%} of FMA peak"
    if "copied bytes" in work:
        return f"{work['copied bytes'] / seconds / machine['copy_bytes_per_second']:.0%} of copying"
    if "bytes" in work:
        return f"{work['bytes'] / seconds / 1e9:.1f} GB/s"
    return ""


def table(machine: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The comparisons as Markdown, and their geometric mean."""
    mean = exp(sum(log(r.ratio) for r in rows) / len(rows))
    peak, copying = machine["flop_per_second"] / 1e9, machine["copy_bytes_per_second"] / 1e9
    lines = [
        f"{machine['threads']} thread(s), multiply-adds {peak:.0f} GFLOP/s, copying {copying:.1f} GB/s",
        "",
        "| what | lpx | best peer | ratio | rate |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        peer = f"{row.best_peer} {_time(row.seconds[row.best_peer])}"
        lines.append(f"| {row.name} | {_time(row.seconds['lpx'])} | {peer} | {row.ratio:.2f} | {row.share} |")
    return "\n".join([*lines, f"| geometric mean | | | {mean:.2f} | |"])


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def main(arguments: Sequence[str]) -> int:
    """Print the table; 2 where there is none to print."""
    try:
        print(table(*read([Path(a) for a in arguments])))
    except ReportError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
