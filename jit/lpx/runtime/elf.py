"""The symbols of an ELF64 object file: what it needs, and where its functions lie."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from lpx.records import record

_SYMBOL_TABLE = 2  # section type
_SYMBOL_BYTES = 24
_UNDEFINED = 0  # section index
_FUNCTION = 2  # low bits of a symbol's info


@record
class Symbol:
    """One entry of the symbol table: `section` is its section's index, `offset` its place there, `size` in bytes."""

    name: str
    is_function: bool
    section: int
    offset: int
    size: int

    @property
    def is_undefined(self) -> bool:
        return self.section == _UNDEFINED


def symbols(data: bytes) -> Iterator[Symbol]:
    """The named symbols of a little-endian ELF64 object file in their own order; none for other formats."""
    if data[:6] != b"\x7fELF\x02\x01":
        return
    sections_at, entry_size, count = struct.unpack_from("<Q10xHH", data, 0x28)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + i * entry_size) for i in range(count)]
    for _, kind, _, _, offset, size, strings, _, _, _ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        texts = sections[strings][4]
        for at in range(offset + _SYMBOL_BYTES, offset + size, _SYMBOL_BYTES):
            name, info, _, section, value, length = struct.unpack_from("<IBBHQQ", data, at)
            if name:
                start = texts + name
                text = data[start : data.index(b"\0", start)].decode()
                yield Symbol(text, info & 15 == _FUNCTION, section, value, length)


def undefined_symbols(data: bytes) -> list[str]:
    """Names that an object file uses and does not define."""
    return [symbol.name for symbol in symbols(data) if symbol.is_undefined]


def function_addresses(data: bytes, known: dict[str, int]) -> Iterator[tuple[str, int, int]]:
    """Name, address and size of the functions of loaded code, local ones too, from the addresses of exported ones.

    A function is placed if its section holds a function of known address.
    """
    functions = [symbol for symbol in symbols(data) if symbol.is_function and not symbol.is_undefined]
    bases = {symbol.section: known[symbol.name] - symbol.offset for symbol in functions if symbol.name in known}
    for symbol in functions:
        if symbol.section in bases:
            yield symbol.name, bases[symbol.section] + symbol.offset, symbol.size
