"""Nodes of the loop-nest IR: statements, functions, modules.

Frozen, compared by identity. A loop is known by its variable, a block by its name (unique within a function), storage
by its `Buffer`. The IR moves through three stages, each with a verifier of its own (`lpx.ir.verify`):

- `scheduled`: blocks with axes; what te produces and schedules rewrite;
- `lowered`: no blocks, no vectorized or unrolled loops; vector expressions, multi-dimensional buffers;
- `flat`: every access is a single physical index, ready for code generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, BinaryOp, Expr, Var
from lpx.expr.text import Shown
from lpx.records import record
from lpx.source import Span

ForKind = Literal["serial", "parallel", "vectorized", "unrolled", "bound"]
ThreadAxis = Literal[
    "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread", "warp", "lane"
]
BarrierScope = Literal["region", "block", "warp"]
Role = Literal["in", "constant", "out", "inout"]
Stage = Literal["scheduled", "lowered", "flat"]
Attr = bool | int | float | str
_NO_ATTRS: Mapping[str, Attr] = MappingProxyType({})


def no_attrs() -> Mapping[str, Attr]:
    """The empty attribute mapping, shared and read-only."""
    return _NO_ATTRS


@record(eq=False, repr=False)
class Stmt(Shown):
    """Base of all statements; `span` is the user's line it came from."""

    span: Span | None = field(default=None, kw_only=True)


@record(eq=False, repr=False)
class Seq(Stmt):
    """Statements run in order; an empty one does nothing."""

    stmts: tuple[Stmt, ...]


@record(eq=False, repr=False)
class For(Stmt):
    """`var` runs over [start, start + extent); an extent below 1 runs nothing.

    `parallel` iterations run in any order on any thread. `vectorized` ones are lanes, `unrolled` ones are copied out;
    both need a constant extent. `bound` iterations run on the hardware axis `thread`. `stages` gives a software
    pipeline: for each statement of the body its (stage, order).
    """

    var: Var
    start: Expr
    extent: Expr
    body: Stmt
    kind: ForKind = "serial"
    thread: ThreadAxis | None = None
    stages: tuple[tuple[int, int], ...] | None = None
    pragmas: Mapping[str, Attr] = field(default_factory=no_attrs)


@record(eq=False, repr=False)
class ParallelRegion(Stmt):
    """Every thread of the pool runs the body; `parallel` loops directly in it (through Seq, If, serial loops) are
    shared among the threads, other statements are run by each. Threads meet only at `Barrier("region")` and the end.
    """

    body: Stmt


@record(eq=False, repr=False)
class If(Stmt):
    """`then` where the scalar bool `cond` holds, else `orelse`."""

    cond: Expr
    then: Stmt
    orelse: Stmt | None = None


@record(eq=False, repr=False)
class While(Stmt):
    """The body again and again, as long as the scalar bool `cond` holds before it."""

    cond: Expr
    body: Stmt


@record(eq=False, repr=False)
class Let(Stmt):
    """`var` is `value` within the body."""

    var: Var
    value: Expr
    body: Stmt


@record(eq=False, repr=False)
class Block(Stmt):
    """A unit of computation with axes of its own, bound to expressions of the loops around it.

    One run happens for each value of the surrounding loops at which `predicate` holds. `init` runs before `body`
    whenever all reduce axes are 0 (it starts an accumulation). Runs at different spatial values touch different
    elements of what the block writes, so they may run in any order.
    """

    name: str
    axes: tuple[Axis, ...]
    bindings: tuple[Expr, ...]
    predicate: Expr | None
    init: Stmt | None
    body: Stmt
    attrs: Mapping[str, Attr] = field(default_factory=no_attrs)


@record(eq=False, repr=False)
class Store(Stmt):
    """buffer[indices] = value; lanes whose `mask` is off write nothing."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    mask: Expr | None = None


@record(eq=False, repr=False)
class AtomicUpdate(Stmt):
    """buffer[indices] = buffer[indices] op value, as one step that no other thread sees half done."""

    op: BinaryOp
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@record(eq=False, repr=False)
class Alloc(Stmt):
    """`buffer` exists, uninitialised, within the body; inside a parallel loop each iteration has its own."""

    buffer: Buffer
    body: Stmt


@record(eq=False, repr=False)
class Barrier(Stmt):
    """All threads of the scope arrive before any goes on."""

    scope: BarrierScope


@record(eq=False, repr=False)
class AsyncCopy(Stmt):
    """Start copying `count` consecutive elements (of the last axis); the target is undefined until waited for."""

    target: Buffer
    target_indices: tuple[Expr, ...]
    source: Buffer
    source_indices: tuple[Expr, ...]
    count: int


@record(eq=False, repr=False)
class AsyncCommit(Stmt):
    """Close the group of copies started by this thread since the last commit."""


@record(eq=False, repr=False)
class AsyncWait(Stmt):
    """Wait until at most `pending` committed groups of this thread are unfinished."""

    pending: int


@record(eq=False, repr=False)
class Evaluate(Stmt):
    """An operation run for its effect."""

    value: Expr


@record(eq=False, repr=False)
class CallFunction(Stmt):
    """Run another function of the module on buffers and extents."""

    function: str
    buffers: tuple[Buffer, ...]
    extents: tuple[Expr, ...]


@record(eq=False, repr=False)
class Check(Stmt):
    """Unless `cond` holds (in every lane), the kernel stops and raises RuntimeCheckError with `message`."""

    cond: Expr
    message: str


@record(eq=False, repr=False)
class Param(Shown):
    """A buffer parameter: `out` is written entirely and not read before, `inout` is read and written; a `constant`
    is an `in` whose elements are the same for every call.
    """

    buffer: Buffer
    role: Role = "in"

    @property
    def is_input(self) -> bool:
        """Whether the function only reads it."""
        return self.role in ("in", "constant")


@record(eq=False, repr=False)
class Function(Shown):
    """A kernel: buffer parameters, then symbolic extents (non-negative), then the statement that runs.

    `attrs` holds what changes meaning or code for the whole function: `contract` (default True: multiply-add
    contraction inside a reduction's accumulate), `fastmath` (comma-separated LLVM flags), `stage`.
    """

    name: str
    params: tuple[Param, ...]
    symbols: tuple[Var, ...]
    body: Stmt
    attrs: Mapping[str, Attr] = field(default_factory=no_attrs)
    constants: Mapping[Buffer, NDArray[np.generic]] = field(default_factory=dict[Buffer, NDArray[np.generic]])

    @property
    def stage(self) -> Stage:
        """The stage the function is in, recorded in its attributes."""
        stage = self.attrs.get("stage", "scheduled")
        if stage == "lowered":
            return "lowered"
        return "flat" if stage == "flat" else "scheduled"


@record(eq=False, repr=False)
class Module(Shown):
    """Functions that call each other; `entry` is the one callers run. A function's large constants are bound by
    pointer, never printed into code.
    """

    functions: Mapping[str, Function]
    entry: str
