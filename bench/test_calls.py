"""What a call of a 16-element float32 kernel costs.

pytest -s bench/test_calls.py

Calls are timed a thousand at a time, spelt out in a loop inside of a function, as in the programs that make them. A
benchmark that times calls one by one, through a lambda, adds 40 to 120 ns of its own, by how it rounds its repeats. The
loop itself costs the same few nanoseconds for everyone and is counted.

A function with several live specialisations is called with the arguments of the one compiled last: lpx has them for
shapes, numba for dtypes.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lpx
from lpx.cli.comparison.libraries import Libraries

Array = np.ndarray[Any, np.dtype[np.float32]]
Loop = Callable[..., None]

A, B = np.arange(16, dtype=np.float32), np.ones(16, np.float32)
OUT = np.empty(16, np.float32)
CALLS = 1000
ROUNDS = 200
OTHER_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "float64")
GOALS = {"out=": 100.0, "allocating": 250.0}
"""Nanoseconds per call."""


@functools.cache
def lpx_add(live: int) -> Any:
    """lpx's addition, with `live` specialisations, of which the last fits."""

    @lpx.jit
    def add(a: Any, b: Any) -> Any:
        return a + b

    for n in (*range(17, 16 + live), 16):
        add(np.ones(n, np.float32), np.ones(n, np.float32))
    assert len(add.specialisations) == live
    return add


@functools.cache
def numba_add(live: int) -> Any:
    """numba's addition into a given array, with `live` specialisations, of which the last fits."""
    numba: Any = pytest.importorskip("numba")

    def add(a: Any, b: Any, out: Any) -> Any:
        for i in range(16):
            out[i] = a[i] + b[i]
        return out

    compiled = numba.njit(add)
    for dtype in (*OTHER_DTYPES[: live - 1], "float32"):
        compiled(A.astype(dtype), B.astype(dtype), OUT.astype(dtype))
    assert len(compiled.signatures) == live
    return compiled


@functools.cache
def numba_allocating(live: int) -> Any:
    """numba's addition into a new array, with `live` specialisations, of which the last fits."""
    numba: Any = pytest.importorskip("numba")

    def add(a: Any, b: Any) -> Any:
        out = np.empty(16, np.float32)
        for i in range(16):
            out[i] = a[i] + b[i]
        return out

    compiled = numba.njit(add)
    for dtype in (*OTHER_DTYPES[: live - 1], "float32"):
        compiled(A.astype(dtype), B.astype(dtype))
    assert len(compiled.signatures) == live
    return compiled


@functools.cache
def torch_operands() -> list[Any]:
    """PyTorch's tensors over the same memory."""
    from_numpy: Any = pytest.importorskip("torch").from_numpy
    return [from_numpy(x) for x in (A, B, OUT)]


def torch_addition(way: str, live: int) -> tuple[Any, str, list[Any]]:
    """PyTorch's addition, which compiles nothing."""
    torch: Any = pytest.importorskip("torch")
    return torch.add, "f(a, b, out=o)" if way == "out=" else "f(a, b)", torch_operands()


def jax_addition(way: str, live: int) -> tuple[Any, str, list[Any]]:
    """JAX's addition into new memory: it has no other."""
    jax: Any = pytest.importorskip("jax")
    return jax.jit(lambda a, b: a + b), "f(a, b).block_until_ready()", [*map(jax.device_put, (A, B)), None]


def numba_addition(way: str, live: int) -> tuple[Any, str, list[Any]]:
    """numba's addition."""
    if way == "out=":
        return numba_add(live), "f(a, b, o)", [A, B, OUT]
    return numba_allocating(live), "f(a, b)", [A, B, OUT]


ADDITIONS: dict[str, Callable[[str, int], tuple[Any, str, list[Any]]]] = {
    "numpy": lambda way, live: (np.add, CALL[way], [A, B, OUT]),
    "numba": numba_addition,
    "torch": torch_addition,
    "jax": jax_addition,
    "lpx": lambda way, live: (lpx_add(live), CALL[way], [A, B, OUT]),
}
"""By library: a function, the text of its call, and a, b and o."""

CALL = {"out=": "f(a, b, out=o)", "allocating": "f(a, b)"}


def loop_of(library: str, way: str, live: int) -> Loop:
    """A function that makes `CALLS` calls, with `out=` (numba: with an output argument) or allocating."""
    function, call, operands = ADDITIONS[library](way, live)
    code = compile(f"def loop(n, f, a, b, o):\n    for _ in range(n): {call}", "<loop>", "exec")
    scope: dict[str, Any] = {}
    exec(code, scope)  # the call is spelt out in the loop, as in the programs that make it
    return functools.partial(scope["loop"], CALLS, function, *operands)


def nanoseconds(loops: dict[str, Callable[[], None]]) -> dict[str, float]:
    """The least time of one call in each loop, all loops taking turns."""
    best = dict.fromkeys(loops, float("inf"))
    for _ in range(ROUNDS):
        for name, loop in loops.items():
            start = time.perf_counter_ns()
            loop()
            best[name] = min(best[name], (time.perf_counter_ns() - start) / CALLS)
    return best


@pytest.mark.parametrize("live", [1, 8])
@pytest.mark.parametrize("way", GOALS)
def test_call(benchmark: Any, peers: Libraries, way: str, live: int) -> None:
    """With `out=` at most 100 ns, allocating at most 250 ns, and at least 3 times faster than numba."""
    loops = {library: loop_of(library, way, live) for library in (*peers.modules, "lpx") if library in ADDITIONS}
    best = nanoseconds(loops)
    benchmark.group = f"addition of 16 elements, {way}, {live} live"
    benchmark.extra_info.update(seconds={library: ns * 1e-9 for library, ns in best.items()}, work={})
    benchmark.pedantic(loops["lpx"], rounds=ROUNDS, warmup_rounds=5)
    print(f"\n{way}, {live} live (ns): {', '.join(f'{library} {ns:.0f}' for library, ns in best.items())}")
    assert best["lpx"] <= GOALS[way]
    if "numba" in best:
        assert best["numba"] >= 3 * best["lpx"]
