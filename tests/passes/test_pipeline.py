"""The whole pipeline: every program, every extent, the same bits after every pass; and what the runner reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from lpx import knobs
from lpx.ir.parser import parse_function
from lpx.passes import pipeline
from lpx.target import Target
from tests.passes.programs import PROGRAMS
from tests.passes.support import PIPELINE, assert_pass_keeps

NAMES = [pipeline.pass_name(p) for p in pipeline.CPU]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass_keeps_every_bit(name: str) -> None:
    program = PROGRAMS[name]
    flat = assert_pass_keeps(program.function, *PIPELINE, extents=program.extents)
    assert flat.stage == "flat"


def test_lower_reports_the_time_of_every_pass() -> None:
    result = pipeline.lower(PROGRAMS["matmul"].function, Target.parse("cpu:avx512"))
    assert result.function.stage == "flat"
    assert [name for name, _ in result.times] == NAMES
    assert all(seconds >= 0 for _, seconds in result.times)


def test_names_of_passes_are_those_of_their_files() -> None:
    files = {path.stem for path in Path(pipeline.__file__).parent.glob("*.py")}
    assert set(NAMES) <= files


def test_dumps_are_numbered_files_that_parse(tmp_path: Path) -> None:
    with knobs.override(dump=tmp_path):
        pipeline.lower(PROGRAMS["matmul"].function, Target.parse("cpu"))
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == [f"matmul.{i:02}.{name}.lpx" for i, name in enumerate(["input", *NAMES])]
    for path in tmp_path.iterdir():
        parse_function(path.read_text(encoding="utf-8"))


def test_programs_are_printed_after_the_passes_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with knobs.override(print_after="lower_blocks,unroll_loops"):
        pipeline.lower(PROGRAMS["matmul"].function, Target.parse("cpu"))
    printed = capsys.readouterr().err
    assert printed.count("// after") == 2
    assert "// after lower_blocks\nfunc matmul" in printed
