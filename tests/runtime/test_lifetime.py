"""Machine code goes when the last reference goes, and not before."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref

import numpy as np

from lpx.runtime.native import NativeFunction
from tests.runtime import kernels
from tests.support import ROOT, Child

PATHS = os.pathsep.join(str(ROOT / part) for part in (".", "jit", "kernels"))


def test_code_goes_with_the_last_reference() -> None:
    specialisation = kernels.until_told.__wrapped__()
    watch = weakref.ref(specialisation.code)
    function = NativeFunction(print)
    function.add(specialisation)
    del specialisation
    gc.collect()
    assert watch() is not None
    function.clear()
    assert watch() is None


def test_dropped_while_it_runs() -> None:
    function = NativeFunction(print)
    specialisation = kernels.until_told.__wrapped__()
    watch = weakref.ref(specialisation.code)
    function.add(specialisation)
    flags = np.zeros(2, np.int64)
    thread = threading.Thread(target=function, args=(flags,))
    thread.start()
    while not flags[0]:
        time.sleep(0.001)
    function.clear()
    del function, specialisation
    gc.collect()
    assert watch() is not None
    flags[1] = 1
    thread.join()
    assert watch() is None


def test_dropped_kernels_leave_little_behind(child: Child) -> None:
    code = """
import gc
import numpy as np
from lpx.runtime import objects
from lpx.runtime.native import NativeFunction
from lpx.runtime.specialisation import Specialisation
from lpx.runtime.support import link_kernel
from tests.runtime import kernels
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
a = np.ones(16, np.float32)
add = kernels.add()
def once():
    data = kernels.compiled("add", kernels.add_body(16))
    function = NativeFunction(print)
    function.add(Specialisation(add.signature, link_kernel(data, ("add",))))
    assert function(a, a).sum() == 32
for _ in range(50):
    once()
gc.collect()
before = resident()
for _ in range(500):
    once()
gc.collect()
print((resident() - before) // 500)
"""
    left = int(child(code, PYTHONPATH=PATHS))
    assert left <= 32 << 10


def test_daemon_thread_returns_from_a_kernel_while_the_interpreter_exits(child: Child) -> None:
    """CPython ends such a thread by unwinding its stack, through our frames."""
    code = """
import sys, threading, time
import numpy as np
from lpx.runtime.native import NativeFunction
from tests.runtime import kernels
flags = np.zeros(2, np.int64)
class LastOfAll:
    def __init__(self):
        self.flags, self.sleep = flags, time.sleep
    def __del__(self):
        self.flags[1] = 1
        self.sleep(0.1)
sys.last_of_all = LastOfAll()
function = NativeFunction(print)
function.add(kernels.until_told())
threading.Thread(target=function, args=(flags,), daemon=True).start()
while not flags[0]:
    time.sleep(0.001)
print("leaving")
"""
    assert child(code, PYTHONPATH=PATHS).strip() == "leaving"
