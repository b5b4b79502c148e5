"""The whole pipeline: every program, every extent, the same bits after every pass."""

from __future__ import annotations

import pytest

from tests.passes.programs import PROGRAMS
from tests.passes.support import PIPELINE, assert_pass_keeps


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass_keeps_every_bit(name: str) -> None:
    program = PROGRAMS[name]
    flat = assert_pass_keeps(program.function, *PIPELINE, extents=program.extents)
    assert flat.stage == "flat"
