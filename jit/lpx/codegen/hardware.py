"""Hardware operations: which instruction stands for which operation, on the targets that have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lpx.codegen.builder import Builder
from lpx.codegen.types import I64, PTR, Type, Value, int32, type_of, value_type
from lpx.errors import CompileError
from lpx.expr.nodes import Call
from lpx.ir import traverse
from lpx.ir.hardware import BF16_TILE_DOT, LINE_BYTES, TILE_DOTS
from lpx.ir.nodes import Stmt
from lpx.records import record

_TILE = Type("x86_amx", 1, "x86_amx")
_I16 = type_of("i16")

_TILE_OPERATIONS = frozenset(op.name for op in (*TILE_DOTS.values(), BF16_TILE_DOT))

Emit = Callable[[Builder, Type, Sequence[Value]], Value]


@record
class Instruction:
    """An instruction on vectors of `lanes` result lanes, present where one of `features` is (everywhere if there are
    none).
    """

    lanes: int
    features: tuple[frozenset[str], ...]
    emit: Emit


def emit_hardware(b: Builder, call: Call, args: Sequence[Value]) -> Value:
    """The instruction for a hardware operation.

    Raises: CompileError when the target has none for these lanes; an operation is one instruction, never an emulation.
    """
    forms = INSTRUCTIONS.get(call.op.name, ())
    for form in forms:
        if form.lanes == call.lanes and _has(b, form):
            return form.emit(b, value_type(call.dtype, call.lanes), args)
    legal = sorted({form.lanes for form in forms if _has(b, form)})
    hint = f"this target has it for {', '.join(map(str, legal))} lanes" if legal else "this target does not have it"
    raise CompileError(f"{call.op.name} of {call.lanes} lanes is not an instruction of the target", hint=hint)


def keeps_tiles(body: Stmt) -> bool:
    """Whether tiles live on from one statement of `body` to another."""
    return any(isinstance(e, Call) and e.op.name in _TILE_OPERATIONS for e in traverse.walk_expressions(body))


def _has(b: Builder, form: Instruction) -> bool:
    return not form.features or any(wanted <= b.capabilities.features for wanted in form.features)


def _prefetch(b: Builder, kind: Type, args: Sequence[Value]) -> Value:
    read, nearest, data = int32(0), int32(3), int32(1)
    callee = b.module.intrinsic("void", "llvm.prefetch.p0", [PTR.text, "i32", "i32", "i32"])
    b.effect(f"call void {callee}({args[0]}, {read}, {nearest}, {data})")
    return args[0]


def _line_offset(b: Builder, kind: Type, args: Sequence[Value]) -> Value:
    return b.with_int("and", b.emit(I64, f"ptrtoint {args[0]} to i64"), LINE_BYTES - 1)


def _byte_dot(bits: int) -> Emit:
    def emit(b: Builder, kind: Type, args: Sequence[Value]) -> Value:
        return b.call(kind, f"llvm.x86.avx512.vpdpbusd.{bits}", args)

    return emit


def _bfloat_dot(bits: int) -> Emit:
    def emit(b: Builder, kind: Type, args: Sequence[Value]) -> Value:
        total, left, right = args
        pairs = left.type.of("bfloat")
        operands = (total, b.reinterpret(left, pairs), b.reinterpret(right, pairs))
        return b.call(kind, f"llvm.x86.avx512bf16.dpbf16ps.{bits}", operands)

    return emit


def _tile_dot(name: str) -> Emit:
    """A product of tiles. Tiles are vectors as far as this file goes: LLVM keeps them in tile registers, configures
    these, and turns loads and stores of whole tiles into those of the unit. It has to be told that a product touches no
    memory: else every product would load its operands again.
    """

    def emit(b: Builder, kind: Type, args: Sequence[Value]) -> Value:
        tiles = [b.call(_TILE, f"llvm.x86.cast.vector.to.tile.{a.type.mangled}", [a]) for a in args]
        rows, row_bytes = Value(_I16, "16"), Value(_I16, "64")
        operands = [rows, row_bytes, row_bytes, *tiles]
        callee = b.module.intrinsic(_TILE.text, f"llvm.{name}.internal", [a.type.text for a in operands])
        made = b.emit(_TILE, f"call {_TILE.text} {callee}({', '.join(map(str, operands))}) memory(none)")
        return b.call(kind, f"llvm.x86.cast.tile.to.vector.{kind.mangled}", [made])

    return emit


def _features(*alternatives: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(text.split()) for text in alternatives)


INSTRUCTIONS: dict[str, tuple[Instruction, ...]] = {
    "prefetch": (Instruction(1, (), _prefetch),),
    "line_offset": (Instruction(1, (), _line_offset),),
    "x86.vpdpbusd": (
        Instruction(4, _features("avxvnni", "avx512vnni avx512vl"), _byte_dot(128)),
        Instruction(8, _features("avxvnni", "avx512vnni avx512vl"), _byte_dot(256)),
        Instruction(16, _features("avx512vnni"), _byte_dot(512)),
    ),
    "x86.vdpbf16ps": (
        Instruction(4, _features("avx512bf16 avx512vl"), _bfloat_dot(128)),
        Instruction(8, _features("avx512bf16 avx512vl"), _bfloat_dot(256)),
        Instruction(16, _features("avx512bf16"), _bfloat_dot(512)),
    ),
    **{op.name: (Instruction(256, _features("amx-int8"), _tile_dot(op.name)),) for op in TILE_DOTS.values()},
    BF16_TILE_DOT.name: (Instruction(256, _features("amx-bf16"), _tile_dot(BF16_TILE_DOT.name)),),
}
"""Forms of each hardware operation by name (`lpx.ir.hardware` says what each computes)."""
