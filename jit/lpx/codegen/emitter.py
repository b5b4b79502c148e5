"""`Emitter`: expressions to LLVM values.

Contract with the passes, at the stage `flat`: every node of a statement's expressions is evaluated, in every lane. A
load touches memory only where its mask is on, so a `Select` may have masked loads on both sides. An integer division
fails the kernel when its divisor is 0 in any lane, so one that a `Select` keeps away has a guarded divisor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lpx.codegen import arithmetic, casts, lookups, memory, types, vectors
from lpx.codegen.builder import Builder
from lpx.codegen.foreign import Foreign
from lpx.codegen.hardware import emit_hardware
from lpx.codegen.integers import constant_of
from lpx.codegen.memory import Address, divisor_of
from lpx.codegen.narrow_floats import FORMATS
from lpx.codegen.primitives import emit_primitive
from lpx.codegen.storage import Memory, Slots, Storage, constant_place
from lpx.codegen.types import Value, number, value_type
from lpx.errors import InternalError
from lpx.expr import nodes, traverse
from lpx.expr.buffer import Buffer
from lpx.expr.foreign import foreign_function
from lpx.expr.nodes import Expr, Var

DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")


class Emitter:
    """Emits the expressions of one LLVM function.

    `fail_when(condition)` stops the kernel with the status of a division by zero. `storage` and the variables grow as
    statements bring new ones into scope. A node met twice within a statement is emitted once; `finish` ends the
    statement.
    """

    def __init__(self, builder: Builder, fail_when: Callable[[Value], None]) -> None:
        self.b = builder
        self.storage: dict[Buffer, Storage] = {}
        self.variables: dict[Var, Value] = {}
        self._fail_when = fail_when
        self._values: dict[Expr, Value] = {}

    # --- statements' side -----------------------------------------------------------------------------------------

    def value(self, root: Expr) -> Value:
        """The value of an expression; operands first, without recursion, since programs may be deep."""
        values = self._values
        if root in values:
            return values[root]
        stack = [root]
        while stack:
            node = stack[-1]
            if node in values:
                stack.pop()
                continue
            pending = [c for c in _operands(node) if c not in values]
            if pending:
                stack.extend(reversed(pending))
                continue
            stack.pop()
            values[node] = _EMITTERS[type(node)](self, node)
        return values[root]

    def finish(self) -> None:
        """Forget the values of the statement: memory may change, and later code may not be reached from here."""
        self._values.clear()

    def store(self, buffer: Buffer, index: Expr, value: Value, mask: Value | None, metadata: str = "") -> None:
        """Write `value`; an index and a value of unequal lanes agree by repeating the scalar one."""
        match self._find(buffer):
            case Slots() as slots:
                memory.store_slot(self.b, buffer.dtype, self._slot(slots, buffer, index), value, mask)
            case Memory() as place:
                memory.store(self.b, buffer.dtype, place, self._address(index), value, mask, metadata)

    def pointer(self, buffer: Buffer, index: Expr) -> Value:
        """The address of an element."""
        place = self._find(buffer)
        if isinstance(place, Slots):
            raise InternalError(f"the register buffer {buffer.name} has no address")
        return memory.element_pointer(self.b, buffer.dtype, place, self.value(index))

    def memory_of(self, buffer: Buffer) -> Memory:
        """Where a buffer lies that must be in memory."""
        place = self._find(buffer)
        if isinstance(place, Slots):
            raise InternalError(f"the register buffer {buffer.name} is not in memory")
        return place

    # --- nodes ----------------------------------------------------------------------------------------------------

    def of(self, expr: Expr) -> Value:
        """The value of an operand, which has been emitted."""
        return self._values[expr]

    def var(self, expr: Var) -> Value:
        found = self.variables.get(expr)
        if found is None:
            raise InternalError(f"variable {expr.name} is not bound here")
        return found

    def const(self, expr: nodes.Const) -> Value:
        form = FORMATS.get(expr.dtype.name)
        return number(value_type(expr.dtype), expr.value if form is None else form.code(expr.value))

    def unary(self, expr: nodes.Unary) -> Value:
        return arithmetic.unary(self.b, expr.op, expr.dtype, self.of(expr.a))

    def binary(self, expr: nodes.Binary) -> Value:
        x, y = self.of(expr.a), self.of(expr.b)
        if expr.op in DIVISIONS:
            self._check_divisor(y)
        return arithmetic.binary(self.b, expr.op, expr.dtype, x, y)

    def _check_divisor(self, divisor: Value) -> None:
        constant = constant_of(divisor)
        if constant is None or constant == 0:
            zero = self.b.compare("icmp eq", divisor, types.zero(divisor.type))
            self._fail_when(vectors.any_lane(self.b, zero))

    def compare(self, expr: nodes.Compare) -> Value:
        return arithmetic.compare(self.b, expr.op, expr.a.dtype, self.of(expr.a), self.of(expr.b))

    def select(self, expr: nodes.Select) -> Value:
        condition = self.of(_choice(expr))
        if _is_unlikely(expr):
            return self._select_unlikely(condition, expr.a, self.of(expr.b))
        return self.b.select(condition, self.of(expr.a), self.of(expr.b))

    def _select_unlikely(self, condition: Value, rare: Expr, usual: Value) -> Value:
        """`usual`, with lanes of `rare` put in behind a branch that is taken where any lane asks for them.

        What is emitted in the branch is forgotten after it, since it was not computed on the way past.
        """
        before, outside = self.b.block, self._values
        self._values = dict(outside)
        with self.b.when(vectors.any_lane(self.b, condition), likely=False):
            blended = self.b.select(condition, self.value(rare), usual)
            inside = self.b.block
        self._values = outside
        return self.b.phi(usual.type, (usual, before), (blended, inside))

    def cast(self, expr: nodes.Cast) -> Value:
        return casts.convert(self.b, self.of(expr.value), expr.value.dtype, expr.dtype)

    def bitcast(self, expr: nodes.Bitcast) -> Value:
        return self.b.reinterpret(self.of(expr.value), value_type(expr.dtype, expr.lanes))

    def ramp(self, expr: nodes.Ramp) -> Value:
        return vectors.ramp(self.b, self.of(expr.base), self.of(expr.stride), expr.lanes)

    def broadcast(self, expr: nodes.Broadcast) -> Value:
        return self.b.splat(self.of(expr.value), expr.lanes)

    def shuffle(self, expr: nodes.Shuffle) -> Value:
        return vectors.shuffle(self.b, [self.of(v) for v in expr.vectors], expr.indices)

    def lookup(self, expr: nodes.Lookup) -> Value:
        return lookups.lookup(self.b, expr.dtype, expr.table, self.of(expr.index))

    def reduce(self, expr: nodes.HorizontalReduce) -> Value:
        return vectors.horizontal_reduce(self.b, expr.op, expr.dtype, self.of(expr.value))

    def load(self, expr: nodes.Load) -> Value:
        (index,) = expr.indices
        mask = None if expr.mask is None else self.of(expr.mask)
        match self._find(expr.buffer):
            case Slots() as slots:
                slot = self._slot(slots, expr.buffer, index)
                return memory.load_slot(self.b, expr.dtype, slot, expr.lanes, mask)
            case Memory() as place:
                return memory.load(self.b, expr.dtype, place, self._address(index), mask)

    def address_of(self, expr: nodes.AddressOf) -> Value:
        (index,) = expr.indices
        return self.pointer(expr.buffer, index)

    def call(self, expr: nodes.Call) -> Value:
        args = [self.of(a) for a in expr.args]
        match expr.op.kind:
            case "primitive":
                return emit_primitive(self.b, expr.op.name, expr.args[0].dtype, args)
            case "hardware":
                return emit_hardware(self.b, expr, args)
            case "extern":
                return self._extern(expr, args)
            case "foreign":
                return self._foreign(expr, args)
            case "math":
                raise InternalError(f"{expr.op.name} reached code generation; a pass expands it")

    def _extern(self, expr: nodes.Call, args: list[Value]) -> Value:
        result = value_type(expr.dtype, expr.lanes)
        callee = self.b.module.extern(result.text, expr.op.name, [a.type.text for a in args])
        return self.b.emit(result, f"call {result.text} {callee}({', '.join(map(str, args))})")

    def _foreign(self, expr: nodes.Call, args: list[Value]) -> Value:
        result = value_type(expr.dtype, expr.lanes)
        function = Foreign(foreign_function(expr.op), expr.lanes)
        callee = self.b.module.foreign(function, result.text, [a.type.text for a in args])
        return self.b.emit(result, f"call {result.text} {callee}({', '.join(map(str, args))})")

    # --- places ---------------------------------------------------------------------------------------------------

    def _find(self, buffer: Buffer) -> Storage:
        found = self.storage.get(buffer)
        if found is None:
            raise InternalError(f"buffer {buffer.name} is not allocated here")
        return found

    def _slot(self, slots: Slots, buffer: Buffer, index: Expr) -> Value:
        place = constant_place(index)
        if place is None or place not in slots.slots:
            raise InternalError(f"the register buffer {buffer.name} has no slot for index {index}")
        return slots.slots[place]

    def _address(self, index: Expr) -> Address:
        match index:
            case nodes.Ramp(base=base, stride=nodes.Const(value=stride), lanes=lanes):
                return Address(self.value(base), lanes, int(stride), divisor_of(base))
            case _:
                multiple = divisor_of(index) if index.lanes == 1 else 1
                return Address(self.value(index), index.lanes, 1 if index.lanes == 1 else None, multiple)


def _operands(expr: Expr) -> tuple[Expr, ...]:
    """What must be emitted before `expr`: its operands, less what a pattern leaves out of the code."""
    match expr:
        case nodes.Load(indices=(index,), mask=mask):
            wanted = address_operands(index)
            return wanted if mask is None else (*wanted, mask)
        case nodes.Select(a=a, b=b):
            return (_choice(expr), b) if _is_unlikely(expr) else (_choice(expr), a, b)
        case _:
            return traverse.children(expr)


def address_operands(index: Expr) -> tuple[Expr, ...]:
    """What must be emitted before an access at `index`."""
    match index:
        case nodes.Ramp(base=base, stride=nodes.Const()):
            return (base,)
        case nodes.Const():
            return ()
        case _:
            return (index,)


def _choice(expr: nodes.Select) -> Expr:
    """The condition, as a scalar where every lane has the same: LLVM then selects whole vectors."""
    return expr.cond.value if isinstance(expr.cond, nodes.Broadcast) else expr.cond


def _is_unlikely(expr: nodes.Select) -> bool:
    """Whether the first side is to be computed behind a branch."""
    choice = _choice(expr)
    return isinstance(choice, nodes.Call) and choice.op.name == "unlikely"


_EMITTERS: Mapping[type[Expr], Callable[[Emitter, Any], Value]] = {
    nodes.Var: Emitter.var,
    nodes.Const: Emitter.const,
    nodes.Unary: Emitter.unary,
    nodes.Binary: Emitter.binary,
    nodes.Compare: Emitter.compare,
    nodes.Select: Emitter.select,
    nodes.Cast: Emitter.cast,
    nodes.Bitcast: Emitter.bitcast,
    nodes.Load: Emitter.load,
    nodes.AddressOf: Emitter.address_of,
    nodes.Ramp: Emitter.ramp,
    nodes.Broadcast: Emitter.broadcast,
    nodes.Shuffle: Emitter.shuffle,
    nodes.Lookup: Emitter.lookup,
    nodes.HorizontalReduce: Emitter.reduce,
    nodes.Call: Emitter.call,
}
