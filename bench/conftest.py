"""Every benchmark runs with all libraries on the same number of threads: `LPX_NUM_THREADS`, by default one."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from typing import Any

import pytest
from bench import peak, peers

import lpx


def pytest_report_header() -> str:
    """The peers that are there, and those that are not."""
    return f"peers: {peers.describe()}"


@pytest.fixture(scope="session", autouse=True)
def threads() -> Iterator[int]:
    """Threads that every library uses."""
    if "LPX_NUM_THREADS" not in os.environ:
        lpx.set_num_threads(1)
    with peers.same_threads() as count:
        yield count


def pytest_benchmark_update_json(config: pytest.Config, benchmarks: list[Any], output_json: dict[str, Any]) -> None:
    """What rates are relative to, measured once per run."""
    output_json["lpx"] = {
        "machine": platform.node(),
        "threads": lpx.get_num_threads(),
        "flop_per_second": peak.flop_per_second(),
        "copy_bytes_per_second": peak.copy_bytes_per_second(),
    }
