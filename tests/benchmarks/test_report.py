"""The table of ratios, and its plots."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from bench import plots, report
from bench.rows import Machine, ReportError, Row

MACHINE: dict[str, Any] = {
    "machine": "m",
    "threads": 2,
    "libraries": "numpy 2",
    "flop_per_second": 1e11,
    "read_bytes_per_second": 2e10,
    "copy_bytes_per_second": 1e10,
}


def run_json(path: Path, *benchmarks: dict[str, Any]) -> Path:
    """A file like those of `pytest bench --benchmark-json`."""
    path.write_text(json.dumps({"lpx": MACHINE, "benchmarks": list(benchmarks)}))
    return path


def compared(file: str, group: str, seconds: dict[str, float], **work: float) -> dict[str, Any]:
    fullname = f"bench/test_{file}.py::test[{group}]"
    return {"fullname": fullname, "group": group, "extra_info": {"seconds": seconds, "work": work}}


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run_json(
        tmp_path / "run.json",
        compared("gemm", "product", {"numpy": 4e-3, "lpx": 2e-3, "numba": 8e-3}, flop=1e8, read=4e3, written=4e3),
        compared("gemm", "vector", {"numpy": 2e-3, "lpx": 1e-3, "lpx_other": 1e-9}, flop=1e6, read=1e7, written=4.0),
        compared("row_sums", "sum", {"numpy": 5e-6, "lpx": 1e-5}, read=1e5, written=1e5),
        compared("row_sums", "call", {"numpy": 5e-6, "lpx": 1e-5}),
        {"fullname": "bench/test_calls.py::test", "group": "alone", "extra_info": {}},
        compared("calls", "no peer", {"lpx": 1e-5}),
    )
    assert report.main([str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 thread(s), multiply-adds 100 GFLOP/s, reading 20.0 GB/s, copying 10.0 GB/s; numpy 2",
        "",
        "### gemm",
        "",
        "| what | lpx | best peer | ratio | rate |",
        "|---|---|---|---|---|",
        "| product | 2.00 ms | numpy 4.00 ms | 2.00 | 25% of FMA peak |",
        "| vector | 1.00 ms | numpy 2.00 ms | 2.00 | 50% of reading |",
        "| geometric mean | | | 2.00 | |",
        "",
        "### row sums",
        "",
        "| what | lpx | best peer | ratio | rate |",
        "|---|---|---|---|---|",
        "| sum | 10.0 us | numpy 5.0 us | 0.50 | 100% of copying |",
        "| call | 10.0 us | numpy 5.0 us | 0.50 |  |",
        "| geometric mean | | | 0.50 | |",
        "",
        "Geometric mean of all 4: 1.00; lpx is behind in 2.",
    ]


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = run_json(tmp_path / "first.json", compared("a", "sum", {"numpy": 1.0, "lpx": 1.0}))
    second = run_json(tmp_path / "second.json", compared("a", "sum", {"numpy": 1.0, "lpx": 1.0}))
    alone = run_json(tmp_path / "alone.json", compared("a", "sum", {"lpx": 1.0}))
    other = tmp_path / "other.json"
    other.write_text("[]")
    for paths, message in [
        ([first, second], "times of different runs are not comparable"),
        ([], "not 0 files"),
        ([alone], "has no comparison with a peer"),
        ([other], "was not written by pytest bench --benchmark-json"),
        ([tmp_path / "missing.json"], "cannot read"),
    ]:
        assert report.main([str(p) for p in paths]) == 2
        assert message in capsys.readouterr().err


FAMILIES = {
    "gemm": [Row("product", {"numpy": 4e-3, "lpx": 2e-3}, "gemm", {"flop": 1e8, "read": 4e3, "written": 4e3})],
    "calls": [Row("call", {"numpy": 4e-3, "lpx": 2e-3}, "calls", {})],
}


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
def test_plots(tmp_path: Path) -> None:
    for path in plots.draw(tmp_path / "plots", Machine(**MACHINE), FAMILIES):
        assert path.read_bytes().startswith(b"\x89PNG")


def test_plots_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_name: str) -> None: ...

    monkeypatch.setattr(plots, "find_spec", nothing)
    with pytest.raises(ReportError, match="pip install matplotlib"):
        plots.draw(tmp_path, Machine(**MACHINE), FAMILIES)
