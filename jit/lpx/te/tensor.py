"""Tensors, the operations that define them, and reads of their elements.

A `Tensor` is a `Buffer` plus the operation that fills it. The buffer knows its tensor, so an expression alone leads to
everything it depends on.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import field
from typing import NoReturn, cast

import numpy as np

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import DefinitionError, DTypeError, InternalError, ShapeError
from lpx.expr import build, traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AxisKind, Const, Expr, Load, Var
from lpx.ir.printer import print_expr
from lpx.records import record
from lpx.source import Span, capture

Dim = int | Expr
"""One entry of a shape as users give and get it: a number, or an expression over symbols (`te.var`)."""


@record(eq=False, repr=False)
class AxisVar(Var):
    """The variable of one axis of a definition: it runs over [0, extent).

    Lowering puts plain variables in its place, so the IR never holds one.
    """

    extent: Expr
    kind: AxisKind


@record(eq=False)
class Frame:
    """The step of a scan, within which `time` and the tensors defined there have a value."""

    name: str
    time: AxisVar


open_frames: ContextVar[tuple[Frame, ...]] = ContextVar("open_frames", default=())
"""The scans whose steps are being written down, outermost first."""


@record(eq=False, kw_only=True)
class Operation:
    """What defines one or more tensors. `scope` holds the scans in whose steps it was written, outermost first."""

    outputs: tuple[Tensor, ...]
    scope: tuple[Frame, ...] = ()
    span: Span | None = None


@record(eq=False, repr=False)
class TensorBuffer(Buffer):
    """The buffer of a tensor."""

    tensor: Tensor = field(kw_only=True)


@record(eq=False, repr=False)
class TensorRead(Load):
    """A read that remembers the user's line until its index has been checked; definitions hold plain loads."""

    span: Span | None


class Tensor:
    """A multi-dimensional value: `A[i, j]` is one element of it, as an expression.

    Tensors come from `te.placeholder`, `te.compute`, `te.update` and `te.scan`. `buffer` is their storage in the IR.
    """

    __slots__ = ("_op", "buffer")

    def __init__(self, name: str, dtype: DType, shape: tuple[Expr, ...]) -> None:
        self.buffer = TensorBuffer(name, dtype, shape, tensor=self)
        self._op: Operation | None = None

    def define(self, op: Operation) -> None:
        """Set, once, the operation that has this tensor among its outputs: the two refer to each other."""
        if self._op is not None:
            raise InternalError(f"tensor {self.name} is defined twice")
        self._op = op

    @property
    def op(self) -> Operation:
        """The operation that defines this tensor."""
        if self._op is None:
            raise InternalError(f"tensor {self.name} is not defined")
        return self._op

    @property
    def name(self) -> str:
        return self.buffer.name

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The extents: a number where constant, else an expression over symbols."""
        return tuple(e.value if isinstance(e, Const) and isinstance(e.value, int) else e for e in self.buffer.shape)

    @property
    def rank(self) -> int:
        return self.buffer.rank

    def __getitem__(self, index: object) -> Expr:
        """One element; as many indices as dimensions, each an integer or an integer expression (`A[()]` for rank 0).

        Indices count from 0 and never wrap around.

        Raises: ShapeError on a wrong number of indices, DTypeError on one that is not an integer. One that can leave
        the tensor raises IndexRangeError when the definition that holds the read is complete.
        """
        entries = cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,)
        span = capture()
        if len(entries) != self.rank:
            raise ShapeError(
                f"{self.name} has {self.rank} dimension(s) but is read with {len(entries)} index(es)",
                hint=f"{self.name}[{element_hint(self)}] is one element",
                span=span,
            )
        indices = tuple(_index(self.name, entry, span) for entry in entries)
        check_open(self, span)
        return TensorRead(self.dtype, 1, self.buffer, indices, None, span)

    def __iter__(self) -> NoReturn:
        raise DefinitionError(
            f"{self.name} cannot be iterated over: its elements exist only when the kernel runs",
            hint="index it by the axes of a te.compute",
            span=capture(),
        )

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}{shape_text(self)})"


def shape_text(tensor: Tensor) -> str:
    """The shape of a tensor, for messages."""
    return f"[{', '.join(print_expr(extent) for extent in tensor.buffer.shape)}]"


def check_open(tensor: Tensor, span: Span | None) -> None:
    """Raise DefinitionError when `tensor` belongs to the step of a scan that is complete."""
    opened = open_frames.get()
    for frame in tensor.op.scope:
        if frame not in opened:
            raise DefinitionError(
                f"{tensor.name} has a meaning only within the step of scan {frame.name}",
                hint="return it from the step as a state (keep='all' keeps its value of every step)",
                span=span,
            )


def tensor_of(buffer: Buffer) -> Tensor:
    """The tensor whose storage `buffer` is."""
    if not isinstance(buffer, TensorBuffer):
        raise InternalError(f"buffer {buffer.name} belongs to no tensor")
    return buffer.tensor


def plain(expr: Expr, spans: dict[Expr, Span | None], memo: dict[Expr, Expr]) -> Expr:
    """`expr` with each `TensorRead` made a plain `Load`; `spans` gets the line of each."""

    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, TensorRead):
            return None
        load = build.load(node.buffer, node.indices)
        spans[load] = node.span
        return load

    return traverse.transform(expr, visit, memo)


def element_hint(tensor: Tensor) -> str:
    """Indices of the right number, as a message shows them."""
    return ", ".join("ijklmnop"[: tensor.rank]) or "()"


def _index(name: str, entry: object, span: Span | None) -> Expr:
    if isinstance(entry, slice) or entry is None or entry is Ellipsis:
        spelled = "a slice" if isinstance(entry, slice) else "..." if entry is Ellipsis else "None"
        raise ShapeError(
            f"{name} is read with {spelled}, but a read is of one element",
            hint="give every dimension an index; an axis of te.compute runs over a range",
            span=span,
        )
    if isinstance(entry, bool | np.bool_):
        raise DTypeError(f"an index of {name} is {entry!r}, not an integer", hint="use te.where to choose", span=span)
    if isinstance(entry, Tensor):
        raise DTypeError(
            f"an index of {name} is the whole tensor {entry.name}",
            hint=f"index by one of its elements: {name}[{entry.name}[i]]",
            span=span,
        )
    if isinstance(entry, int | np.integer):
        return build.const(int(cast("int", entry)))
    if not isinstance(entry, Expr):
        raise DTypeError(f"an index of {name} is {entry!r}, not an integer", hint="cast it to an integer", span=span)
    if not entry.dtype.is_integer:
        raise DTypeError(
            f"an index of {name} has dtype {entry.dtype}, not an integer one",
            hint='te.cast(..., "int64") truncates towards zero',
            span=span,
        )
    return build.cast(entry, dtypes.index)
