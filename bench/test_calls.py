"""What a call of a 16-element float32 kernel costs, next to numba and NumPy in the same run.

pytest bench/test_calls.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lpx.runtime.native import NativeFunction
from tests.runtime import kernels

Array = np.ndarray[Any, np.dtype[np.float32]]
Call = Callable[[Array, Array, Array], Any]

A, B = np.arange(16, dtype=np.float32), np.ones(16, np.float32)
OUT = np.empty(16, np.float32)
REPEATS, LOOPS = 25, 4000


def refuse(*_args: Any, **_kwargs: Any) -> Any:
    """The fallback of functions that must never fall back."""
    raise AssertionError("fell back")


def lpx_add(live: int) -> NativeFunction:
    """An addition with `live` specialisations, of which the last fits."""
    add = NativeFunction(refuse)
    for n in range(17, 16 + live):
        add.add(kernels.add(n))
    add.add(kernels.add(16))
    return add


def numba_add() -> Any:
    """numba's addition into a given array."""
    numba: Any = pytest.importorskip("numba")

    def add(a: Any, b: Any, out: Any) -> Any:
        for i in range(16):
            out[i] = a[i] + b[i]
        return out

    compiled = numba.njit(add)
    compiled(A, B, OUT)
    return compiled


def numba_allocating() -> Any:
    """numba's addition into a new array."""
    numba: Any = pytest.importorskip("numba")

    def add(a: Any, b: Any) -> Any:
        out = np.empty(16, np.float32)
        for i in range(16):
            out[i] = a[i] + b[i]
        return out

    compiled = numba.njit(add)
    compiled(A, B)
    return compiled


def peers(live: int) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Per library, a call with `out=` (numba: with an output argument) and one that allocates."""
    add, jitted, allocating = lpx_add(live), numba_add(), numba_allocating()
    return {
        "lpx": (lambda: add(A, B, out=OUT), lambda: add(A, B)),
        "numba": (lambda: jitted(A, B, OUT), lambda: allocating(A, B)),
        "numpy": (lambda: np.add(A, B, out=OUT), lambda: np.add(A, B)),
    }


@pytest.mark.parametrize("live", [1, 8])
@pytest.mark.parametrize("allocates", [False, True], ids=["out", "allocating"])
@pytest.mark.parametrize("library", ["lpx", "numba", "numpy"])
def test_call(benchmark: Any, library: str, allocates: bool, live: int) -> None:
    """One call, through a lambda that each library pays for."""
    benchmark.group = f"16-element add, {'allocating' if allocates else 'out='}, {live} specialisations"
    benchmark(peers(live)[library][allocates])


def nanoseconds(call: str, names: dict[str, Any]) -> float:
    """The least time of one call, in a loop that costs some 5 ns itself."""
    code = compile(f"def loop(n, {', '.join(names)}):\n    for _ in range(n): {call}", "<loop>", "exec")
    scope: dict[str, Any] = {}
    exec(code, scope)  # the call is spelt out in the loop, as in the programs that make it
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter_ns()
        scope["loop"](LOOPS, *names.values())
        best = min(best, (time.perf_counter_ns() - start) / LOOPS)
    return best


@pytest.mark.parametrize("live", [1, 8])
def test_goals(live: int) -> None:
    """With `out=` at most 100 ns, allocating at most 250 ns, and at least 3 times faster than numba."""
    arrays = {"a": A, "b": B, "o": OUT}
    mine, jitted, allocating = lpx_add(live), numba_add(), numba_allocating()
    with_out = nanoseconds("f(a, b, out=o)", {"f": mine, **arrays})
    new = nanoseconds("f(a, b)", {"f": mine, **arrays})
    numba_out = nanoseconds("f(a, b, o)", {"f": jitted, **arrays})
    numba_new = nanoseconds("f(a, b)", {"f": allocating, **arrays})
    numpy_out = nanoseconds("f(a, b, out=o)", {"f": np.add, **arrays})
    numpy_new = nanoseconds("f(a, b)", {"f": np.add, **arrays})
    print(f"\n{live} live: out= {with_out:.0f} ns (numba {numba_out:.0f}, numpy {numpy_out:.0f}), ", end="")
    print(f"allocating {new:.0f} ns (numba {numba_new:.0f}, numpy {numpy_new:.0f})")
    assert with_out <= 100
    assert new <= 250
    assert numba_out >= 3 * with_out
    assert numba_new >= 3 * new
