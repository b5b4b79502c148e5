"""The parent's side of `worker`: one child process that lives until it crashes or hangs, then the next."""

from __future__ import annotations

import atexit
import os
import pickle
import select
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz.worker import Answer, Request
from tests.support import child_environment

TIMEOUT = 60.0
"""Seconds after which a case counts as hanging; a case takes a fraction of one, on a busy machine a few."""


class CrashError(AssertionError):
    """The child ended or hung over a request."""


class Isolated:
    """Answers requests in a child process."""

    def __init__(self, cache: Path) -> None:
        self._environment = child_environment(cache)
        self._environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).resolve().parents[2])
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def __call__(self, request: Request) -> Answer:
        """The answer. Raises CrashError where the child dies or takes too long; the next request gets a new child."""
        process = self._running()
        assert process.stdin is not None
        try:
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            head = self._read(process, 8)
            content = self._read(process, int.from_bytes(head, "little"))
        except (CrashError, BrokenPipeError) as error:
            process.kill()
            status = process.wait()
            self._process = None
            raise CrashError(f"{error}; the child ended with {status}") from None
        reply: Answer = pickle.loads(content)
        return reply

    def close(self) -> None:
        """End the child."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.stdout.close()
            process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-c", "from tests.fuzz.worker import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environment,
            )
        return self._process

    @staticmethod
    def _read(process: subprocess.Popen[bytes], count: int) -> bytes:
        assert process.stdout is not None
        content = b""
        end = time.monotonic() + TIMEOUT
        while len(content) < count:
            ready, _, _ = select.select([process.stdout], [], [], max(end - time.monotonic(), 0))
            if not ready:
                raise CrashError(f"no answer within {TIMEOUT} s")
            piece = os.read(process.stdout.fileno(), count - len(content))
            if not piece:
                raise CrashError("the child crashed")
            content += piece
        return content
