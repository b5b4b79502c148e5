"""Functions and statements from text: what `lpx.ir.printer` writes, read back.

The text is a format of its own: tests, bug reports and the command line read and write it. Errors are ParseErrors that
name line and column and show a caret.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx.errors import ParseError
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr, Var
from lpx.ir import nodes
from lpx.ir.nodes import Function, Module, Stmt
from lpx.ir.printer import constant_digest
from lpx.ir.statement_parser import StatementParser, one_of
from lpx.ir.tokens import Token


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


class _Parser(StatementParser):
    def __init__(self, text: str, names: Mapping[str, Var | Buffer], constants: Iterable[NDArray[Any]]) -> None:
        super().__init__(text, names)
        self._constants = {constant_digest(array): array for array in constants}

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
            attrs = self.attrs("attrs")
            self.tokens.expect("{")
            constants = self._constants_of_function()
            body = self.contents("}")
            return Function(name, tuple(p for _, p in params), symbols, body, attrs, constants)

    def _constants_of_function(self) -> dict[Buffer, NDArray[np.generic]]:
        constants: dict[Buffer, NDArray[np.generic]] = {}
        while True:
            start = self.tokens.position
            self.definitions()
            if not self.tokens.at("const"):
                self.tokens.position = start  # the definitions belong to the first statement
                return constants
            self._constant(constants)

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
        return self.separated(")", lambda: self.symbol(declare))

    def _param(self) -> tuple[Token, nodes.Param]:
        token = self.new_name()
        self.tokens.expect(":")
        role = one_of(nodes.Role, self.tokens.choice("in", "constant", "out", "inout"))
        return token, nodes.Param(self.buffer_type(token), role)

    def _constant(self, constants: dict[Buffer, NDArray[np.generic]]) -> None:
        self.tokens.expect("const")
        token = self.new_name()
        self.tokens.expect(":")
        buffer = self.buffer_type(token)
        self.tokens.expect("=")
        digest = self.tokens.next
        array = self._constants.get(self.tokens.string("the hash of the constant"))
        if array is None:
            raise self.tokens.error(
                f"the elements of constant {token.text} are not in the text; pass its array in `constants`", digest
            )
        constants[buffer] = array
        self.declare(token, buffer)
