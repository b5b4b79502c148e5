"""Expressions from text: precedence climbing over the tokens, nodes through the builders."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TypeVar, get_args

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import LpxError, ParseError
from lpx.expr import build, nodes, ops
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import BinaryOp, Expr, Var
from lpx.ir.expression_text import BINARY_SIGNS, COMPARE, COMPARE_SIGNS, UNARY
from lpx.ir.names import FLOAT_SUFFIX, INTEGER_SUFFIX, SPECIAL_FLOATS
from lpx.ir.tokens import Token, TokenStream

T = TypeVar("T")

MAX_DEPTH = 64
"""How deep expressions, or statements, may nest in a text."""

_LONGEST_NUMBER = 1000  # characters; the longest double in full has 767 digits

_BINARY_OPS: dict[str, tuple[BinaryOp, int]] = {
    sign: (op, BINARY_SIGNS[op][1]) for op in get_args(BinaryOp) if op in BINARY_SIGNS for sign in [BINARY_SIGNS[op][0]]
}
_COMPARE_OPS: dict[str, nodes.CompareOp] = {COMPARE_SIGNS[op]: op for op in get_args(nodes.CompareOp)}
_FUNCTION_OPS: dict[str, BinaryOp] = {op: op for op in get_args(BinaryOp) if op not in BINARY_SIGNS}
_SUFFIXES = {suffix: dtype for table in (FLOAT_SUFFIX, INTEGER_SUFFIX) for dtype, suffix in table.items()}
_DTYPES = {dtype.name: dtype for dtype in (*dtypes.ALL, dtypes.handle)}
_NUMBER = re.compile(r"(?P<digits>\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?P<suffix>.*)")
_NAMED_KINDS: dict[str, ops.OpKind] = {"hardware": "hardware", "extern": "extern", "foreign": "foreign"}
_DOMAINS: dict[str, ops.Domain] = {domain: domain for domain in get_args(ops.Domain)}


class ExpressionParser:
    """Reads expressions from a stream of tokens, in the scopes of the names it declares."""

    def __init__(self, text: str, names: Mapping[str, Var | Buffer]) -> None:
        self.tokens = TokenStream(text)
        self._scopes: list[dict[str, Var | Buffer]] = [dict(names)]
        self._shared: dict[str, Expr] = {}
        self._depth = 0

    def declare(self, token: Token, item: Var | Buffer) -> None:
        """Make a name known in the innermost scope."""
        self._scopes[-1][token.text] = item

    @contextmanager
    def scope(self) -> Generator[None]:
        """Names declared within are forgotten at its end."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    @contextmanager
    def deeper(self) -> Generator[None]:
        """Count a level of nesting; too many are an error."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.tokens.error(f"nested deeper than {MAX_DEPTH} levels")
        try:
            yield
        finally:
            self._depth -= 1

    def buffer(self) -> Buffer:
        """A declared buffer, by name."""
        return self._look_up(Buffer, "a buffer")

    def _look_up(self, kind: type[T], what: str) -> T:
        token = self.tokens.take("name", what)
        for scope in reversed(self._scopes):
            item = scope.get(token.text)
            if isinstance(item, kind):
                return item
            if item is not None:
                raise self.tokens.error(f"`{token.text}` is not {what}", token)
        raise self.tokens.error(f"unknown name `{token.text}`", token)

    def definitions(self) -> None:
        """`$0 = ...` lines, which hold for the construct that follows."""
        self._shared = {}
        while self.tokens.next.kind == "shared" and self.tokens.peek(1).text == "=":
            name = self.tokens.advance().text
            self.tokens.expect("=")
            self._shared[name] = self.expression()

    def make(self, token: Token, builder: Callable[[], T]) -> T:
        """What `builder` gives; its errors become errors at `token`."""
        try:
            return builder()
        except ParseError:
            raise
        except LpxError as error:
            hint = f" ({error.hint})" if error.hint else ""
            raise self.tokens.error(error.message + hint, token) from error

    def expression(self, minimum: int = COMPARE) -> Expr:
        """An expression whose operators bind at least as tightly as `minimum`."""
        with self.deeper():
            left = self._unary()
            while self.tokens.next.kind == "sign":
                token = self.tokens.next
                if token.text in _BINARY_OPS and _BINARY_OPS[token.text][1] >= minimum:
                    left = self._binary(left, token)
                elif token.text in _COMPARE_OPS and minimum == COMPARE:
                    left = self._compare(left, token)
                else:
                    break
            return left

    def _binary(self, left: Expr, token: Token) -> Expr:
        self.tokens.advance()
        op, precedence = _BINARY_OPS[token.text]
        right = self.expression(precedence + 1)
        return self.make(token, lambda: build.binary(op, left, right))

    def _compare(self, left: Expr, token: Token) -> Expr:
        self.tokens.advance()
        right = self.expression(COMPARE + 1)
        if self.tokens.next.kind == "sign" and self.tokens.next.text in _COMPARE_OPS:
            raise self.tokens.error("comparisons do not chain; use parentheses and `&`")
        return self.make(token, lambda: build.compare(_COMPARE_OPS[token.text], left, right))

    def _unary(self) -> Expr:
        token = self.tokens.next
        if self.tokens.accept("-"):
            if self.tokens.next.kind == "number" or self.tokens.next.text in SPECIAL_FLOATS:
                return self._number(self.tokens.advance(), negative=True)
            operand = self.expression(UNARY)
            return self.make(token, lambda: build.unary("neg", operand))
        if self.tokens.accept("~"):
            operand = self.expression(UNARY)
            return self.make(token, lambda: build.unary("not", operand))
        if self.tokens.accept("&"):
            buffer, indices, _ = self.access(masked=False)
            return nodes.AddressOf(dtypes.handle, 1, buffer, indices)
        return self._primary()

    def _primary(self) -> Expr:
        token = self.tokens.next
        match token.kind:
            case "number":
                return self._number(self.tokens.advance(), negative=False)
            case "shared":
                return self._reference(self.tokens.advance())
            case "name":
                return self._named(token)
            case _:
                self.tokens.expect("(")
                inner = self.expression()
                self.tokens.expect(")")
                return inner

    def _reference(self, token: Token) -> Expr:
        if token.text not in self._shared:
            raise self.tokens.error(f"{token.text} is not defined just before", token)
        return self._shared[token.text]

    def _named(self, token: Token) -> Expr:
        if token.text in ("true", "false"):
            self.tokens.advance()
            return build.const(token.text == "true")
        if token.text in SPECIAL_FLOATS:
            return self._number(self.tokens.advance(), negative=False)
        if token.text in _NAMED_KINDS:
            return self._hardware(self.tokens.advance())
        if self.tokens.peek(1).text == "(":
            return self._apply(self.tokens.advance())
        if self.tokens.peek(1).text == "[":
            buffer, indices, mask = self.access()
            return self.make(token, lambda: build.load(buffer, indices, mask))
        return self._look_up(Var, "a variable")

    def _number(self, token: Token, *, negative: bool) -> Expr:
        if token.text in SPECIAL_FLOATS:
            dtype, special = SPECIAL_FLOATS[token.text]
            return nodes.Const(dtype, 1, -special if negative else special)
        match = _NUMBER.fullmatch(token.text)
        suffix = match["suffix"] if match else ""
        if match is None or (suffix and suffix not in _SUFFIXES):
            raise self.tokens.error(f"`{suffix}` is no dtype suffix; there are {', '.join(_SUFFIXES)}", token)
        digits = match["digits"]
        if len(digits) > _LONGEST_NUMBER:
            raise self.tokens.error(f"a number of {len(digits)} digits", token)
        dtype = _SUFFIXES[suffix] if suffix else dtypes.index if digits.isdecimal() else dtypes.float32
        number = int(digits) if digits.isdecimal() and not dtype.is_float else float(digits)
        constant = self.make(token, lambda: build.const(-number if negative else number, dtype))
        if dtype.is_float and not math.isfinite(constant.value):
            raise self.tokens.error(f"{digits} does not fit {dtype}", token)
        return constant

    def dtype(self) -> DType:
        """The name of an element type."""
        token = self.tokens.take("name", "a dtype")
        if token.text not in _DTYPES:
            raise self.tokens.error(f"`{token.text}` is not a dtype", token)
        return _DTYPES[token.text]

    def _apply(self, token: Token) -> Expr:
        if token.text in _DTYPES:
            (value,) = self._operands(token, 1)
            return nodes.Cast(_DTYPES[token.text], value.lanes, value)
        if token.text in _FORMS:
            return _FORMS[token.text](self, token)
        if token.text in _FUNCTION_OPS:
            a, b = self._operands(token, 2)
            return self.make(token, lambda: build.binary(_FUNCTION_OPS[token.text], a, b))
        if token.text not in ops.ALL:
            raise self.tokens.error(f"unknown function `{token.text}`", token)
        operands = self._operands(token, ops.ALL[token.text].arity)
        return self.make(token, lambda: build.call(token.text, *operands))

    def access(self, *, masked: bool = True) -> tuple[Buffer, tuple[Expr, ...], Expr | None]:
        """`A[i, j]` or `A[i, j, mask=m]`."""
        token = self.tokens.next
        buffer = self.buffer()
        self.tokens.expect("[")
        indices: list[Expr] = []
        mask = None
        while not self.tokens.accept("]"):
            if masked and self.tokens.at("mask") and self.tokens.peek(1).text == "=":
                self.tokens.position += 2
                mask = self.expression()
                self.tokens.expect("]")
                break
            indices.append(self.expression())
            if not self.tokens.at("]"):
                self.tokens.expect(",")
        if len(indices) != buffer.rank:
            raise self.tokens.error(f"{token.text} has {buffer.rank} dimension(s), not {len(indices)}", token)
        return buffer, tuple(indices), mask

    def expressions(self, end: str) -> list[Expr]:
        """Expressions with commas between them, up to and with the sign `end`."""
        return self.separated(end, self.expression)

    def separated(self, end: str, item: Callable[[], T]) -> list[T]:
        """Items with commas between them, up to and with the sign `end`."""
        found: list[T] = []
        while not self.tokens.accept(end):
            if found:
                self.tokens.expect(",")
            found.append(item())
        return found

    def _operands(self, token: Token, count: int) -> list[Expr]:
        self.tokens.expect("(")
        operands = self.expressions(")")
        if len(operands) != count:
            raise self.tokens.error(f"`{token.text}` takes {count} operand(s), not {len(operands)}", token)
        return operands

    def select_form(self, token: Token) -> Expr:
        cond, a, b = self._operands(token, 3)
        return self.make(token, lambda: build.select(cond, a, b))

    def bitcast_form(self, token: Token) -> Expr:
        self.tokens.expect("(")
        value = self.expression()
        self.tokens.expect(",")
        target = self.dtype()
        self.tokens.expect(")")
        return self.make(token, lambda: build.bitcast(value, target))

    def _lanes(self) -> int:
        token = self.tokens.next
        lanes = self.tokens.integer()
        if lanes < 1:
            raise self.tokens.error("a vector has at least one lane", token)
        return lanes

    def ramp_form(self, token: Token) -> Expr:
        self.tokens.expect("(")
        base = self.expression()
        self.tokens.expect(",")
        stride = self.expression()
        self.tokens.expect(",")
        lanes = self._lanes()
        self.tokens.expect(")")
        self._require_scalar(token, base)
        return self.make(token, lambda: build.ramp(base, stride, lanes))

    def broadcast_form(self, token: Token) -> Expr:
        self.tokens.expect("(")
        value = self.expression()
        self.tokens.expect(",")
        lanes = self._lanes()
        self.tokens.expect(")")
        self._require_scalar(token, value)
        return self.make(token, lambda: build.broadcast(value, lanes))

    def _require_scalar(self, token: Token, value: Expr) -> None:
        if value.lanes != 1:
            raise self.tokens.error(f"`{token.text}` takes a scalar, not {value.lanes} lanes", token)

    def shuffle_form(self, token: Token) -> Expr:
        self.tokens.expect("(")
        self.tokens.expect("[")
        vectors = self.expressions("]")
        self.tokens.expect(",")
        self.tokens.expect("[")
        indices = self.separated("]", self.tokens.integer)
        self.tokens.expect(")")
        total = sum(v.lanes for v in vectors)
        if not indices or not all(0 <= i < total for i in indices):
            raise self.tokens.error(f"shuffle picks at least one lane, from 0 to {total - 1}", token)
        return build.shuffle(vectors, indices)

    def lookup_form(self, token: Token) -> Expr:
        self.tokens.expect("(")
        self.tokens.expect("[")
        table = self.separated("]", self._table_entry)
        self.tokens.expect(",")
        index = self.expression()
        self.tokens.expect(")")
        if not table:
            raise self.tokens.error("a table has at least one constant", token)
        if any(entry.dtype != table[0].dtype for entry in table):
            raise self.tokens.error("the constants of a table have one dtype", token)
        return self.make(token, lambda: build.lookup([entry.value for entry in table], index, table[0].dtype))

    def _table_entry(self) -> nodes.Const:
        token = self.tokens.next
        value = self.expression(UNARY)
        if not isinstance(value, nodes.Const):
            raise self.tokens.error("a table holds constants", token)
        return value

    def reduce_form(self, token: Token) -> Expr:
        self.tokens.expect("(")
        op = self.operation()
        self.tokens.expect(",")
        value = self.expression()
        self.tokens.expect(")")
        return self.make(token, lambda: build.horizontal_reduce(op, value))

    def operation(self) -> BinaryOp:
        """The name of a binary operation."""
        token = self.tokens.take("name", "an operation")
        found: BinaryOp | None = next((op for op in get_args(BinaryOp) if op == token.text), None)
        if found is None:
            raise self.tokens.error(f"`{token.text}` is not a binary operation", token)
        return found

    def _hardware(self, token: Token) -> Expr:
        self.tokens.expect("[")
        name = self.tokens.string("the operation's name in quotes")
        self.tokens.expect(",")
        domain = _DOMAINS[self.tokens.choice(*_DOMAINS)]
        self.tokens.expect(",")
        result = self.tokens.choice("same", "bool", *_DTYPES)
        self.tokens.expect(",")
        lanes = self._lanes()
        self.tokens.expect("]")
        self.tokens.expect("(")
        args = self.expressions(")")
        if not args and result == "same":
            raise self.tokens.error("a result of the same dtype needs an operand", token)
        op = ops.Op(name, len(args), _NAMED_KINDS[token.text], domain, result)
        return build.hardware_call(op, args, lanes)


_FORMS: dict[str, Callable[[ExpressionParser, Token], Expr]] = {
    "select": ExpressionParser.select_form,
    "bitcast": ExpressionParser.bitcast_form,
    "ramp": ExpressionParser.ramp_form,
    "broadcast": ExpressionParser.broadcast_form,
    "shuffle": ExpressionParser.shuffle_form,
    "lookup": ExpressionParser.lookup_form,
    "reduce": ExpressionParser.reduce_form,
}
"""Forms that are not simply a name and operands."""
