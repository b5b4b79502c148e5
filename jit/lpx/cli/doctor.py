"""`lpx doctor`: what lpx sees of this machine, and whether all it needs is there."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from lpx import knobs, te
from lpx.driver.build import build, lower_program
from lpx.errors import LpxError
from lpx.records import record
from lpx.runtime import objects
from lpx.runtime.pool import get_num_threads
from lpx.target import Target

REQUIRED = ("llvmlite", "numpy", "onnx", "ml_dtypes", "typer", "rich", "platformdirs")
OPTIONAL = ("onnxruntime", "torch", "numba", "lightgbm")


@record
class Finding:
    """One line of the report. `fix` says what to do where something is missing, "" where all is well."""

    what: str
    value: str
    fix: str = ""


def doctor() -> None:
    """Look at this machine: processor, LLVM, targets, threads, cache folder, versions.

    The status is 1 when something that lpx needs is missing, with a line that says how to mend it.
    """
    table = Table("", "found", show_header=False)
    findings = [finding for probe in PROBES for finding in _guarded(probe)]
    for finding in findings:
        table.add_row(finding.what, finding.value, style="bold red" if finding.fix else "")
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    broken = [f for f in findings if f.fix]
    for finding in broken:
        console.print(f"{finding.what}: {finding.fix}", style="bold red", markup=False)
    if broken:
        raise typer.Exit(1)


def _guarded(probe: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return probe()
    except LpxError as error:
        return [Finding(probe.__name__.strip("_").replace("_", " "), error.message, error.hint or "see the message")]


def _versions() -> list[Finding]:
    lpx, _, llvm, *_ = objects.versions()
    found = [Finding("lpx", lpx), Finding("Python", platform.python_version()), Finding("LLVM", llvm)]
    for name in REQUIRED:
        version = _version(name)
        fix = "" if version else f"pip install {name}"
        found.append(Finding(name, version or "missing", fix))
    found += [Finding(name, _version(name) or "not installed (optional)") for name in OPTIONAL]
    return found


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _processor() -> list[Finding]:
    target = Target.parse("cpu")
    machine = target.cpu
    caches = f"L1 {machine.l1d.bytes >> 10} KiB, L2 {machine.l2.bytes >> 10} KiB"
    return [
        Finding("target", str(target)),
        Finding("vectors", f"{machine.vector_bits} bits, {machine.vector_registers} registers"),
        Finding("caches", caches),
        Finding("cores", f"{machine.cores} physical, of {os.cpu_count()} hardware threads"),
        Finding("threads", f"{get_num_threads()} (LPX_NUM_THREADS)"),
    ]


def _compiler() -> list[Finding]:
    """Code for this machine, compiled and run; code for others, emitted only."""
    x = te.placeholder((8,), "float32", name="x")

    def doubled(i: te.Scalar) -> te.Scalar:
        return x[i] * 2

    y = te.compute((8,), doubled, name="y")
    given = np.arange(8, dtype=np.float32)
    works = bool(np.array_equal(build(y)(given), given * 2))
    found = [
        Finding("code for this machine", "runs" if works else "gives wrong results", "" if works else "report this")
    ]
    emitted = {name: len(lower_program(y, name).asm.splitlines()) for name in ("cpu:avx2", "cpu:neon", "cpu:sve")}
    found += [Finding(f"code for {name}", f"{lines} lines of assembly") for name, lines in emitted.items()]
    gpu = Target.parse("cuda")
    machine = objects.target_machine(gpu.triple, gpu.processor, gpu.llvm_features)
    found.append(Finding("NVPTX back end", f"{machine.triple}, for {gpu.processor}"))
    return found


def _cache_folder() -> list[Finding]:
    folder = Path(knobs.cache_dir())
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return [Finding("cache folder", str(folder), f"{error.strerror}: make it writable, or set LPX_CACHE_DIR")]
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    return [Finding("cache folder", f"{folder}, {size / 1e6:.1f} MB")]


def _environment() -> list[Finding]:
    knobs.check_environment()
    return [Finding(knob.variable, str(knob())) for knob in knobs.KNOBS if knob() != knob.default()]


PROBES: tuple[Callable[[], list[Finding]], ...] = (_versions, _processor, _compiler, _cache_folder, _environment)
