"""Scheduled programs as machine code: every positive test of a storage, reduction or hardware primitive runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx import te
from lpx.ir.nodes import Function
from lpx.passes import pipeline
from lpx.schedule import Schedule
from lpx.schedule.testing import check_equivalent, drawn_extents, random_arrays
from tests.codegen import harness
from tests.schedule.support import Program, confirm
from tests.support import Golden

Array = NDArray[Any]


def run_compiled(function: Function, arrays: Sequence[Array], extents: Mapping[str, int] | None = None) -> None:
    """Run the machine code of a scheduled function on arrays, in place, next to guard pages in a child process."""
    flat = pipeline.lower(function, harness.HOST).function
    sizes = [(extents or {})[v.name] for v in function.symbols]
    assert harness.run(flat, arrays, sizes) == 0


def check_compiled(
    before: Function, after: Function, extents: Mapping[str, int] | None = None, *, relative: float = 0.0
) -> None:
    """Machine code of both functions gives the same, to the bit unless the order of a reduction changed."""
    sizes = drawn_extents(before, extents or {}, 0)
    arrays = random_arrays(before, sizes, np.random.default_rng(0))
    expected, got = ([a.copy() for a in arrays] for _ in range(2))
    run_compiled(before, expected, sizes)
    run_compiled(after, got, sizes)
    for param, want, have in zip(before.params, expected, got, strict=True):
        if param.role == "in":
            continue
        if relative:
            scale = float(np.max(np.abs(want), initial=0.0))
            np.testing.assert_allclose(have, want, rtol=0.0, atol=relative * scale)
        else:
            harness.assert_same_bits(have, want, param.buffer.name)


def confirm_compiled(
    golden: Golden,
    name: str,
    program: Program,
    apply: Callable[[Schedule], object],
    extents: Mapping[str, int] | None = None,
    *,
    relative: float = 0.0,
) -> Schedule:
    """`confirm`, and the machine code of the scheduled program does what that of the plain program does."""
    schedule = confirm(golden, name, program, apply, extents, relative=relative)
    check_compiled(plain(program), schedule.function, extents, relative=relative)
    return schedule


def check(
    program: Program, schedule: Schedule, extents: Mapping[str, int] | None = None, *, relative: float = 0.0
) -> None:
    """The scheduled program does what the plain one does, in the interpreter and as machine code."""
    check_equivalent(plain(program), schedule.function, extents, relative=relative)
    check_compiled(plain(program), schedule.function, extents, relative=relative)


def plain(program: Program) -> Function:
    """The unscheduled function."""
    return program if isinstance(program, Function) else te.lower(program)
