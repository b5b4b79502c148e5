"""Functions and statements from text: what `lpx.ir.printer` writes, read back.

The text is a format of its own: tests, bug reports and the command line read and write it. Errors are ParseErrors that
name line and column and show a caret.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import ParseError
from lpx.expr import nodes as expr_nodes
from lpx.expr.buffer import Buffer, Layout, Scope
from lpx.expr.nodes import Axis, AxisKind, Expr, Var
from lpx.ir import nodes
from lpx.ir.expression_parser import ExpressionParser
from lpx.ir.names import RESERVED
from lpx.ir.nodes import Attr, Function, Module, Stmt
from lpx.ir.printer import constant_digest
from lpx.ir.tokens import Token, describe
from lpx.ir.traverse import sequence

T = TypeVar("T")


def parse_expr(text: str, names: Mapping[str, Var | Buffer]) -> Expr:
    """The expression that `text` says, over the variables and buffers of `names`.

    Raises: ParseError with line and column.
    """
    with _no_recursion_error():
        parser = _Parser(text, names, ())
        parser.definitions()
        expr = parser.expression()
        parser.finish()
        return expr


def parse_stmt(text: str, names: Mapping[str, Var | Buffer]) -> Stmt:
    """The statements that `text` says, over the variables and buffers of `names`.

    Raises: ParseError with line and column.
    """
    with _no_recursion_error():
        parser = _Parser(text, names, ())
        stmt = parser.contents("")
        parser.finish()
        return stmt


def parse_function(text: str, constants: Iterable[NDArray[Any]] = ()) -> Function:
    """The function that `text` says. Its constants are found among `constants` by the hash of their elements.

    Raises: ParseError with line and column.
    """
    with _no_recursion_error():
        parser = _Parser(text, {}, constants)
        function = parser.function()
        parser.finish()
        return function


def parse_module(text: str, constants: Iterable[NDArray[Any]] = ()) -> Module:
    """The module that `text` says.

    Raises: ParseError with line and column.
    """
    with _no_recursion_error():
        parser = _Parser(text, {}, constants)
        parser.tokens.expect("module")
        parser.tokens.expect("entry")
        entry = parser.title()
        functions: dict[str, Function] = {}
        while parser.tokens.next.kind != "end":
            start = parser.tokens.next
            function = parser.function()
            if function.name in functions:
                raise parser.tokens.error(f"a second function {function.name}", start)
            functions[function.name] = function
        if entry not in functions:
            raise parser.tokens.error(f"the module has no function {entry} to enter")
        return Module(functions, entry)


@contextmanager
def _no_recursion_error() -> Generator[None]:
    try:
        yield
    except RecursionError:  # the caller is deep in a recursion of its own
        raise ParseError("nested too deep for what is left of Python's stack") from None


Opener = Callable[[Stmt], Stmt]
"""A `let` or `alloc`, which takes the rest of its braces as its body."""


class _Parser(ExpressionParser):
    def __init__(self, text: str, names: Mapping[str, Var | Buffer], constants: Iterable[NDArray[Any]]) -> None:
        super().__init__(text, names)
        self._constants = {constant_digest(array): array for array in constants}

    def finish(self) -> None:
        if self.tokens.next.kind != "end":
            raise self.tokens.error(f"expected the end, found {describe(self.tokens.next)}")

    def title(self) -> str:
        """A name that is no variable: bare, or in quotes."""
        if self.tokens.next.kind == "string":
            return str(json.loads(self.tokens.advance().text))
        return self.tokens.take("name", "a name").text

    def _new_name(self) -> Token:
        token = self.tokens.take("name", "a name")
        if token.text in RESERVED:
            raise self.tokens.error(f"`{token.text}` is a word of the language", token)
        return token

    def _type(self, dtype: DType, lanes: int) -> tuple[DType, int]:
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

    def function(self) -> Function:
        with self.scope():
            start = self.tokens.position
            symbols = self._symbols_ahead()
            self.tokens.position = start
            self.definitions()
            self.tokens.expect("func")
            name = self.title()
            self.tokens.expect("(")
            params = self.separated(")", self._param)
            for token, param in params:
                self.declare(token, param.buffer)
            self._skip_symbols()
            attrs = self._attrs("attrs")
            self.tokens.expect("{")
            constants: dict[Buffer, NDArray[np.generic]] = {}
            self.definitions()
            while self.tokens.at("const"):
                self._constant(constants)
                self.definitions()
            body = self.contents("}")
            return Function(name, tuple(p for _, p in params), symbols, body, attrs, constants)

    def _symbols_ahead(self) -> tuple[Var, ...]:
        """The symbols, which the types of parameters mention before the text declares them."""
        while not self.tokens.at("func"):
            if self.tokens.advance().kind == "end":
                raise self.tokens.error("expected `func`")
        self.tokens.advance()
        self.title()
        self.tokens.expect("(")
        depth = 1
        while depth:
            token = self.tokens.advance()
            if token.kind == "end":
                raise self.tokens.error("expected `)`")
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "sign" else 0
        return tuple(self._skip_symbols(declare=True))

    def _skip_symbols(self, *, declare: bool = False) -> list[Var]:
        if not self.tokens.accept("symbols"):
            return []
        self.tokens.expect("(")
        return self.separated(")", lambda: self._symbol(declare))

    def _symbol(self, declare: bool) -> Var:
        token = self._new_name()
        var = Var(*self._type(dtypes.index, 1), token.text)
        if declare:
            self.declare(token, var)
        return var

    def _param(self) -> tuple[Token, nodes.Param]:
        token = self._new_name()
        self.tokens.expect(":")
        role = _one_of(nodes.Role, self.tokens.choice("in", "out", "inout"))
        return token, nodes.Param(self._buffer_type(token), role)

    def _buffer_type(self, name: Token) -> Buffer:
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

    def _strides(self) -> tuple[Expr, ...]:
        return tuple(self.expressions(")"))

    def _alignment(self) -> int:
        alignment = self.tokens.integer()
        self.tokens.expect(")")
        return alignment

    def _scope(self) -> Scope:
        scope: Scope = _one_of(Scope, self.tokens.choice("global", "local", "register", "shared"))
        self.tokens.expect(")")
        return scope

    def _layout(self) -> Layout:
        with self.scope():
            self.tokens.expect("(")
            variables = tuple(self.separated(")", lambda: self._symbol(declare=True)))
            self.tokens.expect("->")
            self.tokens.expect("(")
            targets = tuple(self.expressions(")"))
            self.tokens.expect("in")
            self.tokens.expect("[")
            physical = tuple(self.expressions("]"))
            in_lanes = self.tokens.accept("lane_register")
            self.tokens.expect(")")
            return Layout(variables, targets, physical, "lane_register" if in_lanes else "memory")

    def _constant(self, constants: dict[Buffer, NDArray[np.generic]]) -> None:
        self.tokens.expect("const")
        token = self._new_name()
        self.tokens.expect(":")
        buffer = self._buffer_type(token)
        self.tokens.expect("=")
        digest = self.tokens.take("string", "the hash of the constant")
        array = self._constants.get(json.loads(digest.text))
        if array is None:
            raise self.tokens.error(
                f"the elements of constant {token.text} are not in the text; pass its array in `constants`", digest
            )
        constants[buffer] = array
        self.declare(token, buffer)

    def _attrs(self, keyword: str) -> Mapping[str, Attr]:
        if not self.tokens.accept(keyword):
            return nodes.no_attrs()
        self.tokens.expect("(")
        return MappingProxyType(dict(self.separated(")", self._attr)))

    def _attr(self) -> tuple[str, Attr]:
        name = self.tokens.take("name", "the name of an attribute").text
        self.tokens.expect("=")
        if self.tokens.next.kind == "string":
            return name, str(json.loads(self.tokens.advance().text))
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

    def _braces(self) -> Stmt:
        self.tokens.expect("{")
        return self.contents("}")

    def _item(self) -> Stmt | Opener:
        if self.tokens.next.kind == "shared":
            self.definitions()
        else:
            self._shared = {}
        token = self.tokens.next
        if token.kind == "sign" and token.text == "{":
            return self._braces()
        read = _STATEMENTS.get(token.text) if token.kind == "name" else None
        if read is not None:
            self.tokens.advance()
            return read(self)
        return self._store()

    def _pass(self) -> Stmt:
        return nodes.Seq(())

    def _store(self) -> Stmt:
        buffer, indices, mask = self.access()
        self.tokens.expect("=")
        return nodes.Store(buffer, indices, self.expression(), mask)

    def _for(self) -> Stmt:
        token = self._new_name()
        typed = self.tokens.at(":")
        dtype, lanes = self._type(dtypes.index, 1)
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
        pragmas = self._attrs("pragma")
        var = Var(dtype if typed else start.dtype, lanes, token.text)
        with self.scope():
            self.declare(token, var)
            return nodes.For(var, start, extent, self._braces(), kind, thread, stages, pragmas)

    def _kind(self) -> tuple[nodes.ForKind, nodes.ThreadAxis | None]:
        if self.tokens.accept("bind"):
            self.tokens.expect("(")
            thread = _one_of(nodes.ThreadAxis, self.tokens.choice(*get_args(nodes.ThreadAxis)))
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

    def _region(self) -> Stmt:
        return nodes.ParallelRegion(self._braces())

    def _if(self) -> Stmt:
        cond = self.expression()
        then = self._braces()
        return nodes.If(cond, then, self._braces() if self.tokens.accept("else") else None)

    def _while(self) -> Stmt:
        cond = self.expression()
        return nodes.While(cond, self._braces())

    def _let(self) -> Opener:
        token = self._new_name()
        typed = self.tokens.at(":")
        dtype, lanes = self._type(dtypes.index, 1)
        self.tokens.expect("=")
        value = self.expression()
        var = Var(dtype, lanes, token.text) if typed else Var(value.dtype, value.lanes, token.text)
        self.declare(token, var)
        return lambda body: nodes.Let(var, value, body)

    def _alloc(self) -> Opener:
        token = self._new_name()
        self.tokens.expect(":")
        buffer = self._buffer_type(token)
        self.declare(token, buffer)
        return lambda body: nodes.Alloc(buffer, body)

    def _block(self) -> Stmt:
        name = self.title()
        self.tokens.expect("(")
        axes = self.separated(")", self._axis)
        predicate = self.expression() if self.tokens.accept("where") else None
        attrs = self._attrs("attrs")
        with self.scope():
            for token, axis, _ in axes:
                self.declare(token, axis.var)
            self.tokens.expect("{")
            init = self._init() if self.tokens.at("init") and self.tokens.peek(1).text == "{" else None
            body = self.contents("}")
        bindings = tuple(b for _, _, b in axes)
        return nodes.Block(name, tuple(a for _, a, _ in axes), bindings, predicate, init, body, attrs)

    def _init(self) -> Stmt:
        self.tokens.expect("init")
        return self._braces()

    def _axis(self) -> tuple[Token, Axis, Expr]:
        token = self._new_name()
        self.tokens.expect(":")
        typed = not self.tokens.at(*get_args(AxisKind))
        dtype = self.dtype() if typed else dtypes.index
        kind = _one_of(AxisKind, self.tokens.choice(*get_args(AxisKind)))
        extent = self.expression()
        self.tokens.expect("=")
        binding = self.expression()
        return token, Axis(Var(dtype if typed else extent.dtype, 1, token.text), extent, kind), binding

    def _atomic(self) -> Stmt:
        op = self.operation()
        buffer, indices, _ = self.access(masked=False)
        self.tokens.expect(",")
        return nodes.AtomicUpdate(op, buffer, indices, self.expression())

    def _barrier(self) -> Stmt:
        return nodes.Barrier(_one_of(nodes.BarrierScope, self.tokens.choice(*get_args(nodes.BarrierScope))))

    def _copy(self) -> Stmt:
        target, target_indices, _ = self.access(masked=False)
        self.tokens.expect(",")
        source, source_indices, _ = self.access(masked=False)
        self.tokens.expect(",")
        return nodes.AsyncCopy(target, target_indices, source, source_indices, self.tokens.integer())

    def _commit(self) -> Stmt:
        return nodes.AsyncCommit()

    def _wait(self) -> Stmt:
        return nodes.AsyncWait(self.tokens.integer())

    def _evaluate(self) -> Stmt:
        return nodes.Evaluate(self.expression())

    def _call(self) -> Stmt:
        name = self.title()
        self.tokens.expect("(")
        self.tokens.expect("[")
        buffers = tuple(self.separated("]", self.buffer))
        self.tokens.expect(",")
        self.tokens.expect("[")
        extents = tuple(self.expressions("]"))
        self.tokens.expect(")")
        return nodes.CallFunction(name, buffers, extents)

    def _check(self) -> Stmt:
        cond = self.expression()
        self.tokens.expect(",")
        return nodes.Check(cond, str(json.loads(self.tokens.take("string", "a message in quotes").text)))


_STATEMENTS: dict[str, Callable[[_Parser], Stmt | Opener]] = {
    "pass": _Parser._pass,
    "for": _Parser._for,
    "region": _Parser._region,
    "if": _Parser._if,
    "while": _Parser._while,
    "let": _Parser._let,
    "block": _Parser._block,
    "atomic": _Parser._atomic,
    "alloc": _Parser._alloc,
    "barrier": _Parser._barrier,
    "async_copy": _Parser._copy,
    "async_commit": _Parser._commit,
    "async_wait": _Parser._wait,
    "evaluate": _Parser._evaluate,
    "call": _Parser._call,
    "check": _Parser._check,
}
_KINDS: dict[str, nodes.ForKind] = {"parallel": "parallel", "vectorize": "vectorized", "unroll": "unrolled"}
_BUFFER_OPTIONS: dict[str, tuple[str, Callable[[_Parser], Any]]] = {
    "strides": ("strides", _Parser._strides),
    "align": ("alignment", _Parser._alignment),
    "scope": ("scope", _Parser._scope),
    "layout": ("layout", _Parser._layout),
}


def _one_of(literal: Any, text: str) -> Any:
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
