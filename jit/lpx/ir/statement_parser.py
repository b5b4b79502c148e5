"""Statements and buffer types from text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, get_args

from lpx import dtypes
from lpx.dtypes import DType
from lpx.expr import nodes as expr_nodes
from lpx.expr.buffer import Buffer, Layout, Scope
from lpx.expr.nodes import Axis, AxisKind, Expr, Var
from lpx.ir import nodes
from lpx.ir.expression_parser import ExpressionParser
from lpx.ir.names import RESERVED
from lpx.ir.nodes import Attr, Stmt
from lpx.ir.tokens import Token, describe
from lpx.ir.traverse import sequence

Opener = Callable[[Stmt], Stmt]
"""A `let` or `alloc`, which takes the rest of its braces as its body."""


class StatementParser(ExpressionParser):
    """Reads statements; `let` and `alloc` take what follows in their braces as their body."""

    def finish(self) -> None:
        if self.tokens.next.kind != "end":
            raise self.tokens.error(f"expected the end, found {describe(self.tokens.next)}")

    def title(self) -> str:
        """A name that is no variable: bare, or in quotes."""
        if self.tokens.next.kind == "string":
            return self.tokens.string("a name in quotes")
        return self.tokens.take("name", "a name").text

    def new_name(self) -> Token:
        token = self.tokens.take("name", "a name")
        if token.text in RESERVED:
            raise self.tokens.error(f"`{token.text}` is a word of the language", token)
        return token

    def variable_type(self, dtype: DType, lanes: int) -> tuple[DType, int]:
        """`: float32` or `: float32x8` after a declared name; without it, the given type."""
        if not self.tokens.accept(":"):
            return dtype, lanes
        token = self.tokens.take("name", "a dtype")
        name, _, count = token.text.rpartition("x")
        if not (name and count.isdecimal() and int(count) > 0):
            name, count = token.text, "1"
        found = next((d for d in (*dtypes.ALL, dtypes.handle) if d.name == name), None)
        if found is None:
            raise self.tokens.error(f"`{token.text}` is not a dtype", token)
        return found, int(count)

    def symbol(self, declare: bool) -> Var:
        token = self.new_name()
        var = Var(*self.variable_type(dtypes.index, 1), token.text)
        if declare:
            self.declare(token, var)
        return var

    def buffer_type(self, name: Token) -> Buffer:
        dtype = self.dtype()
        self.tokens.expect("[")
        shape = tuple(self.expressions("]"))
        options: dict[str, Any] = {}
        while self.tokens.at(*_BUFFER_OPTIONS):
            token = self.tokens.advance()
            self.tokens.expect("(")
            field, read = _BUFFER_OPTIONS[token.text]
            options[field] = read(self)
        return Buffer(name.text, dtype, shape, **options)

    def strides(self) -> tuple[Expr, ...]:
        return tuple(self.expressions(")"))

    def alignment(self) -> int:
        alignment = self.tokens.integer()
        self.tokens.expect(")")
        return alignment

    def storage_scope(self) -> Scope:
        scope: Scope = one_of(Scope, self.tokens.choice("global", "local", "register", "shared"))
        self.tokens.expect(")")
        return scope

    def layout(self) -> Layout:
        with self.scope():
            self.tokens.expect("(")
            variables = tuple(self.separated(")", lambda: self.symbol(declare=True)))
            self.tokens.expect("->")
            self.tokens.expect("(")
            targets = tuple(self.expressions(")"))
            self.tokens.expect("in")
            self.tokens.expect("[")
            physical = tuple(self.expressions("]"))
            in_lanes = self.tokens.accept("lane_register")
            self.tokens.expect(")")
            return Layout(variables, targets, physical, "lane_register" if in_lanes else "memory")

    def attrs(self, keyword: str) -> Mapping[str, Attr]:
        if not self.tokens.accept(keyword):
            return nodes.no_attrs()
        self.tokens.expect("(")
        return MappingProxyType(dict(self.separated(")", self._attr)))

    def _attr(self) -> tuple[str, Attr]:
        name = self.tokens.take("name", "the name of an attribute").text
        self.tokens.expect("=")
        if self.tokens.next.kind == "string":
            return name, self.tokens.string("a text")
        if self.tokens.at("true", "false"):
            return name, self.tokens.advance().text == "true"
        negative = self.tokens.accept("-")
        token = self.tokens.take("number", "a number, a text in quotes, true or false")
        try:
            value = int(token.text) if token.text.isdecimal() else float(token.text)
        except ValueError:
            raise self.tokens.error("an attribute's number has no dtype", token) from None
        return name, -value if negative else value

    def contents(self, end: str) -> Stmt:
        """Statements up to the sign `end`, in a scope of their own."""
        items: list[Stmt | Opener] = []
        with self.scope(), self.deeper():
            while not (self.tokens.accept(end) if end else self.tokens.next.kind == "end"):
                items.append(self._item())
        return _fold(items)

    def braces(self) -> Stmt:
        self.tokens.expect("{")
        return self.contents("}")

    def _item(self) -> Stmt | Opener:
        if self.tokens.next.kind == "shared":
            self.definitions()
        else:
            self._shared = {}
        token = self.tokens.next
        if token.kind == "sign" and token.text == "{":
            return self.braces()
        read = _STATEMENTS.get(token.text) if token.kind == "name" else None
        if read is not None:
            self.tokens.advance()
            return read(self)
        return self._store()

    def nothing(self) -> Stmt:
        return nodes.Seq(())

    def _store(self) -> Stmt:
        buffer, indices, mask = self.access()
        self.tokens.expect("=")
        return nodes.Store(buffer, indices, self.expression(), mask)

    def loop(self) -> Stmt:
        token = self.new_name()
        typed = self.tokens.at(":")
        dtype, lanes = self.variable_type(dtypes.index, 1)
        self.tokens.expect("in")
        start = self.expression()
        if self.tokens.accept("..+"):
            extent = self.expression()
        else:
            bound = self.tokens.expect("..")
            extent = self.expression()
            if not (isinstance(start, expr_nodes.Const) and start.value == 0):
                raise self.tokens.error("a loop from anything but 0 is written start..+extent", bound)
            start = expr_nodes.Const(extent.dtype, 1, 0)
        kind, thread = self._kind()
        stages = self._stages()
        pragmas = self.attrs("pragma")
        var = Var(dtype if typed else start.dtype, lanes, token.text)
        with self.scope():
            self.declare(token, var)
            return nodes.For(var, start, extent, self.braces(), kind, thread, stages, pragmas)

    def _kind(self) -> tuple[nodes.ForKind, nodes.ThreadAxis | None]:
        if self.tokens.accept("bind"):
            self.tokens.expect("(")
            thread = one_of(nodes.ThreadAxis, self.tokens.choice(*get_args(nodes.ThreadAxis)))
            self.tokens.expect(")")
            return "bound", thread
        if self.tokens.at(*_KINDS):
            return _KINDS[self.tokens.advance().text], None
        return "serial", None

    def _stages(self) -> tuple[tuple[int, int], ...] | None:
        if not self.tokens.accept("stages"):
            return None
        self.tokens.expect("(")
        return tuple(self.separated(")", self._stage))

    def _stage(self) -> tuple[int, int]:
        stage = self.tokens.integer()
        self.tokens.expect(":")
        return stage, self.tokens.integer()

    def region(self) -> Stmt:
        return nodes.ParallelRegion(self.braces())

    def branch(self) -> Stmt:
        cond = self.expression()
        then = self.braces()
        return nodes.If(cond, then, self.braces() if self.tokens.accept("else") else None)

    def while_loop(self) -> Stmt:
        cond = self.expression()
        return nodes.While(cond, self.braces())

    def let(self) -> Opener:
        token = self.new_name()
        typed = self.tokens.at(":")
        dtype, lanes = self.variable_type(dtypes.index, 1)
        self.tokens.expect("=")
        value = self.expression()
        var = Var(dtype, lanes, token.text) if typed else Var(value.dtype, value.lanes, token.text)
        self.declare(token, var)
        return lambda body: nodes.Let(var, value, body)

    def alloc(self) -> Opener:
        token = self.new_name()
        self.tokens.expect(":")
        buffer = self.buffer_type(token)
        self.declare(token, buffer)
        return lambda body: nodes.Alloc(buffer, body)

    def block(self) -> Stmt:
        name = self.title()
        self.tokens.expect("(")
        axes = self.separated(")", self._axis)
        predicate = self.expression() if self.tokens.accept("where") else None
        attrs = self.attrs("attrs")
        with self.scope():
            for token, axis, _ in axes:
                self.declare(token, axis.var)
            self.tokens.expect("{")
            init = self.init() if self.tokens.at("init") and self.tokens.peek(1).text == "{" else None
            body = self.contents("}")
        bindings = tuple(b for _, _, b in axes)
        return nodes.Block(name, tuple(a for _, a, _ in axes), bindings, predicate, init, body, attrs)

    def init(self) -> Stmt:
        self.tokens.expect("init")
        return self.braces()

    def _axis(self) -> tuple[Token, Axis, Expr]:
        token = self.new_name()
        self.tokens.expect(":")
        typed = not self.tokens.at(*get_args(AxisKind))
        dtype = self.dtype() if typed else dtypes.index
        kind = one_of(AxisKind, self.tokens.choice(*get_args(AxisKind)))
        extent = self.expression()
        self.tokens.expect("=")
        binding = self.expression()
        return token, Axis(Var(dtype if typed else extent.dtype, 1, token.text), extent, kind), binding

    def atomic(self) -> Stmt:
        op = self.operation()
        buffer, indices, _ = self.access(masked=False)
        self.tokens.expect(",")
        return nodes.AtomicUpdate(op, buffer, indices, self.expression())

    def barrier(self) -> Stmt:
        return nodes.Barrier(one_of(nodes.BarrierScope, self.tokens.choice(*get_args(nodes.BarrierScope))))

    def copy(self) -> Stmt:
        target, target_indices, _ = self.access(masked=False)
        self.tokens.expect(",")
        source, source_indices, _ = self.access(masked=False)
        self.tokens.expect(",")
        return nodes.AsyncCopy(target, target_indices, source, source_indices, self.tokens.integer())

    def commit(self) -> Stmt:
        return nodes.AsyncCommit()

    def wait(self) -> Stmt:
        return nodes.AsyncWait(self.tokens.integer())

    def evaluate(self) -> Stmt:
        return nodes.Evaluate(self.expression())

    def call(self) -> Stmt:
        name = self.title()
        self.tokens.expect("(")
        self.tokens.expect("[")
        buffers = tuple(self.separated("]", self.buffer))
        self.tokens.expect(",")
        self.tokens.expect("[")
        extents = tuple(self.expressions("]"))
        self.tokens.expect(")")
        return nodes.CallFunction(name, buffers, extents)

    def check(self) -> Stmt:
        cond = self.expression()
        self.tokens.expect(",")
        return nodes.Check(cond, self.tokens.string("a message in quotes"))


_STATEMENTS: dict[str, Callable[[StatementParser], Stmt | Opener]] = {
    "pass": StatementParser.nothing,
    "for": StatementParser.loop,
    "region": StatementParser.region,
    "if": StatementParser.branch,
    "while": StatementParser.while_loop,
    "let": StatementParser.let,
    "block": StatementParser.block,
    "atomic": StatementParser.atomic,
    "alloc": StatementParser.alloc,
    "barrier": StatementParser.barrier,
    "async_copy": StatementParser.copy,
    "async_commit": StatementParser.commit,
    "async_wait": StatementParser.wait,
    "evaluate": StatementParser.evaluate,
    "call": StatementParser.call,
    "check": StatementParser.check,
}
_KINDS: dict[str, nodes.ForKind] = {"parallel": "parallel", "vectorize": "vectorized", "unroll": "unrolled"}
_BUFFER_OPTIONS: dict[str, tuple[str, Callable[[StatementParser], Any]]] = {
    "strides": ("strides", StatementParser.strides),
    "align": ("alignment", StatementParser.alignment),
    "scope": ("scope", StatementParser.storage_scope),
    "layout": ("layout", StatementParser.layout),
}


def one_of(literal: Any, text: str) -> Any:
    """`text` as a value of a Literal type."""
    return next(value for value in get_args(literal) if value == text)


def _fold(items: list[Stmt | Opener]) -> Stmt:
    rest: list[Stmt] = []  # last statement first
    for item in reversed(items):
        if isinstance(item, Stmt):
            rest.append(item)
        else:
            rest = [item(sequence(rest[::-1]))]
    return sequence(rest[::-1])
