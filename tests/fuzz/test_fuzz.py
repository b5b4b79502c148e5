"""Random programs under random schedules, in the interpreter and compiled.

    python -m pytest tests/fuzz                # 25 pairs, always the same
    python -m pytest tests/fuzz -m long -s     # 2,000 pairs, new ones each time; prints accepted and refused primitives

For every pair of a program and a schedule: the interpreter computes with the scheduled function what it computes with
the original one, to the bit (closely, where a reduction was reassociated); and compiled code computes what the
interpreter does with the scheduled function, to the bit, touching nothing but its arguments. Compiled code runs in a
child process, so that a crash is a failing case with its program, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lpx import te
from lpx.errors import LpxError, RuntimeCheckError
from lpx.ir.interpreter import interpret
from lpx.ir.nodes import Function
from lpx.ir.printer import print_function
from lpx.passes.lower_blocks import LowerBlocks
from lpx.records import replace
from lpx.rules.default import default_schedule
from lpx.schedule import Schedule, create_schedule
from lpx.schedule.testing import random_arrays
from lpx.target import Target
from tests.fuzz.isolated import CrashError, Isolated
from tests.fuzz.programs import EXTENTS, Program, programs
from tests.fuzz.schedules import Counts, apply_random
from tests.fuzz.worker import Request, Run, Side

Array = NDArray[Any]
Outcome = list[Array] | str
"""The arrays of all parameters after a run, or the name of the error it raised."""

HEALTH = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]


@pytest.fixture(scope="module")
def isolated(cache_dir: Path) -> Iterator[Isolated]:
    child = Isolated(cache_dir)
    yield child
    child.close()


def lowered(program: Program) -> Function:
    """The program, such that compiled code rounds every product and sum by itself, as the interpreter does."""
    function = te.lower(program.outputs)
    return replace(function, attrs={**function.attrs, "contract": False})


@st.composite
def arguments(draw: st.DrawFn, function: Function) -> list[Array]:
    """Arrays for every parameter: symbols have one of `EXTENTS`, outputs hold 0xAA bytes, some floats are odd ones."""
    extents = {s.name: draw(st.sampled_from(EXTENTS)) for s in function.symbols}
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    arrays = random_arrays(function, extents, rng)
    if draw(st.integers(0, 3)) == 0:
        for param, array in zip(function.params, arrays, strict=True):
            if param.buffer.dtype.is_float and param.role != "out":
                odd = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e-7], array.shape)
                array[...] = np.where(rng.random(array.shape) < 0.15, odd.astype(array.dtype), array)
    return arrays


def run(function: Function, arrays: Sequence[Array]) -> Outcome:
    """What the interpreter makes of `arrays`.

    A reduction over an empty symbolic axis starts all the same, which blocks as such do not say: the pass does.
    """
    copies = [np.array(a) for a in arrays]
    if any(0 in a.shape for a in arrays):
        function = LowerBlocks()(function)
    try:
        interpret(function, copies, seed=1)
    except RuntimeCheckError:
        return RuntimeCheckError.__name__
    return copies


def difference(function: Function, want: Outcome, have: Outcome, *, tolerance: float = 0.0) -> str:
    """What is wrong with `have`; nothing when it is as wanted: to the bit, or within a relative `tolerance`."""
    if isinstance(want, str) or isinstance(have, str):
        return "" if want is have or want == have else f"{have} instead of {want}"
    for param, a, b in zip(function.params, want, have, strict=True):
        same = _close(a, b, tolerance) if tolerance and param.buffer.dtype.is_float else _same_bits(a, b)
        if not same.all():
            where = tuple(int(k) for k in np.argwhere(~same)[0])
            return f"{param.buffer.name}{list(where)} of {list(a.shape)} is {b[where]} instead of {a[where]}"
    return ""


def _same_bits(a: Array, b: Array) -> Array:
    """Where bits are equal; any NaN is as good as any other."""
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    same = np.asarray(a.view(unsigned) == b.view(unsigned))
    if a.dtype.kind in "fV":
        same |= np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    return same


def _close(a: Array, b: Array, relative: float) -> Array:
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    scale = max(1.0, float(np.max(np.abs(wide_a), initial=0.0, where=np.isfinite(wide_a))))
    with np.errstate(invalid="ignore"):
        return np.isclose(wide_a, wide_b, rtol=0.0, atol=relative * scale, equal_nan=True)


def fail(message: str, program: Program, s: Schedule, arrays: Sequence[Array] = ()) -> None:
    """Fail with everything that it takes to see the case again."""
    shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
    head = f"{message}\nrules: {', '.join(program.rules)}\narguments: {shapes}"
    raise AssertionError(f"{head}\n{print_function(te.lower(program.outputs))}\n{s.trace.as_python()}\n{s}")


def check_pair(data: st.DataObject, isolated: Isolated, counts: Counts) -> None:
    """One program under one random schedule."""
    program = data.draw(programs())
    original = lowered(program)
    s = create_schedule(original)
    try:
        reassociated = apply_random(data.draw, s, counts)  # type: ignore[arg-type]
    except Exception as error:
        error.add_note(f"{print_function(original)}\n{s.trace.as_python()}\n{s}")
        raise
    compare(data, program, original, s, isolated, tolerance=program.error if reassociated else 0.0, is_scheduled=True)


def check_default(data: st.DataObject, isolated: Isolated) -> None:
    """One program under its default schedule, which may reassociate."""
    program = data.draw(programs())
    original = lowered(program)
    s = default_schedule(original, Target.parse("cpu")).schedule
    compare(data, program, original, s, isolated, tolerance=program.error, is_scheduled=False)


def compare(
    data: st.DataObject,
    program: Program,
    original: Function,
    s: Schedule,
    isolated: Isolated,
    *,
    tolerance: float,
    is_scheduled: bool,
) -> None:
    arguments_of_runs = data.draw(st.lists(arguments(original), min_size=1, max_size=2))
    expected: list[Outcome] = []
    for arrays in arguments_of_runs:
        want = run(original, arrays)
        try:
            have = run(s.function, arrays)
        except LpxError as error:
            fail(f"schedule: {type(error).__name__}: {error}", program, s, arrays)
            return
        problem = difference(original, want, have, tolerance=tolerance)
        if problem:
            fail(f"schedule: {problem}", program, s, arrays)
        expected.append(have)
    side: Side = data.draw(st.sampled_from(("after", "before")))
    function = s.function if is_scheduled else original
    request = Request(
        print_function(function),
        tuple(function.constants.values()),
        tuple(Run(tuple(a), side) for a in arguments_of_runs),
        threads=data.draw(st.sampled_from((1, 2))),
        is_scheduled=is_scheduled,
    )
    try:
        answer = isolated(request)
    except CrashError as error:
        fail(f"compiled: {error}", program, s, arguments_of_runs[0])
        return
    if answer.error:
        fail(f"compiled: {answer.error}", program, s, arguments_of_runs[0])
    for arrays, want, result in zip(arguments_of_runs, expected, answer.results, strict=True):
        problem = difference(original, want, result if isinstance(result, str) else list(result))
        if problem:
            fail(f"compiled: {problem}", program, s, arrays)


def test_pairs(isolated: Isolated) -> None:
    counts = Counts()

    @given(st.data())
    @settings(max_examples=25, derandomize=True, suppress_health_check=HEALTH, database=None)
    def check(data: st.DataObject) -> None:
        check_pair(data, isolated, counts)

    check()
    assert sum(counts.accepted.values()) >= 100


def test_default_schedules(isolated: Isolated) -> None:
    @given(st.data())
    @settings(max_examples=15, derandomize=True, suppress_health_check=HEALTH, database=None)
    def check(data: st.DataObject) -> None:
        check_default(data, isolated)

    check()


@pytest.mark.long
def test_many_pairs(isolated: Isolated) -> None:
    counts = Counts()

    @given(st.data())
    @settings(max_examples=2000, suppress_health_check=HEALTH)
    def check(data: st.DataObject) -> None:
        check_pair(data, isolated, counts)

    try:
        check()
    finally:
        print(f"\n{counts}")


@pytest.mark.long
def test_many_default_schedules(isolated: Isolated) -> None:
    @given(st.data())
    @settings(max_examples=500, suppress_health_check=HEALTH)
    def check(data: st.DataObject) -> None:
        check_default(data, isolated)

    check()
