"""Fixtures and options of the whole suite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from lpx import knobs
from tests.support import Child, Golden, child_environment

hypothesis.settings.register_profile("default", deadline=None, max_examples=50)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("long", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")  # --hypothesis-profile=long overrides


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files with what the tests print now")


@pytest.fixture(scope="session", autouse=True)
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of this session's own: no test sees a kernel compiled by other code. IR is verified throughout."""
    folder = tmp_path_factory.mktemp("lpx-cache")
    with knobs.override(cache_dir=folder, verify=1):
        yield folder


@pytest.fixture(scope="session")
def child(cache_dir: Path) -> Child:
    """`child(code, timeout=60, status=0, **environment)` runs Python text in a process of its own."""
    return Child(child_environment(cache_dir))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(name, text)` compares with the file `golden/name` beside the test's file."""
    return Golden(request.path.parent / "golden", bool(request.config.getoption("--update-golden")))
