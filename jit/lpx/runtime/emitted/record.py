"""C structures that emitted code shares with Python."""

from __future__ import annotations

from typing import Literal

CType = Literal["i8", "i32", "i64", "ptr"]

_BYTES: dict[CType, int] = {"i8": 1, "i32": 4, "i64": 8, "ptr": 8}


class Field:
    """A field of a `Record`: byte offset and type."""

    __slots__ = ("offset", "type")

    def __init__(self, offset: int, type_: CType) -> None:
        self.offset = offset
        self.type: CType = type_

    @property
    def size(self) -> int:
        """Bytes."""
        return _BYTES[self.type]


class Record:
    """A C structure: named integers and pointers, laid out as a C compiler would, aligned to `align` bytes."""

    def __init__(self, start: int = 0, /, *, align: int = 8, **types: CType) -> None:
        self._fields: dict[str, Field] = {}
        offset = start
        for name, type_ in types.items():
            size = _BYTES[type_]
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
