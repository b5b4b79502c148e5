"""Programs to schedule, and the check that every positive test of a primitive makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lpx import te
from lpx.expr.nodes import Expr
from lpx.ir.nodes import Function
from lpx.ir.parser import parse_function
from lpx.ir.printer import print_function
from lpx.schedule import Schedule, Trace, create_schedule, replay
from lpx.schedule.testing import check_equivalent
from tests.support import Golden

Extent = int | Expr
Program = te.Tensor | Sequence[te.Tensor] | Function


def elementwise(n: Extent) -> te.Tensor:
    """C[i] = (A[i] + 1) * 2, through B."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    return te.compute((n,), lambda i: b[i] * 2.0, name="C")


def matmul(m: Extent, k: Extent, n: Extent) -> te.Tensor:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


def bias_relu(m: Extent, k: Extent, n: Extent) -> te.Tensor:
    """D = max(C + bias, 0) after a matmul C."""
    c = matmul(m, k, n)
    bias = te.placeholder((n,), name="bias")
    return te.compute((m, n), lambda i, j: te.maximum(c[i, j] + bias[j], 0.0), name="D")


def blur(n: Extent) -> te.Tensor:
    """S[i] = P[i-1] + P[i] + P[i+1] with zeros outside, P = A * 2."""
    a = te.placeholder((n,), name="A")
    p = te.compute((n,), lambda i: a[i] * 2.0, name="P")

    def padded(i: te.Scalar, shift: int) -> te.Scalar:
        inside = (i + shift >= 0) & (i + shift < n)
        return te.where(inside, p[i + shift], 0.0)

    return te.compute((n,), lambda i: padded(i, -1) + p[i] + padded(i, 1), name="S")


def softmax(m: Extent, n: Extent) -> te.Tensor:
    x = te.placeholder((m, n), name="X")
    a, b = te.reduce_axis(n, name="a"), te.reduce_axis(n, name="b")
    largest = te.compute((m,), lambda i: te.max(x[i, a], axis=a), name="M")
    e = te.compute((m, n), lambda i, j: x[i, j] - largest[i], name="E")
    z = te.compute((m,), lambda i: te.sum(e[i, b], axis=b), name="Z")
    return te.compute((m, n), lambda i, j: e[i, j] / z[i], name="O")


def confirm(
    golden: Golden,
    name: str,
    program: Program,
    apply: Callable[[Schedule], object],
    extents: Mapping[str, int] | None = None,
    *,
    relative: float = 0.0,
) -> Schedule:
    """Schedule a program and check the four things: golden text, traces as JSON and as Python, equal results."""
    before = create_schedule(program).function
    schedule = create_schedule(program)
    apply(schedule)
    text = print_function(schedule.function)
    golden(f"{name}.txt", f"{print_function(before)}\n\n{text}")
    assert print_function(parse_function(text)) == text
    check_replays(schedule, program)
    check_equivalent(before, schedule.function, extents, relative=relative)
    return schedule


def check_replays(schedule: Schedule, program: Program) -> None:
    """The trace does the same again: from JSON, and as Python source."""
    stored = Trace.from_json(schedule.trace.to_json())
    assert stored == schedule.trace
    assert str(replay(stored, program)) == str(schedule)
    names: dict[str, Callable[[Schedule], None]] = {}
    exec(schedule.trace.as_python(), names)
    again = create_schedule(program)
    names["apply"](again)
    assert str(again) == str(schedule)
