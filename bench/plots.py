"""A roofline (Williams, Waterman, Patterson 2009) and bars of ratios, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.rows import Machine, ReportError, Row

SIZE = (9.0, 6.0)
BAR = 0.22
"""Inches for a bar."""


def draw(folder: Path, machine: Machine, families: Mapping[str, Sequence[Row]]) -> list[Path]:
    """Write `roofline.png` and `ratios.png` into a folder, which is made.

    Raises ReportError without matplotlib.
    """
    if find_spec("matplotlib") is None:
        raise ReportError("plots need matplotlib: pip install matplotlib")
    import_module("matplotlib").use("agg")
    pyplot = import_module("matplotlib.pyplot")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, fill in (("roofline", _roofline), ("ratios", _bars)):
        figure, axes = pyplot.subplots(figsize=SIZE, layout="constrained")
        fill(figure, axes, machine, families)
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=120)
        pyplot.close(figure)
    return written


def _roofline(_figure: Any, axes: Any, machine: Machine, families: Mapping[str, Sequence[Row]]) -> None:
    """Operations a second over operations for each byte read or written, lpx and the best peer."""
    peak = machine.flop_per_second * machine.threads / 1e9
    read, copied = machine.read_bytes_per_second / 1e9, 2 * machine.copy_bytes_per_second / 1e9
    ends = [2.0**e for e in range(-4, 11)]
    for rate, label, line in ((read, "reading", "--"), (copied, "copying", "-")):
        axes.plot(ends, [min(peak, x * rate) for x in ends], line, label=f"{label}, {rate:.0f} GB/s", color="grey")
    for family, rows in families.items():
        counted = [row for row in rows if row.work.get("flop")]
        if not counted:
            continue
        intensity = [row.work["flop"] / (row.work["read"] + row.work["written"]) for row in counted]
        mine, peers = (
            [row.work["flop"] / row.seconds[who(row)] / 1e9 for row in counted]
            for who in (lambda _: "lpx", lambda row: row.best_peer)
        )
        (dots,) = axes.plot(intensity, mine, "o", label=family)
        axes.plot(intensity, peers, "x", color=dots.get_color())
    axes.set(xscale="log", yscale="log", xlabel="operations for each byte", ylabel="GFLOP/s")
    axes.set_title("lpx (dots) and its best peer (crosses)")
    axes.legend()


def _bars(figure: Any, axes: Any, _machine: Machine, families: Mapping[str, Sequence[Row]]) -> None:
    """The ratio of every comparison."""
    rows = [row for members in families.values() for row in members]
    colours = [f"C{k % 10}" for k, members in enumerate(families.values()) for _ in members]
    figure.set_size_inches(SIZE[0], max(SIZE[1], BAR * len(rows)))
    axes.barh([row.name for row in rows], [row.ratio for row in rows], color=colours)
    axes.axvline(1.0, color="black")
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="time of the best peer over that of lpx")
    axes.tick_params(axis="y", labelsize=7)
