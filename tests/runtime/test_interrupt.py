"""Ctrl-C while kernels run."""

from __future__ import annotations

import os

import pytest

from tests.support import ROOT, Child

PATHS = os.pathsep.join(str(ROOT / part) for part in (".", "jit", "kernels"))

SETUP = """
import os, signal, sys, threading, time
import numpy as np
from lpx.runtime import arrays
from lpx.runtime.native import NativeFunction
from tests.runtime import kernels
def function(specialisation):
    made = NativeFunction(lambda *args, **kwargs: arrays.call(specialisation, args, kwargs))
    made.add(specialisation)
    return made
started = np.zeros(1, np.int64)
def interrupt(after=None):
    while not started[0]:
        time.sleep(0.001)
    time.sleep(0.02)
    if after:
        after()
    os.kill(os.getpid(), signal.SIGINT)
def later():
    threading.Thread(target=interrupt, daemon=True).start()
"""


def run(child: Child, code: str) -> str:
    return child(SETUP + code, PYTHONPATH=PATHS, timeout=20, LPX_NUM_THREADS="2").strip()


@pytest.mark.parametrize("argument", ["started", "np.zeros((1, 2), np.int64)[:, 0]"], ids=["native", "generic"])
@pytest.mark.parametrize("threads", [False, True])
def test_on_the_main_thread(child: Child, threads: bool, argument: str) -> None:
    code = f"""
call = function(kernels.until_interrupted(threads={threads}))
for _ in range(3):
    started[0] = {int("zeros" in argument)}
    later()
    try:
        call({argument})
    except KeyboardInterrupt:
        print("stopped", end=" ")
a = np.ones(16, np.float32)
print(function(kernels.add())(a, a).sum())
"""
    assert run(child, code) == "stopped stopped stopped 32.0"


def test_on_another_thread(child: Child) -> None:
    code = """
call = function(kernels.until_interrupted())
def work():
    try:
        call(started)
    except KeyboardInterrupt:
        print("worker stopped")
thread = threading.Thread(target=work)
thread.start()
try:
    interrupt()
    thread.join()
except KeyboardInterrupt:
    thread.join()
    print("main stopped")
"""
    assert run(child, code) == "worker stopped\nmain stopped"


def test_handlers_of_the_program_run(child: Child) -> None:
    code = """
class Stop(Exception): pass
def handler(*_):
    raise Stop
call = function(kernels.until_interrupted())
for _ in range(2):
    signal.signal(signal.SIGINT, handler)  # replaces the hook, which comes back with the next long kernel
    assert signal.getsignal(signal.SIGINT) is handler
    started[0] = 0
    later()
    try:
        call(started)
    except Stop:
        print("stopped", end=" ")
"""
    assert run(child, code) == "stopped stopped"


def test_a_handler_that_returns_still_ends_the_kernel(child: Child) -> None:
    code = """
signal.signal(signal.SIGINT, lambda *_: print("handled"))
later()
try:
    function(kernels.until_interrupted())(started)
except KeyboardInterrupt:
    print("stopped")
"""
    assert run(child, code) == "handled\nstopped"


def test_ignored_stays_ignored(child: Child) -> None:
    code = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
flags = np.zeros(2, np.int64)
def tell():
    while not flags[0]:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.02)
    flags[1] = 1
threading.Thread(target=tell).start()
function(kernels.until_told())(flags)
print("finished")
"""
    assert run(child, code) == "finished"


def test_between_kernels_python_gets_it_and_the_next_kernel_runs(child: Child) -> None:
    code = """
flags = np.array([0, 1])
call = function(kernels.until_told())
call(flags)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
except KeyboardInterrupt:
    print("python stopped")
call(flags)
function(kernels.threads_of_rows())(flags)
print("finished")
"""
    assert run(child, code) == "python stopped\nfinished"


def test_a_c_library_that_chains_handlers(child: Child) -> None:
    """A library puts its own handler in front of our hook and calls it from there: nothing goes round in circles."""
    code = """
import ctypes
libc = ctypes.CDLL(None)
HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)
libc.signal.restype = ctypes.c_void_p
libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
calls = []
call = function(kernels.until_interrupted())
call_later = lambda: (started.fill(0), later())
call_later()
try:
    call(started)
except KeyboardInterrupt:
    calls.append("first")
def front(number):
    calls.append("library")
    HANDLER(saved)(number)
handler = HANDLER(front)
saved = libc.signal(signal.SIGINT, ctypes.cast(handler, ctypes.c_void_p))
call_later()
try:
    call(started)
except KeyboardInterrupt:
    calls.append("second")
print(*calls)
"""
    assert run(child, code) == "first library second"
