"""Every benchmark runs with all libraries on the same number of threads: `LPX_NUM_THREADS`, by default one.

pytest bench --seconds 0.1 --libraries numpy,onnxruntime     # how long a comparison takes, and who takes part
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from typing import Any

import pytest
from bench import peak
from bench.compare import Compare

import lpx
from lpx.cli.comparison import libraries, timing


def pytest_addoption(parser: pytest.Parser) -> None:
    """What a run may spend, and on whom."""
    group = parser.getgroup("lpx")
    group.addoption("--seconds", type=float, default=timing.SECONDS, help="spent on timing each comparison")
    group.addoption("--libraries", default=",".join(libraries.NAMES), help="libraries to compare with, with commas")


def _names(config: pytest.Config) -> list[str]:
    names = str(config.getoption("--libraries")).split(",")
    unknown = set(names) - set(libraries.NAMES)
    if unknown:
        raise pytest.UsageError(f"no library {', '.join(sorted(unknown))}; there are {', '.join(libraries.NAMES)}")
    return names


def pytest_report_header(config: pytest.Config) -> str:
    """The libraries that are there, and those that are not."""
    return f"libraries: {libraries.describe(_names(config))}"


@pytest.fixture(scope="session", autouse=True)
def peers(request: pytest.FixtureRequest) -> Iterator[libraries.Libraries]:
    """The libraries that take part, on as many threads as lpx has."""
    if "LPX_NUM_THREADS" not in os.environ:
        lpx.set_num_threads(1)
    with libraries.on_the_same_threads(_names(request.config)) as found:
        yield found


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    """Seconds to spend on one comparison."""
    return float(request.config.getoption("--seconds"))


@pytest.fixture
def compare(benchmark: Any, peers: libraries.Libraries, seconds: float) -> Compare:
    """Compares a program on all libraries."""
    return Compare(benchmark, peers, seconds)


def pytest_benchmark_update_json(config: pytest.Config, benchmarks: list[Any], output_json: dict[str, Any]) -> None:
    """What rates are relative to, measured once per run."""
    output_json["lpx"] = {
        "machine": platform.node(),
        "threads": lpx.get_num_threads(),
        "libraries": libraries.describe(_names(config)),
        "flop_per_second": peak.flop_per_second(),
        "read_bytes_per_second": peak.read_bytes_per_second(),
        "copy_bytes_per_second": peak.copy_bytes_per_second(),
    }
