"""What rules want to know of a block: what it computes, what it reads, and how its axes walk through memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Load, Select, Var
from lpx.ir import traverse
from lpx.ir.nodes import Block, Check, Function, Let, Seq, Stmt, Store

UNKNOWN_EXTENT = 1024
"""What a symbolic extent is taken for when work is estimated."""

_HEAVY = frozenset({"floordiv", "floormod", "truncdiv", "truncmod", "div"})


@dataclass(frozen=True)
class BlockFacts:
    """A block of a function as rules see it. Not slotted: facts are computed when asked for."""

    function: Function
    block: Block

    @cached_property
    def stores(self) -> tuple[Store, ...]:
        """The stores of the body."""
        return tuple(s for s in traverse.walk(self.block.body) if isinstance(s, Store))

    @cached_property
    def checks(self) -> bool:
        """Whether the body checks something at run time."""
        return any(isinstance(s, Check) for s in traverse.walk(self.block.body))

    @cached_property
    def is_plain(self) -> bool:
        """Whether the body is one store, perhaps after checks."""
        body: Sequence[Stmt] = self.block.body.stmts if isinstance(self.block.body, Seq) else (self.block.body,)
        return len(self.stores) == 1 and all(isinstance(s, Store | Check) for s in body)

    @cached_property
    def is_accumulation(self) -> bool:
        """Whether the body is one store, perhaps after checks, or the update of a tuple of values as te makes it."""
        body = self.block.body
        while isinstance(body, Let):
            body = body.body
        stmts: Sequence[Stmt] = body.stmts if isinstance(body, Seq) else (body,)
        return self.is_plain or (isinstance(self.block.body, Let) and all(isinstance(s, Store) for s in stmts))

    @cached_property
    def values(self) -> tuple[Expr, ...]:
        """What the body computes: bound values and stored ones."""
        return tuple(s.value for s in traverse.walk(self.block.body) if isinstance(s, Let | Store))

    @cached_property
    def bits(self) -> int:
        """The width of the widest element that the body stores; at least 8."""
        return max(8, *(s.buffer.dtype.bits for s in self.stores))

    @property
    def target(self) -> Buffer:
        """The buffer of the first store."""
        return self.stores[0].buffer

    def axes(self, kind: str) -> tuple[Axis, ...]:
        """The axes of one kind, in order."""
        return tuple(a for a in self.block.axes if a.kind == kind)

    @property
    def is_reduction(self) -> bool:
        return bool(self.axes("reduce"))

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """Distinct reads of other buffers than the block's own."""
        written = traverse.written_buffers(self.block)
        found = (e for value in self.values for e in expr_traverse.walk(value) if isinstance(e, Load))
        return tuple(dict.fromkeys(e for e in found if e.buffer not in written))

    @property
    def is_view(self) -> bool:
        """Whether the block copies elements that lie evenly along each of its axes: a reshape, a transpose."""
        value = self.stores[0].value
        if not isinstance(value, Load):
            return isinstance(value, Const | Var)
        return all(self.stride(value.indices, value.buffer, a.var) is not None for a in self.axes("spatial"))

    @property
    def keeps_order(self) -> bool:
        """Whether a view has neighbours along its last axis where its source has them."""
        value = self.stores[0].value
        spatial = self.axes("spatial")
        if not isinstance(value, Load) or not spatial:
            return True
        return self.stride(value.indices, value.buffer, spatial[-1].var) in (0, 1)

    @cached_property
    def cost(self) -> int:
        """A rough count of operations for one run: 1 for plain arithmetic, 4 for divisions, 12 for mathematics and
        functions of other compilers.
        """
        total = 0
        for expr in (e for value in self.values for e in expr_traverse.walk(value)):
            if isinstance(expr, Call):
                total += 12 if expr.op.kind in ("math", "foreign") else 1
            elif isinstance(expr, Binary):
                total += 4 if expr.op in _HEAVY and not expr.dtype.is_integer else 1
            elif isinstance(expr, Select | Cast):
                total += 1
        return total

    @property
    def runs(self) -> int:
        """How often the block runs, symbolic extents taken for `UNKNOWN_EXTENT`."""
        return prod(extent_of(a.extent) for a in self.block.axes)

    def writes_in_order(self) -> bool:
        """Whether the block stores at its own axes, in order: the last one, a spatial one, is contiguous.

        Axes along which it is a step of a scan may be missing, or run backwards.
        """
        (store, *_) = self.stores
        named = [i for i in store.indices if not isinstance(i, Const)]
        used = [(i, expr_traverse.free_vars(i)) for i in named]
        steps = [a for a in self.axes("sequential") if any(v == frozenset({a.var}) for _, v in used)]
        spatial = self.axes("spatial")
        if len(named) != len(steps) + len(spatial):
            return False
        in_time = all(v == frozenset({a.var}) for (_, v), a in zip(used, steps, strict=False))
        return in_time and all(i is a.var for i, a in zip(named[len(steps) :], spatial, strict=True))

    def stride(self, indices: Sequence[Expr], buffer: Buffer, var: Var) -> int | None:
        """By how many elements an access moves when `var` grows by 1; None when that varies or is not known."""
        total = 0
        step = 1
        for index, extent in reversed(list(zip(indices, buffer.shape, strict=True))):
            if var in expr_traverse.free_vars(index):
                form = self._analyzer.affine(index)
                coefficient = None if form is None else form.coefficient(var)
                if coefficient is None or step == 0:
                    return self._flat_stride(indices, buffer, var)
                total += coefficient * step
            step = step * extent_of(extent) if isinstance(extent, Const) else step * UNKNOWN_EXTENT
        return total

    def _flat_stride(self, indices: Sequence[Expr], buffer: Buffer, var: Var) -> int | None:
        """`stride` where `var` is divided among several indices, as in A[v // 8, v % 8]."""
        place: Expr = build.const(0)
        for index, extent in zip(indices, buffer.shape, strict=True):
            place = place * extent + index
        form = self._analyzer.affine(self._analyzer.simplify(place))
        return None if form is None else form.coefficient(var)

    @cached_property
    def _analyzer(self) -> Analyzer:
        analyzer = Analyzer()
        for axis in self.block.axes:
            analyzer = analyzer.with_axis(axis)
        return analyzer


def extent_of(extent: Expr) -> int:
    """A constant extent, or `UNKNOWN_EXTENT`."""
    return int(extent.value) if isinstance(extent, Const) else UNKNOWN_EXTENT


def facts_of(function: Function) -> dict[str, BlockFacts]:
    """Facts of every block, in program order."""
    return {s.name: BlockFacts(function, s) for s in traverse.walk(function.body) if isinstance(s, Block)}


def follower(function: Function, name: str) -> str:
    """The one element-wise block that reads what a block makes, position by position; "" where that is not all."""
    facts = facts_of(function)
    made = facts[name]
    readers = [f for f in facts.values() if f is not made and made.target in traverse.read_buffers(f.block)]
    if len(readers) != 1 or any(p.buffer is made.target for p in function.params):
        return ""
    (reader,) = readers
    own, theirs = reader.axes("spatial"), made.axes("spatial")
    if reader.is_reduction or not reader.is_plain or not reader.writes_in_order() or len(own) != len(theirs):
        return ""
    reads = [e for e in reader.loads if e.buffer is made.target]
    aligned = all(i is a.var for e in reads for i, a in zip(e.indices, own, strict=True))
    same = all(extent_of(a.extent) == extent_of(b.extent) for a, b in zip(own, theirs, strict=True))
    return reader.block.name if aligned and same else ""


def sole_maker(function: Function, name: str, buffer: Buffer) -> BlockFacts | None:
    """The one element-wise block that makes `buffer`, if block `name` alone reads it and it is no result."""
    facts = facts_of(function)
    makers = [f for f in facts.values() if f.stores and f.target is buffer]
    readers = [n for n, f in facts.items() if n != name and buffer in traverse.read_buffers(f.block)]
    if len(makers) != 1 or readers or any(p.buffer is buffer for p in function.params):
        return None
    (maker,) = makers
    return maker if maker.is_plain and not maker.is_reduction and maker.writes_in_order() else None
