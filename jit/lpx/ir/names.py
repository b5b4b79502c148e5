"""Printed names: unique within one text, made from the hints that variables and buffers carry."""

from __future__ import annotations

import json
import re

from lpx import dtypes
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Var

NAME = r"[^\W\d]\w*(?:\.\w+)*"
"""A name of the text: an identifier, or several joined by dots."""

KEYWORDS = frozenset(
    """
    alloc async_commit async_copy async_wait atomic barrier block call check const else evaluate for func if let module
    pass region while
    """.split()
)
"""Words that start a statement or a part of the text."""

FLOAT_SUFFIX = {
    dtypes.float8_e4m3fn: "f8e4m3",
    dtypes.float8_e5m2: "f8e5m2",
    dtypes.float16: "f16",
    dtypes.bfloat16: "bf16",
    dtypes.float32: "f32",
    dtypes.float64: "f64",
}
INTEGER_SUFFIX = {d: f"{'i' if d.is_signed else 'u'}{d.bits}" for d in dtypes.ALL if d.is_integer and d != dtypes.index}
SPECIAL_FLOATS = {f"{word}_{suffix}": (d, float(word)) for word in ("inf", "nan") for d, suffix in FLOAT_SUFFIX.items()}
RESERVED = frozenset({*KEYWORDS, *SPECIAL_FLOATS, "true", "false", "hardware", "extern", "foreign"})
"""What no variable or buffer is called in a text. Functions are known by the parenthesis after their name."""


class Names:
    """Gives each variable and buffer one name: its hint, or the hint with a number when that is taken."""

    def __init__(self) -> None:
        self._given: dict[Var | Buffer, str] = {}
        self._used: set[str] = set(RESERVED)
        self._next: dict[str, int] = {}

    def of(self, item: Var | Buffer) -> str:
        """The name of `item`, the same at every call."""
        found = self._given.get(item)
        if found is None:
            found = self._given[item] = self._unique(_identifier(item.name))
        return found

    def _unique(self, hint: str) -> str:
        name = hint
        while name in self._used:
            number = self._next[hint] = self._next.get(hint, 0) + 1
            name = f"{hint}_{number}"
        self._used.add(name)
        return name


def _identifier(hint: str) -> str:
    if re.fullmatch(NAME, hint):
        return hint
    cleaned = re.sub(r"\W", "_", hint)
    return cleaned if re.fullmatch(NAME, cleaned) else f"v{cleaned}"


def quoted_unless_name(text: str) -> str:
    """`text` bare where it is a name of the text format, else in quotes."""
    return text if re.fullmatch(NAME, text) and text not in RESERVED else quote(text)


def quote(text: str) -> str:
    """`text` in double quotes with the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)
