"""Nodes of scalar and vector expressions, shared by tensor expressions and loop-nest IR.

An expression is a DAG of frozen nodes compared by identity: a node used twice is computed once. Every node knows its
element `dtype` and its number of vector `lanes` (1 for a scalar). Build nodes through `lpx.expr.build` (or Python's
operators), which checks operands and folds nothing; rewriting rules live in `lpx.arith`.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from lpx.dtypes import DType
from lpx.records import record

if TYPE_CHECKING:
    from lpx.expr.buffer import Buffer
    from lpx.expr.ops import Op

from lpx.expr.operators import Operators
from lpx.expr.text import Shown

BinaryOp = Literal[
    "add", "sub", "mul", "div", "floordiv", "floormod", "truncdiv", "truncmod",
    "min", "max", "bitand", "bitor", "bitxor", "shl", "shr",
]  # fmt: skip
"""`div` is the true division of floats. The four integer divisions differ in rounding; division by zero is a run-time
error, INT_MIN / -1 wraps. `min`/`max` propagate NaN. On bools the bit operations are the logical ones. Shifts by the
width or more give 0 (or the sign for `shr` of a signed value). Integer arithmetic wraps."""

UnaryOp = Literal["neg", "not"]
"""`not` is the logical not of a bool and the bitwise complement of an integer."""

CompareOp = Literal["eq", "ne", "lt", "le"]
AxisKind = Literal["spatial", "reduce", "sequential"]


class Summarised:
    """Room for what `lpx.expr.traverse` remembers of a node, which never changes."""

    __slots__ = ("found", "summary")

    summary: tuple[frozenset[Var], bool]
    """The variables in the expression, and whether it reads memory or takes an address; absent until asked for."""
    found: tuple[Load | AddressOf, ...]
    """The reads and addresses in it; absent until asked for."""


@record(eq=False, repr=False)
class Expr(Operators, Shown, Summarised):
    """Base of all expressions."""

    dtype: DType
    lanes: int


@record(eq=False, repr=False)
class Var(Expr):
    """A scalar variable: a loop counter, a symbolic extent, a let-bound value. Its name is a hint; identity counts."""

    name: str


@record(eq=False, repr=False)
class Const(Expr):
    """A scalar constant, already in range of its dtype (a bool or int for bool and integer dtypes, else a float).

    The float value of a narrow dtype is exactly representable in it.
    """

    value: int | float


@record(eq=False, repr=False)
class Unary(Expr):
    """`op a`."""

    op: UnaryOp
    a: Expr


@record(eq=False, repr=False)
class Binary(Expr):
    """`a op b`; both operands have the node's dtype and lanes."""

    op: BinaryOp
    a: Expr
    b: Expr


@record(eq=False, repr=False)
class Compare(Expr):
    """`a op b` as a bool; the operands share dtype and lanes. Comparisons with NaN are false, but `ne` is true."""

    op: CompareOp
    a: Expr
    b: Expr


@record(eq=False, repr=False)
class Select(Expr):
    """`a` where `cond` else `b`, lane by lane. Memory is read only on behalf of the side that is taken."""

    cond: Expr
    a: Expr
    b: Expr


@record(eq=False, repr=False)
class Cast(Expr):
    """Value conversion to `dtype`: floats round to nearest even; float to integer truncates and saturates, NaN to 0;
    integers wrap; anything to bool is `!= 0`.
    """

    value: Expr


@record(eq=False, repr=False)
class Bitcast(Expr):
    """The same bits as another dtype of the same width."""

    value: Expr


@record(eq=False, repr=False)
class Load(Expr):
    """Element(s) of a buffer. One index may be a vector (or several of equal lanes): a contiguous, strided or gathered
    read. `mask` is a bool of the same lanes: lanes that are off touch no memory and give 0.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    mask: Expr | None


@record(eq=False, repr=False)
class AddressOf(Expr):
    """The address of an element, as an operand of a hardware operation, a prefetch or an extern call."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@record(eq=False, repr=False)
class Ramp(Expr):
    """The vector base, base + stride, ..., base + (lanes - 1) * stride of a scalar base and stride."""

    base: Expr
    stride: Expr


@record(eq=False, repr=False)
class Broadcast(Expr):
    """A scalar repeated in every lane."""

    value: Expr


@record(eq=False, repr=False)
class Shuffle(Expr):
    """Lanes picked by constant index from the concatenation of `vectors`; with one index, a scalar extract."""

    vectors: tuple[Expr, ...]
    indices: tuple[int, ...]


@record(eq=False, repr=False)
class Lookup(Expr):
    """`table[index % len(table)]`, lane by lane: a float constant picked by an integer of any dtype. The length is a
    power of two, so the remainder is the low bits of the index, and no index is out of bounds.
    """

    table: tuple[float, ...]
    index: Expr


@record(eq=False, repr=False)
class HorizontalReduce(Expr):
    """All lanes of a vector combined into a scalar, pairwise in halving steps: lane i with lane i + lanes/2, and so on
    (an odd lane at the end of a step is carried over). The order is part of the meaning.
    """

    op: BinaryOp
    value: Expr


@record(eq=False, repr=False)
class Call(Expr):
    """A mathematical function or one hardware operation, applied lane by lane unless the operation says otherwise."""

    op: Op
    args: tuple[Expr, ...]


@record(eq=False, repr=False)
class Axis(Shown):
    """An iteration axis: `var` runs over [0, extent).

    `spatial` values are independent of each other, `reduce` values accumulate in increasing order, `sequential` values
    run in increasing order and may read what earlier ones wrote.
    """

    var: Var
    extent: Expr
    kind: AxisKind = field(default="spatial")
