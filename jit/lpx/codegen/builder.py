"""`Builder`: the instructions of one LLVM function, written as text."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from lpx.codegen.capabilities import Capabilities
from lpx.codegen.module import ModuleText
from lpx.codegen.types import PTR, Type, Value, integer, poison, type_of


class Builder:
    """Appends instructions to the current block of a function.

    `capabilities` is what the processor does in one instruction, `flags` the fast-math flags of every float operation.
    Stack slots go to the entry block wherever they are asked for, so that LLVM promotes them. What is computed already
    in the current block (the same address, again and again in unrolled code) is not computed a second time.
    """

    def __init__(self, module: ModuleText, capabilities: Capabilities, flags: str = "") -> None:
        self.module = module
        self.capabilities = capabilities
        self.flags = f"{flags} " if flags else ""
        self.block = "body"
        self._lines: list[str] = []
        self._slots: list[str] = []
        self._computed: dict[str, Value] = {}  # in this block, by instruction
        self._count = 0
        self._terminated = False

    # --- text -----------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The function's body: the entry block with its stack slots, then everything else."""
        return "\n".join(["entry:", *self._slots, "  br label %body", "body:", *self._lines])

    def emit(self, kind: Type, instruction: str) -> Value:
        """Append an instruction that has a result."""
        self._count += 1
        ref = f"%v{self._count}"
        self._lines.append(f"  {ref} = {instruction}")
        return Value(kind, ref)

    def compute(self, kind: Type, instruction: str) -> Value:
        """The result of an instruction that has no effect and reads no memory, from before if it is in this block."""
        found = self._computed.get(instruction)
        if found is None:
            found = self._computed[instruction] = self.emit(kind, instruction)
        return found

    def effect(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self._lines.append(f"  {instruction}")

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def binary(self, op: str, a: Value, b: Value) -> Value:
        """`op` of two integers (or of anything that takes no fast-math flags)."""
        return self.compute(a.type, f"{op} {a.type.text} {a.ref}, {b.ref}")

    def float_binary(self, op: str, a: Value, b: Value) -> Value:
        """`fadd`, `fsub`, `fmul` or `fdiv`, under the function's fast-math flags."""
        return self.compute(a.type, f"{op} {self.flags}{a.type.text} {a.ref}, {b.ref}")

    def with_int(self, op: str, a: Value, b: int) -> Value:
        """`op` of an integer and a constant."""
        return self.compute(a.type, f"{op} {a.type.text} {a.ref}, {integer(a.type, b).ref}")

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """`predicate` is "icmp slt", "fcmp olt", ..."""
        return self.compute(a.type.of("i1"), f"{predicate} {a.type.text} {a.ref}, {b.ref}")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Lane by lane, or as a whole where the condition is scalar."""
        return self.compute(a.type, f"select {condition}, {a}, {b}")

    def convert(self, op: str, value: Value, element: str) -> Value:
        """`op` is "sext", "fptrunc", "bitcast", ...; nothing is emitted where the type stays."""
        kind = value.type.of(element)
        return value if kind is value.type else self.compute(kind, f"{op} {value} to {kind.text}")

    def resize(self, value: Value, element: str, *, signed: bool) -> Value:
        """An integer in another width: extended, or its low bits."""
        kind = value.type.of(element)
        if kind.bits == value.type.bits:
            return value
        op = "trunc" if kind.bits < value.type.bits else ("sext" if signed else "zext")
        return self.convert(op, value, element)

    def reinterpret(self, value: Value, kind: Type) -> Value:
        """The same bits as another type of the same total width."""
        return value if kind is value.type else self.compute(kind, f"bitcast {value} to {kind.text}")

    def intrinsic(self, name: str, kind: Type, args: Sequence[Value], overloads: Sequence[Type] | None = None) -> Value:
        """A call of `llvm.NAME`, overloaded on `overloads` (default: the result's type)."""
        suffix = "".join(f".{t.mangled}" for t in ((kind,) if overloads is None else overloads))
        return self.call(kind, f"llvm.{name}{suffix}", args)

    def call(self, kind: Type, name: str, args: Sequence[Value], flags: str = "") -> Value:
        """A call of a function of the module or of a declared one, which is declared on first use."""
        self.module.declare(kind.text, name, [a.type.text for a in args])
        return self.emit(kind, f"call {flags}{kind.text} @{name}({', '.join(map(str, args))})")

    def call_void(self, name: str, args: Sequence[Value]) -> None:
        """A call for its effect only."""
        self.module.declare("void", name, [a.type.text for a in args])
        self.effect(f"call void @{name}({', '.join(map(str, args))})")

    # --- vectors --------------------------------------------------------------------------------------------------

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        if lanes == 1:
            return value
        if value.ref[0] not in "%@":
            return Value(type_of(value.type.element, lanes), f"splat ({value})")
        first = self.insert(poison(type_of(value.type.element, lanes)), value, 0)
        return self.shuffle(first, first, [0] * lanes)

    def extract(self, vector: Value, lane: int) -> Value:
        if vector.type.lanes == 1:
            return vector
        return self.compute(type_of(vector.type.element), f"extractelement {vector}, i64 {lane}")

    def insert(self, vector: Value, scalar: Value, lane: int) -> Value:
        return self.compute(vector.type, f"insertelement {vector}, {scalar}, i64 {lane}")

    def shuffle(self, a: Value, b: Value, indices: Sequence[int]) -> Value:
        """Lanes of `a` and `b` laid side by side; a negative index leaves the lane open."""
        lanes = len(indices)
        if not any(indices):
            mask = "zeroinitializer"
        else:
            mask = "<" + ", ".join(f"i32 {i}" if i >= 0 else "i32 poison" for i in indices) + ">"
        return self.compute(type_of(a.type.element, lanes), f"shufflevector {a}, {b}, <{lanes} x i32> {mask}")

    # --- memory ---------------------------------------------------------------------------------------------------

    def element(self, kind: str, base: Value, index: Value) -> Value:
        """The address of element `index` (a scalar or a vector) of an array of `kind`."""
        result = type_of("ptr", index.type.lanes)
        return self.compute(result, f"getelementptr inbounds {kind}, {base}, {index}")

    def load(self, kind: Type, address: Value, align: int, metadata: str = "") -> Value:
        return self.emit(kind, f"load {kind.text}, {address}, align {align}{metadata}")

    def store(self, value: Value, address: Value, align: int, metadata: str = "") -> None:
        self.effect(f"store {value}, {address}, align {align}{metadata}")

    def stack(self, kind: str, align: int, count: int = 1) -> Value:
        """A stack slot for `count` of `kind`, one per call of the function."""
        self._count += 1
        ref = f"%s{self._count}"
        what = kind if count == 1 else f"[{count} x {kind}]"
        self._slots.append(f"  {ref} = alloca {what}, align {align}")
        return Value(PTR, ref)

    # --- control flow ---------------------------------------------------------------------------------------------

    def new_block(self, hint: str) -> str:
        """A label not used yet."""
        self._count += 1
        return f"{hint}{self._count}"

    def start(self, label: str) -> None:
        """Open a block; the one before falls through to it unless it has ended."""
        if not self._terminated:
            self.branch(label)
        self._lines.append(f"{label}:")
        self._computed = {}
        self.block = label
        self._terminated = False

    def branch(self, label: str) -> None:
        self._end(f"br label %{label}")

    def branch_if(self, condition: Value, yes: str, no: str, *, likely: bool | None = None) -> None:
        """`likely` says which way it nearly always goes: True for `yes`."""
        weights = "" if likely is None else f", !prof {self.module.branch_weights(likely=likely)}"
        self._end(f"br {condition}, label %{yes}, label %{no}{weights}")

    def return_(self, value: Value) -> None:
        self._end(f"ret {value}")

    def phi(self, kind: Type, *incoming: tuple[Value, str]) -> Value:
        """The value that belongs to the block control came from; must come first in its block."""
        return self.emit(kind, f"phi {kind.text} " + ", ".join(f"[ {v.ref}, %{label} ]" for v, label in incoming))

    def placeholder(self, kind: Type) -> tuple[Value, int]:
        """A register whose instruction is given later, by `fill`, and the place of it."""
        value = self.emit(kind, "")
        return value, len(self._lines) - 1

    def fill(self, place: int, value: Value, instruction: str) -> None:
        """The instruction of a `placeholder`, such as a phi whose operands come later."""
        self._lines[place] = f"  {value.ref} = {instruction}"

    @contextmanager
    def when(self, condition: Value, *, likely: bool | None = None) -> Generator[None]:
        """What is emitted within runs only if the scalar condition holds."""
        then, done = self.new_block("then"), self.new_block("done")
        self.branch_if(condition, then, done, likely=likely)
        self.start(then)
        yield
        self.start(done)

    @contextmanager
    def count(self, start: Value, end: Value, loop: str = "") -> Generator[Value]:
        """A loop over start <= i < end, tested at the bottom; `loop` is metadata for its back edge."""
        head, done, before = self.new_block("loop"), self.new_block("done"), self.block
        if _is_known_below(start, end):
            self.branch(head)
        else:
            self.branch_if(self.compare("icmp slt", start, end), head, done)
        self.start(head)
        following = f"%{self.new_block('next')}"
        index, place = self.placeholder(start.type)
        yield index
        latch = self.block
        flags = "nuw nsw" if start.ref == "0" else "nsw"
        self.effect(f"{following} = add {flags} {index}, 1")
        again = self.compare("icmp slt", Value(start.type, following), end)
        self._end(f"br {again}, label %{head}, label %{done}{loop}")
        self.fill(place, index, f"phi {start.type.text} [ {start.ref}, %{before} ], [ {following}, %{latch} ]")
        self.start(done)

    def _end(self, instruction: str) -> None:
        self.effect(instruction)
        self._terminated = True


def _is_known_below(a: Value, b: Value) -> bool:
    return a.ref[0] != "%" and b.ref[0] != "%" and int(a.ref) < int(b.ref)
