"""What the fixtures of `conftest.py` hand to tests: a child interpreter and golden files."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Child:
    """Runs Python text in a process of its own, so that a crash or a hang of compiled code fails one test only."""

    environment: dict[str, str]

    def __call__(self, code: str, *, timeout: float = 60.0, status: int = 0, **variables: str) -> str:
        """Standard output of `code`, dedented, run with warnings as errors and `variables` added to the environment.

        The test fails unless the exit status is `status` (negative: the signal that ended it) within `timeout` seconds.
        """
        done = subprocess.run(
            [sys.executable, "-W", "error", "-X", "faulthandler", "-c", textwrap.dedent(code)],
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != status:
            pytest.fail(
                f"child ended with {done.returncode}, not {status}\n{done.stdout}\n{done.stderr}", pytrace=False
            )
        return done.stdout


def child_environment(cache_dir: Path) -> dict[str, str]:
    """The environment of a child: both source roots importable, the session's cache folder, and nothing else of lpx."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("LPX_")}
    roots = os.pathsep.join(str(ROOT / root) for root in ("jit", "kernels"))
    return {**inherited, "PYTHONPATH": roots, "LPX_CACHE_DIR": str(cache_dir)}


@dataclass(frozen=True, slots=True)
class Golden:
    """Compares text with the files of one folder; `pytest --update-golden` rewrites them."""

    folder: Path
    update: bool

    def __call__(self, name: str, text: object) -> None:
        """The test fails unless `str(text)` equals the file `name` (say "split_guard.txt"), but for final newlines."""
        path = self.folder / name
        got = str(text).rstrip("\n") + "\n"
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(got, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"no golden file {path}; write it with --update-golden", pytrace=False)
        want = path.read_text(encoding="utf-8")
        if got != want:
            lines = difflib.unified_diff(want.splitlines(), got.splitlines(), "golden", "got", lineterm="")
            pytest.fail(f"{path} differs (--update-golden accepts):\n" + "\n".join(lines), pytrace=False)
