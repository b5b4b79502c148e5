"""Runs a program under a handful of schedules, compiled, in a process of its own, on guarded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lpx import te
from lpx.errors import ScheduleError
from lpx.ir.interpreter.arguments import evaluate
from lpx.ir.nodes import Function
from lpx.ir.printer import print_function
from lpx.schedule import BlockHandle, LoopHandle, Schedule, create_schedule
from tests.codegen.harness import assert_same_bits
from tests.fuzz.isolated import Isolated
from tests.fuzz.worker import Request, Run

Array = NDArray[Any]
Program = te.Tensor | Sequence[te.Tensor] | Function
Apply = Callable[[Schedule], object]

BASELINE = "cpu:x86_64-unknown-linux-gnu/x86-64"
"""A processor without AVX, F16C and FMA; its code runs on every machine of this kind."""


def plain(s: Schedule) -> None:
    """The program as it was written."""


def _spatial(s: Schedule, block: BlockHandle) -> list[LoopHandle]:
    """The loops around a block that may run at once."""
    found: list[LoopHandle] = []
    for loop in s.loops(block):
        trial = create_schedule(s.function)
        with suppress(ScheduleError):
            trial.parallel(next(h for h in trial.loops(block) if h.var is loop.var))
            found.append(loop)
    return found


def split(factor: int) -> Apply:
    """Split the innermost loop of every block and make what may be one a vector."""

    def apply(s: Schedule) -> None:
        for block in s.blocks():
            for loop in _spatial(s, block)[-1:]:
                _, inner = s.split(loop, factor)
                with suppress(ScheduleError):
                    s.vectorize(inner)

    return apply


def vectorized(s: Schedule) -> None:
    for block in s.blocks():
        for loop in _spatial(s, block)[-1:]:
            with suppress(ScheduleError):
                s.vectorize(loop)


def unrolled(s: Schedule) -> None:
    for block in s.blocks():
        for loop in s.loops(block)[-1:]:
            with suppress(ScheduleError):
                s.unroll(s.split(loop, 4)[1])


def parallel(s: Schedule) -> None:
    for block in s.blocks():
        for loop in _spatial(s, block)[:1]:
            s.parallel(loop)


def inlined(s: Schedule) -> None:
    for block in s.blocks():
        with suppress(ScheduleError):
            s.compute_inline(block)
    vectorized(s)


def nested(s: Schedule) -> None:
    """Every producer in the outermost loop of its consumer, tiled."""
    for block in reversed(s.blocks()):
        with suppress(ScheduleError):
            loop = s.loops(s.blocks()[-1])[0]
            s.compute_at(block, loop)


SCHEDULES: Mapping[str, Apply] = {
    "plain": plain,
    "split 4": split(4),
    "split 7": split(7),
    "split 8": split(8),
    "vectorized": vectorized,
    "unrolled": unrolled,
    "parallel": parallel,
    "inlined": inlined,
    "nested": nested,
}


class Checker:
    """`check(program, inputs, outputs)`: every schedule gives the wanted outputs, and touches nothing else."""

    def __init__(self, isolated: Isolated) -> None:
        self._isolated = isolated

    def __call__(
        self,
        program: Program,
        inputs: Sequence[ArrayLike],
        want: Sequence[ArrayLike],
        schedules: Mapping[str, Apply] = SCHEDULES,
        *,
        target: str = "cpu",
        rtol: float = 0.0,
        with_default: bool = True,
    ) -> None:
        function = program if isinstance(program, Function) else te.lower(program)
        arrays = [np.asarray(a) for a in inputs]
        expected = [np.asarray(w) for w in want]
        for name, scheduled in _variants(function, schedules):
            self._check(scheduled, True, arrays, expected, f"{name} on {target}", target, rtol)
        if with_default:
            self._check(function, False, arrays, expected, f"default on {target}", target, rtol)

    def _check(
        self,
        function: Function,
        is_scheduled: bool,
        inputs: Sequence[Array],
        want: Sequence[Array],
        what: str,
        target: str,
        rtol: float,
    ) -> None:
        arguments = _arguments(function, inputs)
        runs = tuple(Run(arguments, side) for side in ("after", "before"))
        request = Request(
            print_function(function),
            tuple(function.constants.values()),
            runs,
            is_scheduled=is_scheduled,
            target=target,
        )
        answer = self._isolated(request)
        assert not answer.error, f"{what}: {answer.error}\n{function}"
        for result in answer.results:
            assert not isinstance(result, str), f"{what}: {result}\n{function}"
            written = [a for p, a in zip(function.params, result, strict=True) if p.role != "in"]
            for got, wanted in zip(written, want, strict=True):
                if rtol:
                    np.testing.assert_allclose(got, wanted, rtol=rtol, err_msg=f"{what}\n{function}")
                else:
                    assert_same_bits(got, wanted.astype(got.dtype).reshape(got.shape), f"{what}\n{function}")


def _variants(function: Function, schedules: Mapping[str, Apply]) -> Iterator[tuple[str, Function]]:
    """The scheduled functions that differ."""
    seen: set[str] = set()
    for name, apply in schedules.items():
        s = create_schedule(function)
        apply(s)
        if str(s) not in seen:
            seen.add(str(s))
            yield name, s.function


def _arguments(function: Function, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The inputs, then outputs full of 0xAA bytes."""
    given = [p for p in function.params if p.role != "out"]
    assert len(given) == len(inputs)
    symbols = {
        extent: size
        for param, array in zip(given, inputs, strict=True)
        for extent, size in zip(param.buffer.shape, array.shape, strict=True)
    }
    known = {s: symbols[s] for s in function.symbols}
    values = dict(zip((p.buffer for p in given), inputs, strict=True))
    arguments: list[Array] = []
    for param in function.params:
        dtype = param.buffer.dtype.to_numpy()
        if param.role == "out":
            shape = evaluate(param.buffer.shape, known)
            poison = b"\xaa" * (int(np.prod(shape)) * dtype.itemsize)
            arguments.append(np.frombuffer(poison, dtype).reshape(shape))
        else:
            arguments.append(np.ascontiguousarray(values[param.buffer], dtype))
    return tuple(arguments)
