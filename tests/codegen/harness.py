"""Compiles flat functions, runs them in a worker process, and compares with the reference interpreter."""

from __future__ import annotations

import atexit
import functools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from lpx import dtypes
from lpx.codegen.cpu import lower_to_llvm
from lpx.codegen.module import RUNTIME_SYMBOLS, GeneratedModule
from lpx.dtypes import DType
from lpx.expr import build
from lpx.expr.buffer import Buffer, Scope
from lpx.expr.nodes import Expr, Var
from lpx.ir.interpreter import interpret
from lpx.ir.nodes import For, Function, Module, Param, Role, Stmt, Store
from lpx.ir.traverse import sequence
from lpx.ir.verify import verify
from lpx.runtime import elf, objects
from lpx.target import Target
from tests.codegen.worker import Answer, Request
from tests.support import ROOT

Array = NDArray[Any]
Compute = Callable[..., Expr]
Guard = Literal["after", "before"]
HOST = Target.parse("cpu")
BASELINE = Target.parse("cpu:x86-64")


class Worker:
    """The process that runs kernels; a new one is started when it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, request: Request) -> Answer:
        """The answer; the test fails when the kernel kills the process."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump(request, process.stdin)
        process.stdin.flush()
        try:
            answer: Answer = pickle.load(process.stdout)
        except EOFError:
            status = process.wait()
            self._process = None
            pytest.fail(f"the kernel {request.entry} ended its process with {status}", pytrace=False)
        return answer

    def close(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process.wait()
            self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-X", "faulthandler", "-c", _START]
            path = ":".join(str(ROOT / part) for part in ("jit", "kernels", "."))
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": path, **_environment()}
            )
        return self._process


def _environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name != "PYTHONPATH" and not name.startswith("LPX_")}


_START = "from tests.codegen.worker import main; main()"
WORKER = Worker()
atexit.register(WORKER.close)


def machine_of(target: Target) -> Any:
    """LLVM's target machine."""
    return objects.target_machine(target.triple, target.processor, target.llvm_features)


def assembly(generated: GeneratedModule, target: Target) -> str:
    """Optimised assembly text."""
    module = objects.parse_module(generated.text)
    objects.optimise(module, machine_of(target))
    return str(machine_of(target).emit_assembly(module))


@functools.lru_cache(maxsize=512)
def _compiled(text: str, target: Target) -> bytes:
    return objects.compile_module(text, machine_of(target))


def run(
    program: Function | Module,
    arrays: Sequence[Array],
    extents: Sequence[int] = (),
    *,
    target: Target = HOST,
    bound: Sequence[Array] = (),
    threads: int = 2,
    guard: Guard = "after",
    interrupted: bool = False,
) -> int:
    """Run a compiled program on arrays, in place (also on read-only parameters); its status."""
    generated = lower_to_llvm(program, target)
    data = _compiled(generated.text, target)
    known = set(elf.undefined_symbols(data))
    assert known <= set(RUNTIME_SYMBOLS)
    buffers = tuple(np.ascontiguousarray(a).tobytes() for a in (*arrays, *bound))
    answer = WORKER.run(Request(data, generated.entry, buffers, tuple(extents), threads, guard, interrupted))
    for array, content in zip(arrays, answer.buffers, strict=False):
        array[...] = np.frombuffer(content, array.dtype).reshape(array.shape)
    return answer.status


def check(
    function: Function,
    inputs: Mapping[str, Array],
    extents: Mapping[str, int] | None = None,
    *,
    targets: Sequence[Target] = (HOST, BASELINE),
    module: Module | None = None,
    guard: Guard = "after",
) -> list[Array]:
    """The arrays after the interpreter's run; the test fails unless compiled code gives the same bits (any NaN is as
    good as any other).
    """
    verify(function)
    expected = [np.array(inputs[p.buffer.name]) for p in function.params]
    interpret(function, expected, extents, module=module, checked=False)
    for target in targets:
        got = [np.array(inputs[p.buffer.name]) for p in function.params]
        status = run(module or function, got, tuple((extents or {}).values()), target=target, guard=guard)
        assert status == 0
        for param, want, have in zip(function.params, expected, got, strict=True):
            assert_same_bits(have, want, f"{param.buffer.name} on {target}")
    return expected


def assert_same_bits(got: Array, want: Array, what: str = "") -> None:
    """Equal bit for bit, except that any NaN equals any other."""
    unsigned = np.dtype(f"u{got.dtype.itemsize}")
    same = got.view(unsigned) == want.view(unsigned)
    if got.dtype.kind in "fV":
        with np.errstate(invalid="ignore"):  # signalling NaNs
            same |= np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    if not same.all():
        wrong = np.argwhere(~same)
        first = tuple(wrong[0])
        raise AssertionError(
            f"{what}: {len(wrong)} of {same.size} differ, first at {first}: {got[first]} for {want[first]}"
        )


# --- building flat functions ---------------------------------------------------------------------------------------


def buffer(name: str, dtype: str | DType, *shape: int | Expr, scope: Scope = "global") -> Buffer:
    extents = tuple(e if isinstance(e, Expr) else build.const(e) for e in shape)
    return Buffer(name, dtypes.parse(dtype), extents, scope=scope)


def function(name: str, params: Mapping[Buffer, Role], body: Stmt, *symbols: Var, **more: Any) -> Function:
    attrs = {"stage": "flat", **more.pop("attrs", {})}
    return Function(name, tuple(Param(b, r) for b, r in params.items()), tuple(symbols), body, attrs, **more)


def serial(var: Var, extent: int | Expr, *body: Stmt, start: int | Expr = 0, **more: Any) -> For:
    return For(var, build.as_expr(start), build.as_expr(extent), sequence(body), **more)


def store(target: Buffer, index: Expr | int, value: Expr, mask: Expr | None = None) -> Store:
    where = build.as_expr(index)
    return Store(target, (where,), build.broadcast(value, max(where.lanes, value.lanes)), mask)


def load(source: Buffer, index: Expr | int, mask: Expr | None = None) -> Expr:
    return build.load(source, (build.as_expr(index),), mask)


def elementwise(
    name: str, result: str | DType, operands: Sequence[tuple[str, str | DType]], compute: Compute, size: int, lanes: int
) -> Function:
    """`R[i] = compute(A[i], B[i], ...)` over `size` elements, `lanes` at a time."""
    inputs = [buffer(n, d, size) for n, d in operands]
    out = buffer("R", result, size)
    i = build.var("i")
    index = build.ramp(build.binary("mul", i, lanes), 1, lanes) if lanes > 1 else i
    value = compute(*(load(b, index) for b in inputs))
    body = serial(i, size // lanes, store(out, index, value))
    return function(name, {**dict.fromkeys(inputs, "in"), out: "out"}, body)
