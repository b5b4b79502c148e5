"""Fixtures of the edge cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.edge_cases.support import Checker
from tests.fuzz.isolated import Isolated


@pytest.fixture(scope="session")
def check(cache_dir: Path) -> Iterator[Checker]:
    """`check(program, inputs, outputs)` runs a program under a handful of schedules; see `support.Checker`."""
    child = Isolated(cache_dir)
    yield Checker(child)
    child.close()
