"""Tables of ratios from the JSON of one run of the benchmarks, and plots of them.

pytest bench --benchmark-json=run.json && python -m bench.report run.json --plots DIR

A ratio is the time of the best peer over that of lpx: above 1, lpx is faster. Times of different runs are not
comparable, so a second file is refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import plots
from bench.rows import Machine, ReportError, Row

from lpx.cli.comparison.result import duration, geometric_mean


def read(paths: Sequence[Path]) -> tuple[Machine, list[Row]]:
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
    compared = [b for b in content["benchmarks"] if len(b["extra_info"].get("seconds", {})) > 1]
    if not compared:
        raise ReportError(f"{paths[0]} has no comparison with a peer")
    return Machine(**content["lpx"]), [_row(b) for b in compared]


def _row(benchmark: Mapping[str, Any]) -> Row:
    file = benchmark["fullname"].partition("::")[0]
    extra = benchmark["extra_info"]
    family = Path(file).stem.removeprefix("test_").replace("_", " ")
    return Row(benchmark["group"], extra["seconds"], family, extra["work"])


def table(machine: Machine, rows: Sequence[Row]) -> str:
    """The comparisons as Markdown, family by family, with geometric means."""
    behind = sum(row.ratio < 1 for row in rows)
    lines = [machine.describe()]
    for family, members in by_family(rows).items():
        lines += ["", f"### {family}", "", "| what | lpx | best peer | ratio | rate |", "|---|---|---|---|---|"]
        for row in members:
            peer = f"{row.best_peer} {duration(row.seconds[row.best_peer])}"
            rate = row.rate(machine)
            lines.append(f"| {row.name} | {duration(row.seconds['lpx'])} | {peer} | {row.ratio:.2f} | {rate} |")
        lines.append(f"| geometric mean | | | {geometric_mean(r.ratio for r in members):.2f} | |")
    mean = geometric_mean(r.ratio for r in rows)
    return "\n".join([*lines, "", f"Geometric mean of all {len(rows)}: {mean:.2f}; lpx is behind in {behind}."])


def by_family(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by the file that they come from."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row)
    return families


def main(arguments: Sequence[str]) -> int:
    """Print the tables; 2 where there are none to print."""
    parser = argparse.ArgumentParser(prog="python -m bench.report", description="ratios of one run of the benchmarks")
    parser.add_argument("run", type=Path, nargs="*", help="the JSON of a run")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="draw a roofline and bars into this folder")
    options = parser.parse_args(arguments)
    try:
        machine, rows = read(options.run)
        print(table(machine, rows))
        if options.plots is not None:
            plots.draw(options.plots, machine, by_family(rows))
    except ReportError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
