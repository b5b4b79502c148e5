"""Compiles functions and runs them, in a process of its own, on arrays that lie next to pages nobody may touch.

Requests and answers are pickled; each answer has its length before it, so that a reader knows when it is complete.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
import traceback
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from lpx.driver.build import build
from lpx.errors import LpxError
from lpx.ir.parser import parse_function
from lpx.runtime.pool import set_num_threads
from lpx.schedule import create_schedule
from tests.codegen.worker import GuardedBuffer

Array = NDArray[Any]
Side = Literal["after", "before"]


@dataclass(frozen=True, slots=True)
class Run:
    """One set of arguments, outputs included, and the side on which the forbidden page lies."""

    arrays: tuple[Array, ...]
    side: Side


@dataclass(frozen=True, slots=True)
class Request:
    """A function as text (with its constants) to be compiled as it stands, or with the default schedule."""

    text: str
    constants: tuple[Array, ...]
    runs: tuple[Run, ...]
    threads: int = 2
    is_scheduled: bool = True
    target: str = "cpu"


@dataclass(frozen=True, slots=True)
class Answer:
    """The arguments of each run after it, or the name of the error it raised."""

    results: tuple[tuple[Array, ...] | str, ...]
    error: str = ""


def answer(request: Request) -> Answer:
    """Compile once, run every set of arguments."""
    set_num_threads(request.threads)
    function = parse_function(request.text, request.constants)
    kernel = build(create_schedule(function) if request.is_scheduled else function, request.target)
    return Answer(tuple(_run(kernel, r) for r in request.runs))


def _run(kernel: Any, run: Run) -> tuple[Array, ...] | str:
    buffers = [GuardedBuffer(a.tobytes(), run.side) for a in run.arrays]
    arrays = [_array_in(b, a) for b, a in zip(buffers, run.arrays, strict=True)]
    try:
        kernel(*arrays)
    except LpxError as error:
        return type(error).__name__
    return tuple(np.frombuffer(b.content(), a.dtype).reshape(a.shape) for b, a in zip(buffers, run.arrays, strict=True))


def _array_in(buffer: GuardedBuffer, like: Array) -> Array:
    memory = (ctypes.c_char * max(like.nbytes, 1)).from_address(buffer.address)
    whole: Array = np.frombuffer(cast("Any", memory), like.dtype, like.size)
    return whole.reshape(like.shape)


def main() -> None:
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            request: Request = pickle.load(source)
        except EOFError:
            return
        try:
            reply = answer(request)
        except Exception as error:
            reply = replace(Answer(()), error=f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-4)}")
        content = pickle.dumps(reply)
        sink.write(len(content).to_bytes(8, "little") + content)
        sink.flush()
