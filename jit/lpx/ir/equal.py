"""Structural equality of functions and statements: equal up to the names of variables and buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lpx.expr import traverse
from lpx.expr.buffer import Buffer, Layout
from lpx.expr.nodes import Axis, Expr, Var
from lpx.ir import nodes
from lpx.ir.nodes import Attr, Function, Module, Stmt
from lpx.ir.traverse import substatements
from lpx.records import field_names


def structural_equal(a: Function, b: Function) -> bool:
    """Whether two functions are the same program.

    Variables and buffers match where they are declared; their names, source spans and how sequences are nested do not
    count. Names of functions and blocks do.
    """
    return _Comparison().functions(a, b)


def structural_equal_stmt(a: Stmt, b: Stmt) -> bool:
    """The same for statements; variables and buffers that they do not declare must be the same objects."""
    return _Comparison().statements(a, b)


def structural_equal_module(a: Module, b: Module) -> bool:
    """The same for modules."""
    if a.entry != b.entry or list(a.functions) != list(b.functions):
        return False
    return all(structural_equal(f, g) for f, g in zip(a.functions.values(), b.functions.values(), strict=True))


class _Comparison:
    def __init__(self) -> None:
        self._variables: dict[Var, Var] = {}
        self._buffers: dict[Buffer, Buffer] = {}

    def functions(self, a: Function, b: Function) -> bool:
        if (
            a.name != b.name
            or not _same_attrs(a.attrs, b.attrs)
            or [p.role for p in a.params] != [p.role for p in b.params]
        ):
            return False
        return (
            len(a.symbols) == len(b.symbols)
            and all(self._declare(v, w) for v, w in zip(a.symbols, b.symbols, strict=True))
            and all(self._declare_buffer(p.buffer, q.buffer) for p, q in zip(a.params, b.params, strict=True))
            and self._constants(a, b)
            and self.statements(a.body, b.body)
        )

    def _constants(self, a: Function, b: Function) -> bool:
        if len(a.constants) != len(b.constants):
            return False
        pairs = zip(a.constants.items(), b.constants.items(), strict=True)
        return all(
            self._declare_buffer(p, q) and x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()
            for (p, x), (q, y) in pairs
        )

    def statements(self, a: Stmt, b: Stmt) -> bool:
        left, right = _flat(a), _flat(b)
        if len(left) != len(right):
            return False
        return all(self._statement(x, y) for x, y in zip(left, right, strict=True))

    def _statement(self, a: Stmt, b: Stmt) -> bool:
        while type(a) is type(b) and isinstance(a, nodes.Let | nodes.Alloc):  # chains of these may be long
            if not self._same_fields(a, b, skip="body"):
                return False
            a, b = substatements(a)[0], substatements(b)[0]
        if isinstance(a, nodes.Seq) or isinstance(b, nodes.Seq):
            return self.statements(a, b)
        return type(a) is type(b) and self._same_fields(a, b)

    def _same_fields(self, a: Stmt, b: Stmt, skip: str = "") -> bool:
        names = [name for name in field_names(type(a)) if name not in ("span", skip)]
        return all(self._same_field(a, name, getattr(a, name), getattr(b, name)) for name in names)

    def _same_field(self, stmt: Stmt, name: str, a: Any, b: Any) -> bool:
        if name == "var":
            return self._declare(a, b)
        if name == "buffer" and isinstance(stmt, nodes.Alloc):
            return self._declare_buffer(a, b)
        return _same_attrs(a, b) if name in ("attrs", "pragmas") else self._same(a, b)

    def _same(self, a: Any, b: Any) -> bool:
        match a, b:
            case Expr(), Expr():
                return traverse.structural_equal(a, b, self._variables, self._buffers)
            case Stmt(), Stmt():
                return self.statements(a, b)
            case Buffer(), Buffer():
                return self._buffers.get(a, a) is b
            case Axis(), Axis():
                return a.kind == b.kind and self._same(a.extent, b.extent) and self._declare(a.var, b.var)
            case tuple(), tuple():
                return len(a) == len(b) and all(map(self._same, a, b))  # pyright: ignore[reportUnknownArgumentType]
            case _:
                return type(a) is type(b) and bool(a == b)

    def _all_same(self, a: Sequence[Any], b: Sequence[Any]) -> bool:
        return len(a) == len(b) and all(self._same(x, y) for x, y in zip(a, b, strict=True))

    def _declare(self, a: Var, b: Var) -> bool:
        self._variables[a] = b
        return a.dtype == b.dtype and a.lanes == b.lanes

    def _declare_buffer(self, a: Buffer, b: Buffer) -> bool:
        self._buffers[a] = b
        return (
            (a.dtype, a.alignment, a.scope) == (b.dtype, b.alignment, b.scope)
            and self._all_same(a.shape, b.shape)
            and self._same(a.strides, b.strides)
            and self._same_layout(a.layout, b.layout)
        )

    def _same_layout(self, a: Layout | None, b: Layout | None) -> bool:
        if a is None or b is None:
            return a is b
        if a.space != b.space or len(a.variables) != len(b.variables):
            return False
        declared = all(self._declare(v, w) for v, w in zip(a.variables, b.variables, strict=True))
        return declared and self._all_same(a.targets, b.targets) and self._all_same(a.physical_shape, b.physical_shape)


def _same_attrs(a: Mapping[str, Attr], b: Mapping[str, Attr]) -> bool:
    return {k: (type(v), v) for k, v in a.items()} == {k: (type(v), v) for k, v in b.items()}


def _flat(stmt: Stmt) -> list[Stmt]:
    if not isinstance(stmt, nodes.Seq):
        return [stmt]
    return [inner for child in stmt.stmts for inner in _flat(child)]
