"""Structured emission of LLVM functions, so that the native parts of the run time read like C.

    unit = Unit("example")
    with unit.function("sum", I64, PTR, I64) as (code, data, n):   # i64 sum(ptr data, i64 n)
        total = code.variable(code.i64(0))
        with code.count(n) as i:
            total.set(total.get() + (data + i * 8).load(I64))
        code.ret(total.get())

Integers are signed; `//` and friends are absent on purpose (they can trap). Pointers are opaque and move in bytes.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal

from lpx.runtime.emitted.record import Field
from lpx.runtime.emitted.types import I8, I32, I64, OF_C, PTR, VOID, ir, size_of

Ordering = Literal["monotonic", "acquire", "release", "acq_rel", "seq_cst"]


class Value:
    """An integer or pointer of the function being emitted.

    Operators emit instructions; comparisons give a truth value.
    """

    __slots__ = ("code", "ir")

    def __init__(self, code: Code, value: Any) -> None:
        self.code = code
        self.ir = value

    @property
    def type(self) -> Any:
        return self.ir.type

    def __add__(self, other: Value | int) -> Value:
        builder = self.code.builder
        if self.type == PTR:
            step = self.code.constant(I64, other)
            return Value(self.code, builder.gep(self.ir, [step.ir], source_etype=I8))
        return self._binary("add", other)

    def __sub__(self, other: Value | int) -> Value:
        return self._binary("sub", other)

    def __mul__(self, other: Value | int) -> Value:
        return self._binary("mul", other)

    def divided(self, other: Value) -> Value:
        """The quotient of two integers that are not negative."""
        return Value(self.code, self.code.builder.udiv(self.ir, other.ir))

    def __and__(self, other: Value | int) -> Value:
        return self._binary("and_", other)

    def __or__(self, other: Value | int) -> Value:
        return self._binary("or_", other)

    def __lt__(self, other: Value | int) -> Value:
        return self._compare("<", other)

    def __le__(self, other: Value | int) -> Value:
        return self._compare("<=", other)

    def __gt__(self, other: Value | int) -> Value:
        return self._compare(">", other)

    def __ge__(self, other: Value | int) -> Value:
        return self._compare(">=", other)

    def eq(self, other: Value | int) -> Value:
        """Whether both are equal; pointers may be compared with 0."""
        return self._compare("==", other)

    def ne(self, other: Value | int) -> Value:
        """Whether they differ; pointers may be compared with 0."""
        return self._compare("!=", other)

    def below(self, other: Value | int) -> Value:
        """Unsigned less-than, also of pointers."""
        right = self.code.constant(self.type, other)
        return Value(self.code, self.code.builder.icmp_unsigned("<", self.ir, right.ir))

    def widen(self) -> Value:
        """Sign-extends to 64 bits."""
        return Value(self.code, self.code.builder.sext(self.ir, I64))

    def narrow(self) -> Value:
        """The low 32 bits."""
        return Value(self.code, self.code.builder.trunc(self.ir, I32))

    def address(self) -> Value:
        """The pointer as an integer."""
        return Value(self.code, self.code.builder.ptrtoint(self.ir, I64))

    def load(self, type_: Any) -> Value:
        """Reads what this pointer points to."""
        return Value(self.code, self.code.builder.load(self.ir, typ=type_))

    def store(self, value: Value | int, type_: Any = I64) -> None:
        """Writes where this pointer points to; `type_` is that of a plain number."""
        self.code.builder.store(self.code.constant(type_, value).ir, self.ir)

    def get(self, field: Field) -> Value:
        """Reads a field of the record this pointer points to."""
        return (self + field.offset).load(OF_C[field.type])

    def put(self, field: Field, value: Value | int) -> None:
        """Writes a field of the record this pointer points to."""
        (self + field.offset).store(value, OF_C[field.type])

    def _binary(self, operation: str, other: Value | int) -> Value:
        right = self.code.constant(self.type, other)
        return Value(self.code, getattr(self.code.builder, operation)(self.ir, right.ir))

    def _compare(self, relation: str, other: Value | int) -> Value:
        right = self.code.constant(self.type, other)
        builder = self.code.builder
        compare = builder.icmp_unsigned if self.type == PTR else builder.icmp_signed
        return Value(self.code, compare(relation, self.ir, right.ir))


class Variable:
    """A local variable: a stack slot that LLVM turns into SSA values."""

    __slots__ = ("_code", "_type", "slot")

    def __init__(self, code: Code, type_: Any) -> None:
        self._code = code
        self._type = type_
        self.slot = code.stack(type_)

    def get(self) -> Value:
        return self.slot.load(self._type)

    def set(self, value: Value | int) -> None:
        self.slot.store(value, self._type)


class Code:
    """One function under construction: the instruction builder with structured control flow."""

    def __init__(self, unit: Unit, function: Any) -> None:
        self.unit = unit
        self.function = function
        self._entry = function.append_basic_block("entry")
        body = function.append_basic_block("body")
        self.builder: Any = ir.IRBuilder(self._entry)
        self.builder.branch(body)
        self.builder.position_at_end(body)
        self._exits: list[Any] = []

    def constant(self, type_: Any, value: Value | int) -> Value:
        """`value` itself, or the constant of that type (0 is the null pointer)."""
        if isinstance(value, Value):
            return value
        if type_ == PTR:
            return Value(self, ir.Constant(PTR, None if value == 0 else value))
        return Value(self, ir.Constant(type_, value))

    def i32(self, value: int) -> Value:
        return self.constant(I32, value)

    def i64(self, value: int) -> Value:
        return self.constant(I64, value)

    def null(self) -> Value:
        return self.constant(PTR, 0)

    def symbol(self, reference: Any) -> Value:
        """The address of a function or global of the unit."""
        return Value(self, self.unit.address(reference.name))

    def stack(self, type_: Any, count: int = 1, align: int | None = None) -> Value:
        """Stack memory, allocated once per call of the function."""
        with self.builder.goto_block(self._entry):
            slot = self.builder.alloca(type_, ir.Constant(I32, count))
        slot.align = align
        slot.type = PTR  # llvmlite gives it the typed pointer of old
        return Value(self, slot)

    def stack_array(self, type_: Any, count: Value) -> Value:
        """Stack memory whose size is known at run time; use outside of loops."""
        slot = self.builder.alloca(type_, count.ir)
        slot.type = PTR
        return Value(self, slot)

    def variable(self, initial: Value) -> Variable:
        made = Variable(self, initial.type)
        made.set(initial)
        return made

    def select(self, condition: Value, yes: Value | int, no: Value | int) -> Value:
        type_ = yes.type if isinstance(yes, Value) else no.type if isinstance(no, Value) else I64
        return Value(self, self.builder.select(condition.ir, self.constant(type_, yes).ir, self.constant(type_, no).ir))

    @contextmanager
    def when(self, condition: Value, *, likely: bool | None = None) -> Generator[None]:
        """Emits the block to run if the condition holds."""
        with self.builder.if_then(condition.ir, likely=likely):
            yield

    @contextmanager
    def choose(self, condition: Value) -> Generator[tuple[Any, Any]]:
        """Yields the contexts of the two branches: `with code.choose(c) as (yes, no): with yes: ... with no: ...`"""
        with self.builder.if_else(condition.ir) as branches:
            yield branches

    @contextmanager
    def forever(self) -> Generator[None]:
        """Emits a loop that only `leave` or `ret` ends."""
        body = self.function.append_basic_block("loop")
        done = self.function.append_basic_block("done")
        self.builder.branch(body)
        self.builder.position_at_end(body)
        self._exits.append(done)
        yield
        if not self.builder.block.is_terminated:
            self.builder.branch(body)
        self._exits.pop()
        self.builder.position_at_end(done)

    @contextmanager
    def count(self, n: Value, begin: Value | int = 0) -> Generator[Value]:
        """Emits a loop over begin <= i < n."""
        i = self.variable(self.constant(n.type, begin))
        with self.forever():
            with self.when(i.get() >= n):
                self.leave()
            yield i.get()
            if not self.builder.block.is_terminated:
                i.set(i.get() + 1)

    def leave(self) -> None:
        """Ends the innermost loop."""
        self.builder.branch(self._exits[-1])

    def leave_when(self, condition: Value) -> None:
        """Ends the innermost loop if the condition holds."""
        with self.when(condition):
            self.leave()

    def ret(self, value: Value | int | None = None) -> None:
        if value is None:
            self.builder.ret_void()
        else:
            self.builder.ret(self.constant(self.function.function_type.return_type, value).ir)

    def unreachable(self) -> None:
        """Says that control never gets here."""
        self.builder.unreachable()

    def call(self, function: Any, *arguments: Value | int) -> Value:
        """Calls a function of the unit; plain numbers take the parameter's type."""
        types: list[Any] = list(function.function_type.args)
        types += [I64] * (len(arguments) - len(types))
        values = [self.constant(type_, argument).ir for type_, argument in zip(types, arguments, strict=True)]
        return Value(self, self.builder.call(function, values))

    def call_pointer(self, pointer: Value, result: Any, *arguments: Value) -> Value:
        """Calls through a function pointer."""
        callee = _Operand(pointer.ir, PTR)
        callee.function_type = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.call(callee, *arguments)

    def load_atomic(self, pointer: Value, type_: Any, ordering: Ordering = "acquire") -> Value:
        align = size_of(type_)
        return Value(self, self.builder.load_atomic(pointer.ir, ordering, align, typ=type_))

    def store_atomic(self, pointer: Value, value: Value, ordering: Ordering = "release") -> None:
        typed = _Operand(pointer.ir, value.type.as_pointer())
        self.builder.store_atomic(value.ir, typed, ordering, size_of(value.type))

    def atomic(self, operation: str, pointer: Value, value: Value, ordering: Ordering = "seq_cst") -> Value:
        """`xchg`, `add`, `sub`, `or` ... on memory; the old value."""
        return Value(self, self.builder.atomic_rmw(operation, pointer.ir, value.ir, ordering))

    def compare_exchange(self, pointer: Value, expected: Value, new: Value) -> Value:
        """Stores `new` if memory holds `expected`; whether it did."""
        pair = self.builder.cmpxchg(pointer.ir, expected.ir, new.ir, "seq_cst", "monotonic")
        return Value(self, self.builder.extract_value(pair, 1))

    def spin_hint(self) -> None:
        """Tells the core that this is a waiting loop."""
        if self.unit.triple.startswith("aarch64"):
            self.call(self.unit.extern("llvm.aarch64.isb", VOID, I32), 15)
        else:
            self.call(self.unit.extern("llvm.x86.sse2.pause", VOID))


class Unit:
    """An LLVM module under construction for one target triple."""

    def __init__(self, name: str, triple: str) -> None:
        self.triple = triple
        self.is_linux = "linux" in triple
        self.module: Any = ir.Module(name)
        self.module.triple = triple

    @contextmanager
    def function(
        self, name: str, result: Any, *parameters: Any, local: bool = False, inline: bool = False
    ) -> Generator[tuple[Any, ...]]:
        """Opens a function; yields its `Code` and one `Value` per parameter.

        `local` keeps the name inside the unit, `inline` merges the function into its callers.
        """
        made = self.extern(name, result, *parameters)
        made.attributes.add("uwtable")  # a thread that ends while the interpreter exits is unwound through here
        if local:
            made.linkage = "internal"
        if inline:
            made.attributes.add("alwaysinline")
        code = Code(self, made)
        yield code, *(Value(code, argument) for argument in made.args)
        if not code.builder.block.is_terminated:
            raise ValueError(f"{name} does not return on every path")

    def extern(self, name: str, result: Any, *parameters: Any, variadic: bool = False) -> Any:
        """Declares a function."""
        known = self.module.globals.get(name)
        if known is not None:
            return known
        return ir.Function(self.module, ir.FunctionType(result, parameters, var_arg=variadic), name)

    def named(self, name: str) -> Any:
        """A function or global that the unit has already."""
        return self.module.globals[name]

    def variable(self, name: str, type_: Any, align: int | None = None, *, local: bool = True) -> Any:
        """A zero-initialised global."""
        made = ir.GlobalVariable(self.module, type_, name)
        made.initializer = ir.Constant(type_, None)
        made.align = align
        made.linkage = "internal" if local else ""
        return made

    def imported(self, name: str, type_: Any = I8) -> Any:
        """A global defined elsewhere."""
        return ir.GlobalVariable(self.module, type_, name)

    def address(self, name: str) -> Any:
        """The address of a function or global, as an LLVM constant."""
        return ir.FormattedConstant(PTR, self.named(name).get_reference())

    def constants(self, name: str, *elements: Any) -> Any:
        """A constant structure of LLVM constants, laid out as in C."""
        value = ir.Constant.literal_struct(elements)
        made = ir.GlobalVariable(self.module, value.type, name)
        made.initializer = value
        made.global_constant = False  # relocated when linked
        made.linkage = "internal"
        return made

    def text(self, name: str, content: str) -> Any:
        """A C string."""
        data = bytearray(content.encode() + b"\0")
        made = ir.GlobalVariable(self.module, ir.ArrayType(I8, len(data)), name)
        made.initializer = ir.Constant(made.value_type, data)
        made.global_constant = True
        made.linkage = "internal"
        return made

    def __str__(self) -> str:
        return str(self.module)


class _Operand:
    """A pointer for the instructions of which llvmlite's builder still asks what the pointer points to."""

    function_type: Any

    def __init__(self, pointer: Any, type_: Any) -> None:
        self.type = type_
        self.get_reference = pointer.get_reference
