"""Hypothesis strategies: well-typed functions in which every node of the IR occurs. They are printed, never run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, get_args

import numpy as np
from hypothesis import strategies as st

from lpx import dtypes
from lpx.dtypes import DType
from lpx.expr import build, nodes, ops
from lpx.expr.buffer import Buffer, Layout, Scope
from lpx.expr.nodes import Axis, AxisKind, Expr, Var
from lpx.expr.traverse import free_vars
from lpx.ir import nodes as ir
from lpx.ir.hardware import HARDWARE, PREFETCH
from lpx.ir.nodes import Attr, Function, Param, Stmt

T = TypeVar("T")
NAMES = ["i", "j", "A", "x", "x_1", "acc.local", "out", "mask", "init", "for", "exp", "2d", "a b", "true", "größe"]
_FLOATS = [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.float8_e4m3fn]
_INTEGERS = [dtypes.index, dtypes.int32, dtypes.int8, dtypes.uint64, dtypes.uint4]
_ARITHMETIC: list[nodes.BinaryOp] = ["add", "sub", "mul", "min", "max"]
_FLOAT_OPS: list[nodes.BinaryOp] = [*_ARITHMETIC, "div"]
_COMPARES: list[nodes.CompareOp] = ["eq", "ne", "lt", "le"]
_INTEGER_OPS: list[nodes.BinaryOp] = [
    *_ARITHMETIC, "floordiv", "floormod", "truncdiv", "truncmod", "bitand", "bitor", "bitxor", "shl", "shr",
]  # fmt: skip


PRAGMAS: dict[str, Attr] = {"a": 1, "b.c": -2.5, "d": True, "e": 'x"\n'}
FIRST_KINDS: list[AxisKind] = ["spatial", "sequential"]
ATTRS: dict[str, Attr] = {"contract": False, "stage": "lowered"}


class Maker:
    """Draws expressions and statements over the variables and buffers declared so far."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self.variables: list[Var] = []
        self.buffers: list[Buffer] = []
        self._blocks = 0
        self._made: list[Expr] = []

    def pick(self, options: Sequence[T]) -> T:
        chosen: T = self._draw(st.sampled_from(options))
        return chosen

    def number(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def flag(self) -> bool:
        return bool(self._draw(st.booleans()))

    def name(self) -> str:
        return str(self.pick(NAMES))

    def constant(self, dtype: DType) -> Expr:
        if dtype.is_float:
            value: float = self._draw(st.floats())
            return build.const(value, dtype)
        return build.const(self.number(dtype.min_value, dtype.max_value), dtype)

    def expr(self, dtype: DType, lanes: int = 1, depth: int = 3) -> Expr:
        shared = [e for e in self._made if e.dtype == dtype and e.lanes == lanes]
        if shared and self.number(0, 3) == 0:
            return self.pick(shared)
        made = self._expr(dtype, lanes, depth)
        self._made.append(made)
        return made

    def _expr(self, dtype: DType, lanes: int, depth: int) -> Expr:
        if lanes > 1 and self.flag():
            return self._vector(dtype, lanes, depth - 1)
        if depth <= 0:
            return self._leaf(dtype, lanes)
        match self.number(0, 8):
            case 0:
                return build.select(*(self.expr(t, lanes, depth - 1) for t in (dtypes.bool_, dtype, dtype)))
            case 1:
                source = self.pick([*_FLOATS, *_INTEGERS, dtypes.bool_])
                return nodes.Cast(dtype, lanes, self.expr(source, lanes, depth - 1))
            case 2:
                return self._load(dtype, lanes, depth - 1)
            case 3 if dtype.bits == 32:
                source = dtypes.int32 if dtype.is_float else dtypes.float32
                return nodes.Bitcast(dtype, lanes, self.expr(source, lanes, depth - 1))
            case 4:
                return self._call(dtype, lanes, depth - 1)
            case 5:
                return build.unary("neg" if dtype.is_float else "not", self.expr(dtype, lanes, depth - 1))
            case 8 if dtype in (dtypes.float32, dtypes.float64):
                table: list[float] = self._draw(st.lists(st.floats(), min_size=4, max_size=4))
                return build.lookup(table, self.expr(self.pick(_INTEGERS), lanes, depth - 1), dtype)
            case 6 if lanes == 1:
                return build.horizontal_reduce("max", self.expr(dtype, 4, depth - 1))
            case _:
                return self._binary(dtype, lanes, depth - 1)

    def _leaf(self, dtype: DType, lanes: int) -> Expr:
        known = [v for v in self.variables if v.dtype == dtype and v.lanes == lanes]
        if known and self.flag():
            return self.pick(known)
        return build.broadcast(self.constant(dtype), lanes)

    def _vector(self, dtype: DType, lanes: int, depth: int) -> Expr:
        if dtype.is_integer and self.flag():
            return build.ramp(self.expr(dtype, 1, depth), self.expr(dtype, 1, depth), lanes)
        if depth > 0 and self.flag():
            vectors = [self.expr(dtype, n, depth - 1) for n in (lanes, 2)]
            return build.shuffle(vectors, [self.number(0, lanes + 1) for _ in range(lanes)])
        return build.broadcast(self.expr(dtype, 1, depth), lanes)

    def _binary(self, dtype: DType, lanes: int, depth: int) -> Expr:
        if dtype.is_bool:
            source = self.pick([dtypes.float32, dtypes.index, dtypes.bool_])
            a, b = self.expr(source, lanes, depth), self.expr(source, lanes, depth)
            return build.compare(self.pick(_COMPARES), a, b)
        op = self.pick(_FLOAT_OPS if dtype.is_float else _INTEGER_OPS)
        return build.binary(op, self.expr(dtype, lanes, depth), self.expr(dtype, lanes, depth))

    def _call(self, dtype: DType, lanes: int, depth: int) -> Expr:
        if dtype.is_bool and self.flag():
            return build.unlikely(self.expr(dtypes.bool_, lanes, depth))
        if dtype.is_bool:
            return build.call("isnan", self.expr(dtypes.float32, lanes, depth))
        if dtype == dtypes.int32 and lanes == 4:
            args = [self.expr(t, n, depth) for t, n in ((dtype, 4), (dtypes.uint8, 16), (dtypes.int8, 16))]
            return build.hardware_call(HARDWARE["x86.vpdpbusd"], args)
        if self.number(0, 3) == 0:
            op = ops.Op(self.pick(["f", 'a "b"']), 1, "extern", "float", dtype.name)
            return build.hardware_call(op, [self.expr(dtypes.float32, 1, depth)], lanes)
        domain = ("float", "number") if dtype.is_float else ("integer", "number")
        op = self.pick([op for op in ops.ALL.values() if op.domain in domain and op.result == "same"])
        return build.call(op, *(self.expr(dtype, lanes, depth) for _ in range(op.arity)))

    def _load(self, dtype: DType, lanes: int, depth: int) -> Expr:
        known = [b for b in self.buffers if b.dtype == dtype and (lanes == 1 or b.rank)]
        if not known:
            return self._leaf(dtype, lanes)
        buffer = self.pick(known)
        mask = self.expr(dtypes.bool_, lanes, depth) if self.flag() else None
        return build.load(buffer, self.indices(buffer, lanes, depth), mask)

    def indices(self, buffer: Buffer, lanes: int = 1, depth: int = 1) -> tuple[Expr, ...]:
        last = buffer.rank - 1
        return tuple(self.expr(dtypes.index, lanes if d == last else 1, depth) for d in range(buffer.rank))

    def buffer(self, *, plain: bool = False) -> Buffer:
        rank = self.number(0, 2)
        shape = tuple(self.expr(dtypes.index, 1, 1) for _ in range(rank))
        strides = tuple(self.expr(dtypes.index, 1, 1) for _ in range(rank)) if self.flag() else None
        scopes: list[Scope] = ["global"] if plain else ["global", "local", "shared"]
        layout = self._layout(rank) if rank and self.flag() else None
        return Buffer(
            self.name(),
            self.pick([*_FLOATS, *_INTEGERS]),
            shape,
            strides,
            self.pick([1, 64, 128]),
            self.pick(scopes),
            layout,
        )

    def _layout(self, rank: int) -> Layout:
        variables = tuple(build.var(self.name()) for _ in range(rank))
        targets = (variables[0] // 8, *variables[1:], variables[0] % 8)
        physical = tuple(build.const(8) for _ in targets)
        return Layout(variables, targets, physical, self.pick(["memory", "lane_register"]))

    def stmt(self, depth: int) -> Stmt:
        if depth <= 0 or not self.buffers:
            return self.pick([self._store, self._small])()
        return self.pick(
            [
                self._seq,
                self._for,
                self._if,
                self._while,
                self._let,
                self._alloc,
                self._block,
                self._store,
                self._region,
            ]
        )(depth - 1)

    def _seq(self, depth: int) -> Stmt:
        return ir.Seq(tuple(self.stmt(depth) for _ in range(self.number(0, 3))))

    def _inside(self, depth: int, *variables: Var) -> Stmt:
        self.variables.extend(variables)
        body = self.stmt(depth)
        del self.variables[len(self.variables) - len(variables) :]
        self._forget(variables)
        return body

    def _forget(self, gone: Sequence[Var]) -> None:
        self._made = [e for e in self._made if free_vars(e).isdisjoint(gone)]

    def _for(self, depth: int) -> Stmt:
        dtype = self.pick([dtypes.index, dtypes.int32])
        var = build.var(self.name(), dtype)
        start = build.const(0, dtype) if self.flag() else self.expr(dtype, 1, 1)
        kind = self.pick(get_args(ir.ForKind))
        constant = kind in ("vectorized", "unrolled")
        extent = build.const(8, dtype) if constant else self.expr(dtype, 1, 1)
        thread = self.pick(get_args(ir.ThreadAxis)) if kind == "bound" else None
        pragmas = PRAGMAS if self.flag() else ir.no_attrs()
        body = self._inside(depth, var)
        length = len(body.stmts) if isinstance(body, ir.Seq) else 1
        stages = tuple((self.number(0, 3), k) for k in range(length)) if self.flag() else None
        return ir.For(var, start, extent, body, kind, thread, stages, pragmas)

    def _if(self, depth: int) -> Stmt:
        orelse = self.stmt(depth) if self.flag() else None
        return ir.If(self.expr(dtypes.bool_), self.stmt(depth), orelse)

    def _while(self, depth: int) -> Stmt:
        return ir.While(self.expr(dtypes.bool_), self.stmt(depth))

    def _region(self, depth: int) -> Stmt:
        return ir.ParallelRegion(self.stmt(depth))

    def _let(self, depth: int) -> Stmt:
        dtype, lanes = self.pick([dtypes.float32, dtypes.index, dtypes.bool_]), self.pick([1, 4])
        value = self.expr(dtype, lanes)
        var = Var(dtype, lanes, self.name())
        return ir.Let(var, value, self._inside(depth, var))

    def _alloc(self, depth: int) -> Stmt:
        buffer = self.buffer()
        self.buffers.append(buffer)
        body = self.stmt(depth)
        self.buffers.remove(buffer)
        self._made = []
        return ir.Alloc(buffer, body)

    def _block(self, depth: int) -> Stmt:
        self._blocks += 1
        bindings = tuple(self.expr(dtypes.index, 1, 1) for _ in range(2))
        extents = tuple(self.expr(dtypes.index, 1, 1) for _ in range(2))
        predicate = self.expr(dtypes.bool_) if self.flag() else None
        kinds: tuple[AxisKind, ...] = (self.pick(FIRST_KINDS), "reduce")
        axes = tuple(Axis(build.var(self.name()), e, k) for e, k in zip(extents, kinds, strict=True))
        init = self._inside(depth, axes[0].var) if self.flag() else None
        body = self._inside(depth, *(a.var for a in axes))
        attrs = {"tensorize": "vnni"} if self.flag() else ir.no_attrs()
        name = f"{self.pick(['C', 'C.update', 'the block'])}{self._blocks}"
        return ir.Block(name, axes, bindings, predicate, init, body, attrs)

    def _store(self, depth: int = 2) -> Stmt:
        buffer = self.pick(self.buffers)
        lanes = self.pick([1, 4]) if buffer.rank else 1
        mask = self.expr(dtypes.bool_, lanes) if self.flag() else None
        return ir.Store(buffer, self.indices(buffer, lanes), self.expr(buffer.dtype, lanes, max(depth, 1)), mask)

    def _small(self) -> Stmt:
        buffer = self.pick(self.buffers)
        options: list[Stmt] = [
            ir.Seq(()),
            ir.AtomicUpdate("add", buffer, self.indices(buffer), self.expr(buffer.dtype)),
            *(ir.Barrier(scope) for scope in get_args(ir.BarrierScope)),
            ir.AsyncCopy(buffer, self.indices(buffer), buffer, self.indices(buffer), self.number(1, 9)),
            ir.AsyncCommit(),
            ir.AsyncWait(self.number(0, 3)),
            ir.Evaluate(build.hardware_call(PREFETCH, [build.address_of(buffer, self.indices(buffer))])),
            ir.CallFunction(self.name(), (buffer, buffer), (self.expr(dtypes.index),)),
            ir.Check(self.expr(dtypes.bool_, self.pick([1, 4])), 'no "way"'),
        ]
        return self.pick(options)


@st.composite
def functions(draw: Any) -> Function:
    """A function of any shape, well-typed, every name declared before use."""
    maker = Maker(draw)
    symbols = tuple(build.var(maker.name(), dtype) for dtype in (dtypes.index, dtypes.index, dtypes.int32))
    maker.variables.extend(symbols)
    params = tuple(
        Param(maker.buffer(plain=True), maker.pick(["in", "out", "inout"])) for _ in range(maker.number(1, 3))
    )
    weight = Buffer(maker.name(), dtypes.float32, (build.const(2), build.const(3)))
    maker.buffers.extend([*(p.buffer for p in params), weight])
    constants = {weight: np.arange(6, dtype=np.float32).reshape(2, 3)}
    attrs = ATTRS if maker.flag() else ir.no_attrs()
    body = maker.stmt(3)
    return Function(maker.name(), params, symbols, body, attrs, constants)
