"""Expressions as Python closures.

A compiled node is a function of the environment and a lane; it computes that lane alone, and only when it is asked for.
So every vector operation is a scalar one per lane, and what `Select` or a mask turns off is never computed. A node used
more than once keeps its lanes for the rest of the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lpx.errors import UnsupportedError
from lpx.expr import nodes, traverse
from lpx.expr.buffer import Buffer
from lpx.expr.foreign import foreign_function
from lpx.expr.nodes import Expr, Var
from lpx.ir import scalars
from lpx.ir.hardware import meaning_of
from lpx.ir.interpreter.math import expand_math
from lpx.ir.interpreter.storage import Address, Storage
from lpx.ir.scalars import Value

Env = list[Any]
"""What a thread knows: slot 0 is the thread itself, the others hold values of variables, memory of buffers and lanes of
shared nodes."""
Lane = Callable[[Env, int], Value]
Action = Callable[[Env], None]


class Slots:
    """Places in the environment."""

    def __init__(self) -> None:
        self._slots: dict[Var | Buffer, int] = {}
        self.size = 1

    def new(self) -> int:
        """A place of its own."""
        self.size += 1
        return self.size - 1

    def of(self, item: Var | Buffer) -> int:
        """The place of a variable or buffer."""
        slot = self._slots.get(item)
        if slot is None:
            slot = self._slots[item] = self.new()
        return slot

    def variables(self) -> dict[Var, int]:
        """The places of variables met so far."""
        return {item: slot for item, slot in self._slots.items() if isinstance(item, Var)}


class Compiled:
    """The expressions of one statement, compiled together; `reset` must run before each use of them."""

    def __init__(self, slots: Slots, roots: Sequence[Expr]) -> None:
        self._slots = slots
        self._lanes: dict[Expr, Lane] = {}
        memo: dict[Expr, Expr] = {}
        expanded = [traverse.transform(root, expand_math, memo) for root in roots]
        self._kept: list[int] = []
        uses = _uses(expanded)
        for expr in uses:
            lane = _COMPILERS[type(expr)](self, expr)
            kept = uses[expr] > 1 and not isinstance(expr, Var | nodes.Const)
            self._lanes[expr] = self._keep(lane, expr.lanes) if kept else lane
        self.roots: list[Lane] = [self._lanes[e] for e in expanded]
        self.widths = [e.lanes for e in expanded]
        self.reset = self._resetter()

    def _resetter(self) -> Action:
        kept = tuple(self._kept)

        def reset(env: Env) -> None:
            for slot in kept:
                env[slot] = {}

        return reset

    def _keep(self, lane: Lane, lanes: int) -> Lane:
        slot = self._slots.new()
        self._kept.append(slot)

        def kept(env: Env, i: int) -> Value:
            known = env[slot]
            key = i if lanes > 1 else 0  # a scalar may be asked for by any lane of a vector
            if key not in known:
                known[key] = lane(env, i)
            return known[key]

        return kept

    def _all(self, expr: Expr) -> Callable[[Env], list[Value]]:
        lane, lanes = self._lanes[expr], range(expr.lanes)
        return lambda env: [lane(env, i) for i in lanes]

    def var(self, expr: Var) -> Lane:
        slot = self._slots.of(expr)
        if expr.lanes == 1:
            return lambda env, i: env[slot]
        return lambda env, i: env[slot][i]

    def const(self, expr: nodes.Const) -> Lane:
        value = expr.value
        return lambda env, i: value

    def unary(self, expr: nodes.Unary) -> Lane:
        return self._apply1(scalars.unary(expr.op, expr.dtype), expr.a)

    def binary(self, expr: nodes.Binary) -> Lane:
        return self._apply2(scalars.binary(expr.op, expr.dtype), expr.a, expr.b)

    def compare(self, expr: nodes.Compare) -> Lane:
        return self._apply2(scalars.compare(expr.op), expr.a, expr.b)

    def _apply1(self, function: scalars.Function1, a: Expr) -> Lane:
        x = self._lanes[a]
        return lambda env, i: function(x(env, i))

    def _apply2(self, function: scalars.Function2, a: Expr, b: Expr) -> Lane:
        x, y = self._lanes[a], self._lanes[b]
        return lambda env, i: function(x(env, i), y(env, i))

    def select(self, expr: nodes.Select) -> Lane:
        cond, a, b = (self._lanes[e] for e in (expr.cond, expr.a, expr.b))
        return lambda env, i: a(env, i) if cond(env, i) else b(env, i)

    def cast(self, expr: nodes.Cast) -> Lane:
        return self._apply1(scalars.cast(expr.value.dtype, expr.dtype), expr.value)

    def bitcast(self, expr: nodes.Bitcast) -> Lane:
        return self._apply1(scalars.bitcast(expr.value.dtype, expr.dtype), expr.value)

    def ramp(self, expr: nodes.Ramp) -> Lane:
        base, stride = self._lanes[expr.base], self._lanes[expr.stride]
        add, multiply = scalars.binary("add", expr.dtype), scalars.binary("mul", expr.dtype)
        return lambda env, i: add(base(env, 0), multiply(i, stride(env, 0)))

    def broadcast(self, expr: nodes.Broadcast) -> Lane:
        value = self._lanes[expr.value]
        return lambda env, i: value(env, 0)

    def shuffle(self, expr: nodes.Shuffle) -> Lane:
        places = [(self._lanes[v], lane) for v in expr.vectors for lane in range(v.lanes)]
        picked = [places[i] for i in expr.indices]
        if len(picked) == 1:  # a scalar may be asked for by any lane
            vector, lane = picked[0]
            return lambda env, i: vector(env, lane)
        return lambda env, i: picked[i][0](env, picked[i][1])

    def lookup(self, expr: nodes.Lookup) -> Lane:
        index, mask = self._lanes[expr.index], len(expr.table) - 1
        table: tuple[Value, ...] = expr.table
        return lambda env, i: table[int(index(env, i)) & mask]

    def reduce(self, expr: nodes.HorizontalReduce) -> Lane:
        function, lanes = scalars.binary(expr.op, expr.dtype), self._all(expr.value)
        return lambda env, i: _halve(lanes(env), function)

    def load(self, expr: nodes.Load) -> Lane:
        slot = self._slots.of(expr.buffer)
        indices = tuple(self._lanes[i] for i in expr.indices)

        def load(env: Env, i: int) -> Value:
            storage: Storage = env[slot]
            return storage.read([index(env, i) for index in indices])

        if expr.mask is None:
            return load
        mask, zero = self._lanes[expr.mask], scalars.zero(expr.dtype)
        return lambda env, i: load(env, i) if mask(env, i) else zero

    def address(self, expr: nodes.AddressOf) -> Lane:
        slot = self._slots.of(expr.buffer)
        indices = tuple(self._lanes[i] for i in expr.indices)
        return lambda env, i: Address(env[slot], tuple(index(env, i) for index in indices))

    def call(self, expr: nodes.Call) -> Lane:
        if expr.op.kind in ("primitive", "foreign"):
            is_own = expr.op.kind == "primitive"
            function: Callable[..., Value] = (
                scalars.primitive(expr.op.name, expr.args[0].dtype) if is_own else foreign_function(expr.op).meaning
            )
            args = tuple(self._lanes[a] for a in expr.args)
            return lambda env, i: function(*[arg(env, i) for arg in args])
        meaning = meaning_of(expr.op)
        if meaning.per_warp:
            raise UnsupportedError(
                f"{expr.op.name} is run by a whole warp and cannot be an operand",
                hint="make it the whole value of a store, a let or an evaluate",
            )
        operands = tuple(self._all(a) for a in expr.args)
        slot = self._slots.new()  # an operation computes all its lanes at once
        self._kept.append(slot)

        def lane(env: Env, i: int) -> Value:
            known = env[slot]
            if not known:
                known.update(enumerate(meaning.apply([operand(env) for operand in operands])))
            return known[i if expr.lanes > 1 else 0]

        return lane


def _halve(values: list[Value], function: scalars.Function2) -> Value:
    while len(values) > 1:
        half = len(values) // 2
        rest = values[2 * half :]
        values = [function(values[i], values[half + i]) for i in range(half)] + rest
    return values[0]


_COMPILERS: dict[type[Expr], Callable[[Compiled, Any], Lane]] = {
    nodes.Var: Compiled.var,
    nodes.Const: Compiled.const,
    nodes.Unary: Compiled.unary,
    nodes.Binary: Compiled.binary,
    nodes.Compare: Compiled.compare,
    nodes.Select: Compiled.select,
    nodes.Cast: Compiled.cast,
    nodes.Bitcast: Compiled.bitcast,
    nodes.Load: Compiled.load,
    nodes.AddressOf: Compiled.address,
    nodes.Ramp: Compiled.ramp,
    nodes.Broadcast: Compiled.broadcast,
    nodes.Shuffle: Compiled.shuffle,
    nodes.Lookup: Compiled.lookup,
    nodes.HorizontalReduce: Compiled.reduce,
    nodes.Call: Compiled.call,
}


def _uses(roots: Sequence[Expr]) -> dict[Expr, int]:
    """How often each node is asked for, operands before users; a scalar in a vector is asked for by every lane."""
    uses: dict[Expr, int] = {}
    for root in roots:
        for expr in traverse.walk(root):
            if expr not in uses:
                uses[expr] = 0
                for child in traverse.children(expr):
                    uses[child] += expr.lanes if expr.lanes > child.lanes or isinstance(expr, nodes.Shuffle) else 1
        uses[root] += 1
    return uses
