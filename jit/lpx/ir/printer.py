"""The text of functions, statements and expressions; `lpx.ir.parser` reads it back.

Names are unique per text: `i`, `i_1`. `let` and `alloc` reach to the end of the braces they stand in. `$0 = ...` names
a shared node of the construct that follows it, and is no statement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx import dtypes
from lpx.expr.buffer import Buffer, Layout
from lpx.expr.nodes import Axis, Const, Expr
from lpx.expr.text import register_printer
from lpx.ir import nodes
from lpx.ir.expression_text import MARK_BEGIN, MARK_END, ExpressionWriter
from lpx.ir.names import Names, quote, quoted_unless_name
from lpx.ir.nodes import Attr, Function, Module, Stmt
from lpx.ir.traverse import expressions

_KIND_TEXT = {"serial": "", "parallel": " parallel", "vectorized": " vectorize", "unrolled": " unroll"}


def print_expr(expr: Expr) -> str:
    """One expression; the last line, below the definitions of its shared nodes."""
    writer = ExpressionWriter(Names())
    return "\n".join([*writer.begin((expr,)), writer.text(expr)])


def print_stmt(stmt: Stmt) -> str:
    """One statement. Variables and buffers that it does not declare appear by name only."""
    printer = _Printer()
    printer.statement(stmt)
    return printer.finish()


def print_function(function: Function) -> str:
    """A whole function."""
    printer = _Printer()
    printer.function(function)
    return printer.finish()


def print_module(module: Module) -> str:
    """The functions of a module, each with names of its own."""
    head = f"module entry {quoted_unless_name(module.entry)}"
    return "\n\n".join([head, *(print_function(f) for f in module.functions.values())])


def render_with_mark(
    function: Function, node: Stmt | Expr | None, context: int | None = None, within: Stmt | None = None
) -> str:
    """The text of `function` with carets under `node`; all of it, or `context` lines around the first caret.

    An expression shared by several statements is marked in each, or only in statement `within`.
    """
    printer = _Printer(node, within)
    printer.function(function)
    return _underline(printer.finish().splitlines(), context)


def constant_digest(array: NDArray[np.generic]) -> str:
    """What stands for the values of a constant: 16 hexadecimal digits of a hash of its elements."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def layout_exprs(layout: Layout | None) -> tuple[Expr, ...]:
    """The expressions a layout holds."""
    return () if layout is None else (*layout.targets, *layout.physical_shape)


def type_exprs(buffer: Buffer) -> tuple[Expr, ...]:
    """The expressions in the type of a buffer: shape, strides, layout."""
    return (*buffer.shape, *(buffer.strides or ()), *layout_exprs(buffer.layout))


class _Printer:
    def __init__(self, mark: Stmt | Expr | None = None, within: Stmt | None = None) -> None:
        self._names = Names()
        self._writer = ExpressionWriter(self._names)
        self._mark = mark
        self._within = within
        self._lines: list[str] = []
        self._depth = 0

    def finish(self) -> str:
        return "\n".join(self._lines)

    def _emit(self, text: str) -> None:
        self._lines.append("  " * self._depth + text)

    def _begin(self, roots: Sequence[Expr]) -> None:
        for line in self._writer.begin(roots):
            self._emit(line)

    def function(self, function: Function) -> None:
        buffers = [p.buffer for p in function.params]
        self._begin([e for b in buffers for e in type_exprs(b)])
        params = ", ".join(
            f"{self._names.of(p.buffer)}: {p.role} {self._writer.buffer_type(p.buffer)}" for p in function.params
        )
        symbols = ", ".join(self._writer.declare(v, dtypes.index) for v in function.symbols)
        self._emit(
            f"func {quoted_unless_name(function.name)}({params})"
            + (f" symbols({symbols})" if symbols else "")
            + _attrs_text("attrs", function.attrs)
            + " {"
        )
        self._depth += 1
        for buffer, array in function.constants.items():
            self._begin(type_exprs(buffer))
            self._emit(
                f"const {self._names.of(buffer)}: {self._writer.buffer_type(buffer)} = {quote(constant_digest(array))}"
            )
        self._contents(function.body)
        self._depth -= 1
        self._emit("}")

    def statement(self, stmt: Stmt, last: bool = True) -> None:
        """`last`: whether nothing follows in the same braces, so that `let` and `alloc` need none of their own."""
        if isinstance(stmt, nodes.Let | nodes.Alloc) and not last:
            self._emit("{")
            self._body(stmt)
            self._emit("}")
            return
        while isinstance(stmt, nodes.Let | nodes.Alloc):
            self._line(stmt)
            if isinstance(stmt.body, nodes.Seq):
                self._contents(stmt.body)
                return
            stmt = stmt.body
        if isinstance(stmt, nodes.Seq):
            self._contents(stmt)
            return
        self._line(stmt)
        nested = _NESTED.get(type(stmt))
        if nested is not None:
            nested(self, stmt)
            self._emit("}")

    def _line(self, stmt: Stmt) -> None:
        self._writer.mark = self._mark if self._within is None or self._within is stmt else None
        self._begin(_roots(stmt))
        text = _HEADS[type(stmt)](self, stmt)
        marked = f"{MARK_BEGIN}{text}{MARK_END}" if stmt is self._mark else text
        self._emit(marked + (" {" if type(stmt) in _NESTED else ""))

    def _contents(self, stmt: Stmt) -> None:
        stmts = list(_flat(stmt))
        if not stmts:
            self._emit("pass")
        for position, child in enumerate(stmts):
            self.statement(child, position == len(stmts) - 1)

    def _body(self, stmt: Stmt) -> None:
        self._depth += 1
        self._contents(stmt)
        self._depth -= 1

    def loop(self, stmt: nodes.For) -> str:
        variable = self._writer.declare(stmt.var, stmt.start.dtype)
        extent = self._writer.text(stmt.extent)
        if isinstance(stmt.start, Const) and stmt.start.value == 0 and stmt.start.dtype == stmt.extent.dtype:
            span = f"0..{extent}"
        else:
            span = f"{self._writer.text(stmt.start)}..+{extent}"
        kind = f" bind({stmt.thread})" if stmt.kind == "bound" else _KIND_TEXT[stmt.kind]
        stages = "" if stmt.stages is None else f" stages({', '.join(f'{s}:{o}' for s, o in stmt.stages)})"
        return f"for {variable} in {span}{kind}{stages}{_attrs_text('pragma', stmt.pragmas)}"

    def let(self, stmt: nodes.Let) -> str:
        variable = self._writer.declare(stmt.var, stmt.value.dtype, stmt.value.lanes)
        return f"let {variable} = {self._writer.text(stmt.value)}"

    def block(self, stmt: nodes.Block) -> str:
        bindings = (*map(self._writer.text, stmt.bindings), *["?"] * len(stmt.axes))  # malformed blocks are shown too
        axes = ", ".join(self._axis(a, b) for a, b in zip(stmt.axes, bindings, strict=False))
        where = "" if stmt.predicate is None else f" where {self._writer.text(stmt.predicate)}"
        return f"block {quoted_unless_name(stmt.name)}({axes}){where}{_attrs_text('attrs', stmt.attrs)}"

    def _axis(self, axis: Axis, binding: str) -> str:
        variable = self._writer.declare(axis.var, axis.extent.dtype)
        typed = "" if ":" in variable else ":"
        return f"{variable}{typed} {axis.kind} {self._writer.text(axis.extent)} = {binding}"

    def block_body(self, stmt: nodes.Block) -> None:
        if stmt.init is not None:
            self._depth += 1
            self._emit("init {")
            self._body(stmt.init)
            self._emit("}")
            self._depth -= 1
        self._body(stmt.body)

    def if_body(self, stmt: nodes.If) -> None:
        self._body(stmt.then)
        if stmt.orelse is not None:
            self._emit("} else {")
            self._body(stmt.orelse)

    def loop_body(self, stmt: nodes.For | nodes.While | nodes.ParallelRegion) -> None:
        self._body(stmt.body)

    def store(self, stmt: nodes.Store) -> str:
        return f"{self._writer.access(stmt.buffer, stmt.indices, stmt.mask)} = {self._writer.text(stmt.value)}"

    def atomic(self, stmt: nodes.AtomicUpdate) -> str:
        return f"atomic {stmt.op} {self._writer.access(stmt.buffer, stmt.indices)}, {self._writer.text(stmt.value)}"

    def alloc(self, stmt: nodes.Alloc) -> str:
        return f"alloc {self._names.of(stmt.buffer)}: {self._writer.buffer_type(stmt.buffer)}"

    def copy(self, stmt: nodes.AsyncCopy) -> str:
        target = self._writer.access(stmt.target, stmt.target_indices)
        return f"async_copy {target}, {self._writer.access(stmt.source, stmt.source_indices)}, {stmt.count}"

    def call(self, stmt: nodes.CallFunction) -> str:
        buffers = ", ".join(self._names.of(b) for b in stmt.buffers)
        return f"call {quoted_unless_name(stmt.function)}([{buffers}], [{self._writer.listed(stmt.extents)}])"

    def region(self, stmt: nodes.ParallelRegion) -> str:
        del stmt
        return "region"

    def branch(self, stmt: nodes.If) -> str:
        return f"if {self._writer.text(stmt.cond)}"

    def while_loop(self, stmt: nodes.While) -> str:
        return f"while {self._writer.text(stmt.cond)}"

    def barrier(self, stmt: nodes.Barrier) -> str:
        return f"barrier {stmt.scope}"

    def commit(self, stmt: nodes.AsyncCommit) -> str:
        del stmt
        return "async_commit"

    def wait(self, stmt: nodes.AsyncWait) -> str:
        return f"async_wait {stmt.pending}"

    def evaluate(self, stmt: nodes.Evaluate) -> str:
        return f"evaluate {self._writer.text(stmt.value)}"

    def check(self, stmt: nodes.Check) -> str:
        return f"check {self._writer.text(stmt.cond)}, {quote(stmt.message)}"


# One row per statement: what its first line says, and for those with braces, what stands inside.
_HEADS: dict[type[Stmt], Callable[[_Printer, Any], str]] = {
    nodes.For: _Printer.loop,
    nodes.ParallelRegion: _Printer.region,
    nodes.If: _Printer.branch,
    nodes.While: _Printer.while_loop,
    nodes.Let: _Printer.let,
    nodes.Block: _Printer.block,
    nodes.Store: _Printer.store,
    nodes.AtomicUpdate: _Printer.atomic,
    nodes.Alloc: _Printer.alloc,
    nodes.Barrier: _Printer.barrier,
    nodes.AsyncCopy: _Printer.copy,
    nodes.AsyncCommit: _Printer.commit,
    nodes.AsyncWait: _Printer.wait,
    nodes.Evaluate: _Printer.evaluate,
    nodes.CallFunction: _Printer.call,
    nodes.Check: _Printer.check,
}
_NESTED: dict[type[Stmt], Callable[[_Printer, Any], None]] = {
    nodes.For: _Printer.loop_body,
    nodes.ParallelRegion: _Printer.loop_body,
    nodes.While: _Printer.loop_body,
    nodes.If: _Printer.if_body,
    nodes.Block: _Printer.block_body,
}


def _flat(stmt: Stmt) -> list[Stmt]:
    if not isinstance(stmt, nodes.Seq):
        return [stmt]
    return [inner for child in stmt.stmts for inner in _flat(child)]


def _roots(stmt: Stmt) -> tuple[Expr, ...]:
    match stmt:
        case nodes.Block(axes=axes):
            return (*(a.extent for a in axes), *expressions(stmt))
        case nodes.Alloc(buffer=buffer):
            return type_exprs(buffer)
        case _:
            return expressions(stmt)


def _attrs_text(keyword: str, attrs: Mapping[str, Attr]) -> str:
    if not attrs:
        return ""
    return f" {keyword}({', '.join(f'{k}={_attr_text(v)}' for k, v in attrs.items())})"


def _attr_text(value: Attr) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return quote(value) if isinstance(value, str) else repr(value)


def _underline(lines: Sequence[str], context: int | None) -> str:
    out: list[str] = []
    first: int | None = None
    for line in lines:
        text, carets = _split_marks(line)
        out.append(text)
        if carets:
            first = len(out) if first is None else first
            out.append(carets)
    if context is None or first is None:
        return "\n".join(out)
    low, high = max(first - 1 - context, 0), first + 1 + context
    return "\n".join([*(["..."] if low else []), *out[low:high], *(["..."] if high < len(out) else [])])


def _split_marks(line: str) -> tuple[str, str]:
    """A line without its marks, and the line of carets to put under it."""
    text, carets, depth = "", "", 0
    for character in line:
        if character in (MARK_BEGIN, MARK_END):
            depth += 1 if character == MARK_BEGIN else -1
            continue
        text += character
        carets += "^" if depth else " "
    return text, carets.rstrip()


def _show(node: object) -> str:
    match node:
        case Expr():
            return print_expr(node)
        case Function():
            return print_function(node)
        case Module():
            return print_module(node)
        case Stmt():
            return print_stmt(node)
        case _:
            return _show_part(node)


def _show_part(node: object) -> str:
    names = Names()
    writer = ExpressionWriter(names)
    match node:
        case Buffer():
            lines = writer.begin(type_exprs(node))
            return "\n".join([*lines, f"{names.of(node)}: {writer.buffer_type(node)}"])
        case nodes.Param(buffer=buffer, role=role):
            lines = writer.begin(type_exprs(buffer))
            return "\n".join([*lines, f"{names.of(buffer)}: {role} {writer.buffer_type(buffer)}"])
        case Axis(var=var, extent=extent, kind=kind):
            lines = writer.begin((extent,))
            return "\n".join([*lines, f"{names.of(var)}: {kind} {writer.text(extent)}"])
        case Layout():
            lines = writer.begin(layout_exprs(node))
            return "\n".join([*lines, writer.layout(node)])
        case _:
            return object.__repr__(node)


register_printer(_show)
