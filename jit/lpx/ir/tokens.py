"""Tokens of the text format, and errors that point at them."""

from __future__ import annotations

import json
import re
from typing import Literal

from lpx.errors import ParseError
from lpx.ir.names import NAME
from lpx.records import record

TokenKind = Literal["name", "number", "string", "shared", "sign", "end"]

_LONGEST_INTEGER = 40  # digits; far more than any dtype holds
_SHOWN = 60  # characters of a line on either side of a caret
_PATTERN = re.compile(
    rf"""
    (?P<space>(?:\s|\#[^\n]*)+)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?\w*)
    |(?P<name>{NAME})
    |(?P<shared>\$\d+)
    |(?P<sign>\.\.\+|\.\.|->|==|!=|<=|>=|<<|>>|//|[-+*/%&|^~<>()\[\]{{}},:=])
    """,
    re.VERBOSE,
)


_KINDS: dict[str | None, TokenKind] = {
    "string": "string", "number": "number", "name": "name", "shared": "shared", "sign": "sign",
}  # fmt: skip


@record
class Token:
    """One token and where it starts in the text."""

    kind: TokenKind
    text: str
    offset: int


class TokenStream:
    """The tokens of a text, read from left to right."""

    def __init__(self, text: str) -> None:
        self._source = text
        self._tokens = _tokenize(text)
        self.position = 0

    @property
    def next(self) -> Token:
        """The token that comes next; the last one is of kind `end`."""
        return self._tokens[self.position]

    def peek(self, ahead: int) -> Token:
        """The token `ahead` places after the next one."""
        return self._tokens[min(self.position + ahead, len(self._tokens) - 1)]

    def advance(self) -> Token:
        """Take the next token."""
        token = self.next
        if token.kind != "end":
            self.position += 1
        return token

    def accept(self, text: str) -> bool:
        """Take the next token if it is the sign or word `text`."""
        if not self.at(text):
            return False
        self.position += 1
        return True

    def at(self, *texts: str) -> bool:
        """Whether the next token is one of these signs or words."""
        return self.next.text in texts and self.next.kind in ("sign", "name")

    def expect(self, text: str) -> Token:
        """Take the next token, which must be the sign or word `text`."""
        if not self.at(text):
            raise self.error(f"expected `{text}`, found {describe(self.next)}")
        return self.advance()

    def take(self, kind: TokenKind, what: str) -> Token:
        """Take the next token, which must be of `kind`; `what` names it in the error."""
        if self.next.kind != kind:
            raise self.error(f"expected {what}, found {describe(self.next)}")
        return self.advance()

    def choice(self, *texts: str) -> str:
        """Take the next token, which must be one of these words."""
        if not self.at(*texts):
            raise self.error(f"expected one of {', '.join(texts)}, found {describe(self.next)}")
        return self.advance().text

    def integer(self) -> int:
        """Take a plain integer of reasonable length, maybe negative."""
        sign = -1 if self.accept("-") else 1
        token = self.take("number", "an integer")
        if not token.text.isdecimal() or len(token.text) > _LONGEST_INTEGER:
            raise self.error("expected a plain integer", token)
        return sign * int(token.text)

    def string(self, what: str) -> str:
        """Take a text in quotes; `what` names it in the error."""
        token = self.take("string", what)
        try:
            return str(json.loads(token.text))
        except ValueError:
            raise self.error("not a text with the escapes of JSON", token) from None

    def error(self, why: str, token: Token | None = None) -> ParseError:
        """An error at `token`, by default the next one."""
        return error_at(self._source, (token or self.next).offset, why)


def error_at(source: str, offset: int, why: str) -> ParseError:
    """An error with line, column and a caret."""
    start = source.rfind("\n", 0, offset) + 1
    end = source.find("\n", offset)
    line = source[start : len(source) if end < 0 else end]
    column = offset - start
    place = f"line {source.count(chr(10), 0, offset) + 1}, column {column + 1}"
    cut = max(len(line) - len(line.lstrip()), column - _SHOWN)  # a long line is shown around the caret only
    shown = line[min(cut, column) : column + _SHOWN].rstrip()
    return ParseError(f"{place}: {why}\n    {shown}\n    {' ' * max(column - cut, 0)}^")


def describe(token: Token) -> str:
    """A token as errors name it."""
    return "the end of the text" if token.kind == "end" else f"`{token.text}`"


def _tokenize(text: str) -> list[Token]:
    tokens: list[Token] = []
    offset = 0
    while offset < len(text):
        match = _PATTERN.match(text, offset)
        if match is None:
            raise error_at(text, offset, f"{text[offset]!r} starts no token")
        kind = match.lastgroup
        if kind in _KINDS:
            tokens.append(Token(_KINDS[kind], match.group(), offset))
        offset = match.end()
    tokens.append(Token("end", "", len(text.rstrip())))
    return tokens
