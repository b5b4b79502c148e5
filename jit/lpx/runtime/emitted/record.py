"""Types of emitted code, and C structures that it shares with Python."""

from __future__ import annotations

import importlib
from typing import Any

ir: Any = importlib.import_module("llvmlite.ir")  # llvmlite carries no types

I8: Any = ir.IntType(8)
I32: Any = ir.IntType(32)
I64: Any = ir.IntType(64)
PTR: Any = ir.PointerType()
VOID: Any = ir.VoidType()


class Field:
    """A field of a `Record`: byte offset and LLVM type."""

    __slots__ = ("offset", "type")

    def __init__(self, offset: int, type_: Any) -> None:
        self.offset = offset
        self.type = type_

    @property
    def size(self) -> int:
        """Bytes."""
        return 8 if self.type == PTR else int(self.type.width) // 8


class Record:
    """A C structure: named integers and pointers, laid out as a C compiler would, aligned to `align` bytes."""

    def __init__(self, start: int = 0, /, *, align: int = 8, **types: Any) -> None:
        self._fields: dict[str, Field] = {}
        offset = start
        for name, type_ in types.items():
            size = Field(0, type_).size
            offset = -(-offset // size) * size
            self._fields[name] = Field(offset, type_)
            offset += size
        self.size = -(-offset // align) * align

    def __getitem__(self, name: str) -> Field:
        return self._fields[name]

    def write(self, memory: bytearray, offset: int, /, **values: int) -> None:
        """Stores the named fields into `memory` at byte `offset`; the others keep their bytes."""
        for name, value in values.items():
            field = self._fields[name]
            where = offset + field.offset
            memory[where : where + field.size] = (value & (1 << 8 * field.size) - 1).to_bytes(field.size, "little")
