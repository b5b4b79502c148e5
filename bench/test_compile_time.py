"""How long it takes until a kernel runs: `import lpx`, compiling cold, and from the disk cache, each in a new process.

pytest -s bench/test_compile_time.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from lpx.cli.comparison.libraries import Libraries

REPEATS = 5
PEER_REPEATS = 2
ROOT = Path(__file__).parent.parent

IMPORT = """
import json, time
begin = time.perf_counter()
import lpx
print(json.dumps({"import": time.perf_counter() - begin}))
"""

FIRST_USE = """
import json, time
import numpy as np
import lpx
begin = time.perf_counter()
lpx.jit, lpx.nn
imported = time.perf_counter()
lpx.jit(lambda x: lpx.nn.softmax(x, axis=-1))(np.ones((1536, 128), np.float32))
done = time.perf_counter()
print(json.dumps({"import": imported - begin, "call": done - imported, "all": done - begin}))
"""

WARM_UP = """
import json, time
import numpy as np
import lpx
from lpx import te

x = te.placeholder((2,), name="x")  # brings in LLVM, and what every kernel is linked with
lpx.build(te.compute((2,), lambda i: x[i], name="y"))

def report(begin, seconds):
    print(json.dumps({**seconds, "all": time.perf_counter() - begin}))
"""

PROGRAMS = {
    "softmax 1536 x 128": """
softmax = lpx.jit(lambda x: lpx.nn.softmax(x, axis=-1))
x = np.ones((1536, 128), np.float32)
lpx.nn.softmax  # imported
begin = time.perf_counter()
softmax(x)
report(begin, dict(softmax.lower(x).stats))
""",
    "matmul 512 cubed": """
a, b, r = te.placeholder((512, 512), name="A"), te.placeholder((512, 512), name="B"), te.reduce_axis(512, name="r")
begin = time.perf_counter()
kernel = lpx.build(te.compute((512, 512), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C"))
report(begin, kernel.stats)
""",
}
PEERS = {
    "jax": """
import time
import jax, numpy as np
tiny, x = jax.numpy.ones(2), np.ones((1536, 128), np.float32)
jax.jit(lambda x: x + 1)(tiny).block_until_ready()
begin = time.perf_counter()
jax.jit(lambda x: jax.nn.softmax(x, axis=-1))(x).block_until_ready()
print(time.perf_counter() - begin)
""",
    "torch_compile": """
import time
import torch
tiny, x = torch.ones(2), torch.ones(1536, 128)
torch.compile(lambda x: x + 1)(tiny)
begin = time.perf_counter()
torch.compile(lambda x: torch.softmax(x, -1))(x)
print(time.perf_counter() - begin)
""",
}
"""The softmax of `PROGRAMS` by libraries that compile it, each after a function that brings its compiler in."""

LIMITS = {
    "import": 0.15,
    "first use, cold": 0.5,
    "first use, from the cache": 0.15,
    "softmax 1536 x 128": 0.2,
    "matmul 512 cubed": 0.4,
    "warm": 0.02,
}
"""Seconds that are the aim on a machine with nothing else to do."""


def run(code: str, cache: Path) -> Any:
    """The seconds that `code` prints as JSON, by phase or a number, run in a process with a cache folder of its own.

    Modules come from bytecode files, as those of an installed package do, but for the first process in a folder.
    """
    roots = os.pathsep.join(str(ROOT / part) for part in ("jit", "kernels"))
    environment = {**os.environ, "PYTHONPATH": roots, "LPX_CACHE_DIR": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(cache.parent / "bytecode")
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(cache / "inductor")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def medians(times: list[dict[str, float]]) -> dict[str, float]:
    """The median of each phase."""
    return {phase: median(t.get(phase, 0.0) for t in times) for phase in times[0]}


def show(name: str, seconds: dict[str, float], limit: float) -> None:
    """Print the seconds of each phase."""
    phases = ", ".join(f"{phase} {1e3 * s:.1f}" for phase, s in seconds.items())
    print(f"\n{name} (ms; aim: {1e3 * limit:.0f}): {phases}")


def test_import(benchmark: Any, tmp_path: Path) -> None:
    """The package alone: rooms come in when they are used."""
    seconds = medians([run(IMPORT, tmp_path) for _ in range(REPEATS)])
    show("import lpx", seconds, LIMITS["import"])
    benchmark.extra_info["phases"] = seconds
    benchmark.pedantic(run, (IMPORT, tmp_path), rounds=1)


def test_first_use(benchmark: Any, tmp_path: Path) -> None:
    """The first compiled function of a process: what it imports, and its call, with an empty cache and a full one."""
    run(FIRST_USE, tmp_path / "0")
    cold = medians([run(FIRST_USE, tmp_path / str(k)) for k in range(1, REPEATS + 1)])
    warm = medians([run(FIRST_USE, tmp_path / "0") for _ in range(REPEATS)])
    for name, seconds in (("first use, cold", cold), ("first use, from the cache", warm)):
        show(name, seconds, LIMITS[name])
    benchmark.extra_info["phases"] = {"cold": cold, "warm": warm}
    benchmark.pedantic(run, (FIRST_USE, tmp_path / "0"), rounds=1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_cold_and_warm(benchmark: Any, tmp_path: Path, name: str) -> None:
    """The first call with an empty cache folder, and with a full one."""
    code = WARM_UP + PROGRAMS[name]
    cold = medians([run(code, tmp_path / str(k)) for k in range(REPEATS)])
    warm = medians([run(code, tmp_path / "0") for _ in range(REPEATS)])
    show(f"{name}, cold", cold, LIMITS[name])
    show(f"{name}, from the cache", warm, LIMITS["warm"])
    benchmark.extra_info["phases"] = {"cold": cold, "warm": warm}
    benchmark.pedantic(run, (code, tmp_path / "0"), rounds=1)


def test_cold_softmax_next_to_peers(benchmark: Any, peers: Libraries, tmp_path: Path) -> None:
    """The first call of a softmax with an empty cache folder, after another function was compiled."""
    code = WARM_UP + PROGRAMS["softmax 1536 x 128"]
    seconds = {"lpx": medians([run(code, tmp_path / str(k)) for k in range(REPEATS)])["all"]}
    for name, program in PEERS.items():
        if name.partition("_")[0] in peers.modules:
            seconds[name] = median(run(program, tmp_path / f"{name}{k}") for k in range(PEER_REPEATS))
    benchmark.group = "compile softmax 1536 x 128"
    benchmark.extra_info.update(seconds=seconds, work={})
    benchmark.pedantic(run, (code, tmp_path / "0"), rounds=1)
