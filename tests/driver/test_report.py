"""The helpers of the benchmarks: comparisons in turns, and the table of ratios."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import interleave, report

MACHINE = {"machine": "m", "threads": 2, "flop_per_second": 1e11, "copy_bytes_per_second": 1e10}


def run_json(path: Path, *benchmarks: dict[str, Any]) -> Path:
    """A file like those of `pytest bench --benchmark-json`."""
    path.write_text(json.dumps({"lpx": MACHINE, "benchmarks": list(benchmarks)}))
    return path


def compared(group: str, seconds: dict[str, float], **work: float) -> dict[str, Any]:
    return {"group": group, "extra_info": {"seconds": seconds, "work": work}}


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run_json(
        tmp_path / "run.json",
        compared("product", {"numpy": 4e-3, "lpx": 2e-3, "numba": 8e-3}, flop=1e8),
        compared("sum", {"numpy": 5e-6, "lpx": 1e-5}, bytes=1e5),
        {"group": "alone", "extra_info": {}},
    )
    assert report.main([str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 thread(s), multiply-adds 100 GFLOP/s, copying 10.0 GB/s",
        "",
        "| what | lpx | best peer | ratio | rate |",
        "|---|---|---|---|---|",
        "| product | 2.00 ms | numpy 4.00 ms | 2.00 | 25% of FMA peak |",
        "| sum | 10.0 us | numpy 5.0 us | 0.50 | 10.0 GB/s |",
        "| geometric mean | | | 1.00 | |",
    ]


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = run_json(tmp_path / "first.json", compared("sum", {"numpy": 1.0, "lpx": 1.0}))
    second = run_json(tmp_path / "second.json", compared("sum", {"numpy": 1.0, "lpx": 1.0}))
    alone = run_json(tmp_path / "alone.json", {"group": "alone", "extra_info": {}})
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


def test_candidates_take_turns() -> None:
    calls: list[str] = []
    times = interleave.interleave({name: partial(calls.append, name) for name in "ab"}, 0.0)
    assert len(times["a"]) == len(times["b"]) == interleave.ROUNDS
    changes = [name for name, before in zip(calls[1:], calls, strict=False) if name != before]
    assert changes[-4:] == ["a", "b", "a", "b"]


def test_a_wrong_result_is_never_timed() -> None:
    right, wrong = np.ones(3), np.asarray([1.0, 1.0, 1.1])
    interleave.check({"numpy": lambda: right, "lpx": lambda: right + 1e-7}, 1e-5)
    with pytest.raises(AssertionError, match="lpx and numpy do not compute the same"):
        interleave.check({"numpy": lambda: right, "lpx": lambda: wrong}, 1e-5)
    with pytest.raises(AssertionError, match="do not compute the same"):
        interleave.check({"numpy": lambda: right, "lpx": lambda: right[:2]}, 1e-5)
