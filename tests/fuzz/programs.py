"""Random tensor programs: three or more definitions over each other, drawn by hypothesis.

A rule makes one more tensor from those there are. `EXTENTS` holds what a symbol of a program may be when it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
from hypothesis import strategies as st

from lpx import dtypes, te
from lpx.expr.nodes import Expr, Var

T = TypeVar("T")
Indices = tuple[Expr, ...]
Element = Callable[[Indices], Expr]
Operation = Callable[[Expr, Expr], Expr]

EXTENTS = (0, 1, 2, 7, 8, 9)
DTYPES = (
    *("float32", "float32", "float32", "int32", "int32"),
    *("float64", "float16", "bfloat16", "int8", "uint16", "int64"),
)


ERRORS = {"float16": 0.1, "bfloat16": 0.5, "float32": 1e-4, "float64": 1e-10}
"""How far a reassociated reduction may be off, relative to the largest element (at least 1)."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A tensor of a program. `error`: how far it may be off, by the coarsest dtype since a reassociated reduction."""

    tensor: te.Tensor
    error: float = 0.0

    @property
    def is_exact(self) -> bool:
        """No floating-point sum before it, which a schedule may reassociate."""
        return self.error == 0

    @property
    def shape(self) -> tuple[te.Dim, ...]:
        return self.tensor.shape

    @property
    def rank(self) -> int:
        return self.tensor.rank

    @property
    def is_float(self) -> bool:
        return self.tensor.dtype.is_float


@dataclass(frozen=True, slots=True)
class Program:
    """What is computed, the rules that made it, and how far reassociation may change a result: 0 for not at all."""

    outputs: tuple[te.Tensor, ...]
    rules: tuple[str, ...]
    error: float


class Writer:
    """Draws a program, stage after stage."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._symbols = (te.var("n"), te.var("m"))
        self._inputs = 0
        self._names = 0
        self.stages: list[Stage] = []

    def one_of(self, options: Sequence[T]) -> T:
        return self._draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        return self._draw(st.integers(0, 99)) < percent

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self._draw(st.permutations(items))

    def extent(self, largest: int = 9) -> te.Dim:
        """A constant, or one of two symbols."""
        if self.chance(35):
            return self.one_of(self._symbols)
        return self.one_of([e for e in (1, 2, 3, 4, 5, 7, 8, 9) if e <= largest])

    def name(self) -> str:
        self._names += 1
        return f"T{self._names}"

    def placeholder(self, shape: Sequence[te.Dim], dtype: object, *, inout: bool = False) -> te.Tensor:
        self._inputs += 1
        return te.placeholder(tuple(shape), dtype, f"X{self._inputs}", inout=inout)

    def input(self, shape: Sequence[te.Dim], dtype: object) -> Stage:
        return Stage(self.placeholder(shape, dtype))

    def constant(self, shape: Sequence[int], dtype: dtypes.DType) -> Stage:
        seed = self._draw(st.integers(0, 9))
        values = np.random.default_rng(seed).integers(0, 5, tuple(shape)).astype(dtype.to_numpy())
        return Stage(te.constant(values, f"K{seed}"))

    def like(self, stage: Stage) -> Stage:
        """A stage of the same shape and dtype: an earlier one, a constant or a new input."""
        same = [s for s in self.stages if same_shape(s.shape, stage.shape) and s.tensor.dtype == stage.tensor.dtype]
        if same and self.chance(60):
            return self.one_of(same)
        if is_constant(stage.shape) and stage.rank and self.chance(20):
            return self.constant(cast("tuple[int, ...]", stage.shape), stage.tensor.dtype)
        if not is_plain(stage.shape):
            return stage
        return self.input(stage.shape, stage.tensor.dtype)

    def define(self, shape: Sequence[te.Dim], body: Element) -> te.Tensor:
        """A tensor whose elements `body` gives, from the tuple of their indices."""

        def element(*indices: Expr) -> Expr:
            return body(indices)

        return te.compute(tuple(shape), element, name=self.name())

    def define_several(self, shape: Sequence[te.Dim], body: Callable[[Indices], Sequence[Expr]]) -> list[te.Tensor]:
        """Two tensors at once."""

        def elements(*indices: Expr) -> Sequence[Expr]:
            return body(indices)

        return list(te.compute(tuple(shape), elements, name=(self.name(), self.name())))

    def compute(self, shape: Sequence[te.Dim], body: Element, *used: Stage, reassociates: bool = False) -> Stage:
        """A stage from what `used` hold."""
        return made_from(used, self.define(shape, body), reassociates=reassociates)


def made_from(used: Sequence[Stage], tensor: te.Tensor, *, reassociates: bool) -> Stage:
    """The stage of a tensor that `used` went into."""
    error = max((s.error for s in used), default=0.0)
    if tensor.dtype.is_float and (error or reassociates):
        error = max(error, ERRORS[tensor.dtype.name])
    return Stage(tensor, error)


def same_shape(a: Sequence[te.Dim], b: Sequence[te.Dim]) -> bool:
    return len(a) == len(b) and all(
        x is y or (isinstance(x, int) and isinstance(y, int) and x == y) for x, y in zip(a, b, strict=True)
    )


def is_constant(shape: Sequence[te.Dim]) -> bool:
    return all(isinstance(e, int) for e in shape)


def is_plain(shape: Sequence[te.Dim]) -> bool:
    """Whether an array of this shape may be an argument: numbers and symbols only."""
    return all(isinstance(e, int | Var) for e in shape)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program of three to six stages, at most three of them outputs."""
    w = Writer(draw)
    rank = w.one_of((1, 1, 2, 2, 2, 3))
    shape = [w.extent(9 if rank < 3 else 4) for _ in range(rank)]
    w.stages.append(w.input(shape, w.one_of(DTYPES)))
    rules: list[str] = []
    for _ in range(draw(st.integers(3, 5))):
        stage = w.stages[-1] if w.chance(75) else w.one_of(w.stages)
        usable = [rule for rule, fits in RULES if fits(stage)]
        rule = w.one_of(usable)
        w.stages.extend(rule(w, stage))
        rules.append(rule.__name__)
    outputs = [_presentable(w, w.stages[-1])]
    if w.chance(30):
        others = [s for s in w.stages[1:-1] if is_plain(s.shape)]
        outputs.extend([w.one_of(others)] if others else [])
    return Program(tuple(s.tensor for s in dict.fromkeys(outputs)), tuple(rules), max(s.error for s in outputs))


def _presentable(w: Writer, stage: Stage) -> Stage:
    """`stage`, or what is left of it when every extent that is no number or symbol is reduced."""
    shape = stage.shape
    if is_plain(shape):
        return stage
    odd = [k for k, e in enumerate(shape) if not isinstance(e, int | Var)]
    return _reduced(w, stage, odd, te.max)


# --- rules: one more tensor -------------------------------------------------------------------------------------


def elementwise(w: Writer, a: Stage) -> list[Stage]:
    b = w.like(a)
    table = _FLOAT_OPERATIONS if a.is_float else _INTEGER_OPERATIONS
    exact_only = a.is_exact and b.is_exact
    operation = w.one_of([op for op, is_smooth in table if is_smooth or exact_only])
    return [w.compute(a.shape, lambda i: operation(a.tensor[i], b.tensor[i]), a, b)]


_FLOAT_OPERATIONS: tuple[tuple[Operation, bool], ...] = (  # with whether it is continuous
    (lambda x, y: x * 0.5 + y, True),
    (lambda x, y: x - y * y, True),
    (lambda x, y: x / (te.abs(y) + 1.0), True),
    (te.maximum, True),
    (lambda x, y: te.minimum(-x, y), True),
    (lambda x, y: te.exp(-te.abs(x)) + y, True),
    (lambda x, y: te.tanh(x) * y, True),
    (lambda x, y: te.sqrt(te.abs(x) + te.abs(y)), True),
    (lambda x, y: te.fma(x, y, x), True),
    (lambda x, y: te.clip(x, -0.5, 0.75) + te.sigmoid(y), True),
    (lambda x, y: te.rint(x * 2.0) + te.floor(y), False),
    (lambda x, y: te.where((x < y) | te.isnan(x), y, x * 2.0), False),
    (te.copysign, False),
)
_INTEGER_OPERATIONS: tuple[tuple[Operation, bool], ...] = (
    (lambda x, y: x * 3 + y, True),
    (lambda x, y: x - y, True),
    (lambda x, y: x * y, True),
    (lambda x, y: te.maximum(x, y) // 3, True),
    (lambda x, y: (x % 5) ^ y, True),
    (lambda x, y: te.truncdiv(x, 3) + te.truncmod(y, 7), True),
    (lambda x, y: te.minimum(x, y) & 29, True),
    (lambda x, y: te.where((x > y) & (x != 4), x >> 1, y << 2), True),
    (lambda x, y: te.abs(x) + te.popcount(y), True),
)


def convert(w: Writer, a: Stage) -> list[Stage]:
    targets = ["float32", "float64"] if a.is_float else ["float32", "int32", "int64", "int8", "uint16"]
    if a.is_exact:
        targets += ["int32", "int8", "float16", "bfloat16"]
    dtype = w.one_of(targets)
    return [w.compute(a.shape, lambda i: te.cast(a.tensor[i], dtype), a)]


def index_arithmetic(w: Writer, a: Stage) -> list[Stage]:
    """Elements that depend on where they stand."""
    k = w.one_of((2, 3, 7))
    dtype = a.tensor.dtype
    return [w.compute(a.shape, lambda i: a.tensor[i] + te.cast((sum(i[1:], i[0]) // k) % 5, dtype), a)]


def broadcast(w: Writer, a: Stage) -> list[Stage]:
    b = w.input((w.extent(5),), a.tensor.dtype)
    return [w.compute((*a.shape, *b.shape), lambda i: te.maximum(a.tensor[i[:-1]], b.tensor[i[-1]]), a, b)]


def stencil(w: Writer, a: Stage) -> list[Stage]:
    axes = w.one_of([(k,) for k in range(a.rank)] + [(0, a.rank - 1)])
    shifts = [w.one_of((-2, -1, 1, 2)) for _ in axes]

    def body(i: Indices) -> Expr:
        moved = list(i)
        inside: Expr | None = None
        for axis, shift in zip(axes, shifts, strict=True):
            moved[axis] = i[axis] + shift
            here = (moved[axis] >= 0) & (moved[axis] < a.shape[axis])
            inside = here if inside is None else inside & here
        assert inside is not None
        return a.tensor[i] + te.where(inside, a.tensor[tuple(moved)], 1)

    return [w.compute(a.shape, body, a)]


def pooling(w: Writer, a: Stage) -> list[Stage]:
    """Sums or maxima over windows, zeros outside, perhaps with a stride."""
    size, stride = w.one_of((2, 3)), w.one_of((1, 1, 2))
    r = te.reduce_axis(size, name="w")
    first = a.shape[0]
    count = first if stride == 1 else (first + 1) // 2
    reducer = w.one_of((te.sum, te.max))

    def body(i: Indices) -> Expr:
        position = i[0] * stride + r - 1
        inside = (position >= 0) & (position < first)
        return reducer(te.where(inside, a.tensor[(position, *i[1:])], 0), axis=r)

    return [w.compute((count, *a.shape[1:]), body, a, reassociates=reducer is te.sum)]


def contraction(w: Writer, a: Stage) -> list[Stage]:
    b = w.input((a.shape[-1], w.extent(5)), a.tensor.dtype)
    r = te.reduce_axis(a.shape[-1], name="k")
    return [
        w.compute(
            (*a.shape[:-1], b.shape[1]),
            lambda i: te.sum(a.tensor[(*i[:-1], r)] * b.tensor[r, i[-1]], axis=r),
            a,
            b,
            reassociates=True,
        )
    ]


def gram(w: Writer, a: Stage) -> list[Stage]:
    """A product of a matrix with its own transpose, summed over what is left, started from an element."""
    axes = tuple(te.reduce_axis(e, name=f"k{k}") for k, e in enumerate(a.shape[1:]))
    rows = a.shape[0]
    bias = w.input((rows,), a.tensor.dtype)
    return [
        w.compute(
            (rows, rows),
            lambda i: te.sum(a.tensor[(i[0], *axes)] * a.tensor[(i[1], *axes)], axis=axes, init=bias.tensor[i[1]]),
            a,
            bias,
            reassociates=True,
        )
    ]


def reduction(w: Writer, a: Stage) -> list[Stage]:
    axes = w.one_of([[k] for k in range(a.rank)] + [list(range(a.rank))[-2:]])
    return [_reduced(w, a, axes, w.one_of((te.sum, te.sum, te.max, te.min, te.prod)))]


def _reduced(w: Writer, a: Stage, axes: Sequence[int], reducer: Callable[..., Expr]) -> Stage:
    variables = {k: te.reduce_axis(a.shape[k], name=f"r{k}") for k in axes}

    def body(i: Indices) -> Expr:
        rest = iter(i)
        return reducer(
            a.tensor[tuple(variables[k] if k in variables else next(rest) for k in range(a.rank))],
            axis=tuple(variables.values()),
        )

    kept = [e for k, e in enumerate(a.shape) if k not in variables]
    return w.compute(kept, body, a, reassociates=reducer in (te.sum, te.prod))


def extreme_position(w: Writer, a: Stage) -> list[Stage]:
    """argmax or argmin: a reduction of pairs."""
    r = te.reduce_axis(a.shape[-1], name="r")
    reducer = w.one_of((te.argmax, te.argmin))
    pair = w.define_several(a.shape[:-1], lambda i: reducer(a.tensor[(*i, r)], axis=r, dtype="int32"))
    made = [made_from([a], t, reassociates=False) for t in pair]
    return made if w.chance(50) else made[::-1]


def online_softmax(w: Writer, a: Stage) -> list[Stage]:
    """Softmax of rows by one reduction of (maximum, sum of exponentials)."""
    r = te.reduce_axis(a.shape[-1], name="r")

    def combine(p: tuple[Expr, Expr], q: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        top = te.maximum(p[0], q[0])
        return top, p[1] * te.exp(p[0] - top) + q[1] * te.exp(q[0] - top)

    pair = te.reducer(combine, (-1e4, 0.0), name="online_softmax")
    one = te.const(1.0, a.tensor.dtype)
    m, s = w.define_several(a.shape[:-1], lambda i: pair((a.tensor[(*i, r)], one), axis=r))
    made = w.define(a.shape, lambda i: te.exp(a.tensor[i] - m[i[:-1]]) / s[i[:-1]])
    return [made_from([a], made, reassociates=True)]


def recurrence(w: Writer, a: Stage) -> list[Stage]:
    """A state carried along the first axis."""
    keep: te.Keep = w.one_of(("last", "all"))
    reverse = w.chance(40)
    rest = a.shape[1:]
    dtype = a.tensor.dtype

    def step(t: Expr, s: te.Tensor) -> te.Tensor:
        return w.define(rest, lambda i: te.maximum(s[i] + a.tensor[(t, *i)], s[i]))

    def start(*_: Expr) -> Expr:
        return te.const(0, dtype)

    made = te.scan(a.shape[0], (rest, start), step, keep=keep, reverse=reverse, name=w.name())
    return [made_from([a], made, reassociates=True)]


def linear_recurrence(w: Writer, a: Stage) -> list[Stage]:
    """A state multiplied by a matrix in every step: a reduction inside a scan, with a helper beside it."""
    size, dtype = a.shape[1], a.tensor.dtype
    weights = w.placeholder((size, size), dtype)
    r = te.reduce_axis(size, name="k")

    def step(t: Expr, s: te.Tensor) -> te.Tensor:
        product = te.compute((size,), lambda i: te.sum(weights[i, r] * s[r], axis=r), name=w.name())
        return te.compute((size,), lambda i: te.maximum(te.minimum(product[i], 3), -3) + a.tensor[t, i], name=w.name())

    made = te.scan(a.shape[0], ((size,), lambda i: te.const(1, dtype)), step, keep="all", name=w.name())
    return [made_from([a], made, reassociates=True)]


def filtered_recurrence(w: Writer, a: Stage) -> list[Stage]:
    """A state with several definitions in each step: one element by element, one over neighbours, a maximum of all."""
    size, dtype = a.shape[1], a.tensor.dtype
    r = te.reduce_axis(size, name="r")

    def step(t: Expr, s: te.Tensor) -> te.Tensor:
        read = w.define((size,), lambda i: te.maximum(a.tensor[t, i[0]], 1))
        spread = w.define((size,), lambda i: read[i] + te.where(i[0] > 0, read[te.maximum(i[0] - 1, 0)], 0))
        top = w.define((), lambda _: te.max(te.minimum(s[r], 3), axis=r))
        return w.define((size,), lambda i: te.minimum(s[i], top[()]) + spread[i])

    def start(*_: Expr) -> Expr:
        return te.const(1, dtype)

    keep: te.Keep = w.one_of(("last", "all"))
    made = te.scan(a.shape[0], ((size,), start), step, keep=keep, reverse=w.chance(30), name=w.name())
    return [made_from([a], made, reassociates=False)]


def gather(w: Writer, a: Stage) -> list[Stage]:
    """Rows at positions that data says, guarded or checked at run time."""
    index = w.placeholder((w.extent(5),), "int32")
    rows = a.shape[0]

    def body(indices: Indices) -> Expr:
        j, *i = indices
        position = te.cast(index[j], "int64")
        if isinstance(rows, int):
            return a.tensor[(te.clip(position, 0, rows - 1), *i)]
        return te.where((position >= 0) & (position < rows), a.tensor[(te.clip(position, 0, rows - 1), *i)], 2)

    return [w.compute((*index.shape, *a.shape[1:]), body, a)]


def concatenation(w: Writer, a: Stage) -> list[Stage]:
    b = w.input((w.extent(4), *a.shape[1:]), a.tensor.dtype)
    cut = a.shape[0]
    return [
        w.compute(
            (cut + b.shape[0], *a.shape[1:]),
            lambda i: te.where(i[0] < cut, a.tensor[i], b.tensor[(i[0] - cut, *i[1:])]),
            a,
            b,
        )
    ]


def piece(w: Writer, a: Stage) -> list[Stage]:
    """A slice with a step of 2, or everything backwards."""
    first = a.shape[0]
    if isinstance(first, int) and first > 2 and w.chance(60):
        start = w.one_of((0, 1))
        return [w.compute(((first - start + 1) // 2, *a.shape[1:]), lambda i: a.tensor[(2 * i[0] + start, *i[1:])], a)]
    return [w.compute(a.shape, lambda i: a.tensor[(first - 1 - i[0], *i[1:])], a)]


def permutation(w: Writer, a: Stage) -> list[Stage]:
    order = w.shuffled(range(a.rank))

    def body(i: Indices) -> Expr:
        return a.tensor[tuple(i[order.index(k)] for k in range(a.rank))]

    return [w.compute([a.shape[k] for k in order], body, a)]


def flattening(w: Writer, a: Stage) -> list[Stage]:
    columns = a.shape[1]
    rest = a.shape[2:]
    return [w.compute((a.shape[0] * columns, *rest), lambda i: a.tensor[(i[0] // columns, i[0] % columns, *i[1:])], a)]


def overwriting(w: Writer, a: Stage) -> list[Stage]:
    """A copy of which every second row is changed in place."""
    copy = w.define(a.shape, lambda i: a.tensor[i])
    rows = a.shape[0]
    half = (rows + 1) // 2

    def changed(i: Expr, *rest: Expr) -> Expr:
        return te.maximum(copy[(2 * i, *rest)], 1)

    def place(i: Expr, *rest: Expr) -> Sequence[Expr]:
        return (2 * i, *rest)

    made = te.update(copy, changed, shape=(half, *a.shape[1:]), at=place, name=w.name())
    return [made_from([a], made, reassociates=False)]


def truth(w: Writer, a: Stage) -> list[Stage]:
    """Whether any or all elements of a row are positive, as numbers."""
    r = te.reduce_axis(a.shape[-1], name="r")
    reducer = w.one_of((te.any, te.all))
    flags = w.define(a.shape[:-1], lambda i: reducer(a.tensor[(*i, r)] > 0, axis=r))
    return [w.compute(a.shape[:-1], lambda i: te.cast(flags[i], "int32"), a)]


Rule = Callable[[Writer, Stage], list[Stage]]


def _rank(low: int, high: int, stage: Stage) -> bool:
    return low <= stage.rank <= high


def _exact(low: int, stage: Stage) -> bool:
    return stage.rank >= low and stage.is_exact


def _wide_float(stage: Stage) -> bool:
    return stage.rank >= 1 and stage.tensor.dtype.name in ("float32", "float64")


def _divides(stage: Stage) -> bool:
    return 2 <= stage.rank <= 3 and isinstance(stage.shape[1], int) and stage.shape[1] > 0


def _plain_rows(stage: Stage) -> bool:
    return 1 <= stage.rank <= 3 and is_plain(stage.shape[:1])


def _plain_columns(stage: Stage) -> bool:
    return 1 <= stage.rank <= 3 and is_plain(stage.shape[-1:])


def _plain_table(stage: Stage) -> bool:
    return 2 <= stage.rank <= 3 and is_plain(stage.shape[:1])


def _plain_rest(stage: Stage) -> bool:
    return stage.rank >= 1 and is_plain(stage.shape[1:])


def _table(stage: Stage) -> bool:
    return stage.rank == 2


def _matrix(stage: Stage) -> bool:
    return stage.rank == 2 and is_plain(stage.shape) and (stage.is_float or stage.tensor.dtype.is_signed)


RULES: tuple[tuple[Rule, Callable[[Stage], bool]], ...] = (
    (elementwise, functools.partial(_rank, 0, 9)),
    (convert, functools.partial(_rank, 0, 9)),
    (index_arithmetic, functools.partial(_rank, 1, 9)),
    (broadcast, functools.partial(_rank, 0, 2)),
    (stencil, functools.partial(_rank, 1, 9)),
    (pooling, functools.partial(_rank, 1, 9)),
    (contraction, _plain_columns),
    (gram, _plain_table),
    (reduction, functools.partial(_rank, 1, 9)),
    (extreme_position, functools.partial(_exact, 1)),
    (online_softmax, _wide_float),
    (recurrence, functools.partial(_rank, 1, 9)),
    (linear_recurrence, _matrix),
    (filtered_recurrence, _table),
    (gather, functools.partial(_rank, 1, 3)),
    (concatenation, _plain_rest),
    (piece, functools.partial(_rank, 1, 9)),
    (permutation, functools.partial(_rank, 2, 9)),
    (flattening, _divides),
    (overwriting, _plain_rows),
    (truth, functools.partial(_exact, 1)),
)
"""Every rule, with the stages it takes."""
