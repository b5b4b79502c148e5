"""Expressions as text.

A DAG must not become an exponential text: a node used more than once, unless it is small, is given a name `$0`, `$1`
and so on in a line of its own before the construct that uses it, and so is a node so deep that the text would nest too
far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lpx import dtypes
from lpx.dtypes import DType
from lpx.expr import build, nodes, ops, traverse
from lpx.expr.buffer import DEFAULT_ALIGNMENT, Buffer, Layout
from lpx.expr.nodes import Expr
from lpx.ir.names import FLOAT_SUFFIX, INTEGER_SUFFIX, Names, quote
from lpx.records import record

COMPARE, ATOM, UNARY = 1, 9, 8
BINARY_SIGNS: dict[str, tuple[str, int]] = {
    "bitor": ("|", 2),
    "bitxor": ("^", 3),
    "bitand": ("&", 4),
    "shl": ("<<", 5),
    "shr": (">>", 5),
    "add": ("+", 6),
    "sub": ("-", 6),
    "mul": ("*", 7),
    "div": ("/", 7),
    "floordiv": ("//", 7),
    "floormod": ("%", 7),
}
"""Binary operations written between their operands: sign and precedence, all left-associative. The others are written
as functions. Comparisons bind weakest (`COMPARE`) and do not chain."""
COMPARE_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}
UNARY_SIGNS = {"neg": "-", "not": "~"}

_INLINE_SIZE = 3  # nodes; a shared `i + 1` or `A[i, j]` reads better repeated than named
_MAX_HEIGHT = 24  # nesting of one text; the parser takes more than twice as much
MARK_BEGIN, MARK_END = "\x01", "\x02"


@record
class _Text:
    """A text and how tightly its outermost operator binds."""

    text: str
    precedence: int = ATOM

    def inside(self, precedence: int) -> str:
        return self.text if self.precedence >= precedence else f"({self.text})"


class ExpressionWriter:
    """Writes the expressions of one construct after another. Call `begin` with all expressions of a construct first."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.mark: object = None  # the node to put between marks
        self._texts: dict[Expr, _Text] = {}

    def begin(self, roots: Sequence[Expr]) -> list[str]:
        """Get ready to write `roots`; gives the lines that define their shared nodes."""
        self._texts = {}
        order = _postorder(roots)
        named = _choose_named(order, roots)
        lines: list[str] = []
        for expr in order:
            text = self._node(expr)
            if expr is self.mark:
                text = _Text(f"{MARK_BEGIN}{text.text}{MARK_END}", text.precedence)
            if expr in named:
                lines.append(f"${len(lines)} = {text.text}")
                text = _Text(f"${len(lines) - 1}")
            self._texts[expr] = text
        return lines

    def text(self, expr: Expr, precedence: int = 0) -> str:
        """The text of an expression below a root given to `begin`."""
        return self._texts[expr].inside(precedence)

    def listed(self, exprs: Sequence[Expr]) -> str:
        """Expressions with commas between them."""
        return ", ".join(self.text(e) for e in exprs)

    def access(self, buffer: Buffer, indices: Sequence[Expr], mask: Expr | None = None) -> str:
        """`A[i, j]` or `A[i, j, mask=m]`."""
        parts = [self.text(i) for i in indices]
        if mask is not None:
            parts.append(f"mask={self.text(mask)}")
        return f"{self._names.of(buffer)}[{', '.join(parts)}]"

    def buffer_type(self, buffer: Buffer) -> str:
        """`float32[m, n] scope(shared)`: what a buffer is, but for its name. Defaults are left out."""
        parts = [f"{buffer.dtype}[{self.listed(buffer.shape)}]"]
        if buffer.strides is not None:
            parts.append(f"strides({self.listed(buffer.strides)})")
        if buffer.alignment != DEFAULT_ALIGNMENT:
            parts.append(f"align({buffer.alignment})")
        if buffer.scope != "global":
            parts.append(f"scope({buffer.scope})")
        if buffer.layout is not None:
            parts.append(self.layout(buffer.layout))
        return " ".join(parts)

    def layout(self, layout: Layout) -> str:
        variables = ", ".join(self.declare(v, dtypes.index) for v in layout.variables)
        space = "" if layout.space == "memory" else f" {layout.space}"
        return (
            f"layout(({variables}) -> ({self.listed(layout.targets)}) in [{self.listed(layout.physical_shape)}]{space})"
        )

    def declare(self, variable: nodes.Var, dtype: DType, lanes: int = 1) -> str:
        """The name of a variable where it is declared, with its type unless it is `dtype` and `lanes`."""
        name = self._names.of(variable)
        if variable.dtype == dtype and variable.lanes == lanes:
            return name
        return f"{name}: {variable.dtype}" + (f"x{variable.lanes}" if variable.lanes != 1 else "")

    def _node(self, expr: Expr) -> _Text:
        write = next((_WRITERS[kind] for kind in type(expr).__mro__ if kind in _WRITERS), None)
        if write is None:  # a node of a higher layer: shown, though no text parses back to it
            return _Text(f"{type(expr).__name__}({self.listed(traverse.children(expr))})")
        return write(self, expr)

    def write_var(self, expr: nodes.Var) -> _Text:
        return _Text(self._names.of(expr))

    def write_const(self, expr: nodes.Const) -> _Text:
        text = const_text(expr.value, expr.dtype)
        return _Text(text, UNARY if text.startswith("-") else ATOM)

    def write_unary(self, expr: nodes.Unary) -> _Text:
        # -(5) is an operation, -5 a constant.
        operand = f"({self.text(expr.a)})" if isinstance(expr.a, nodes.Const) else self.text(expr.a, UNARY)
        return _Text(UNARY_SIGNS[expr.op] + operand, UNARY)

    def write_binary(self, expr: nodes.Binary) -> _Text:
        if expr.op not in BINARY_SIGNS:
            return _Text(f"{expr.op}({self.listed((expr.a, expr.b))})")
        sign, precedence = BINARY_SIGNS[expr.op]
        return _Text(f"{self.text(expr.a, precedence)} {sign} {self.text(expr.b, precedence + 1)}", precedence)

    def write_compare(self, expr: nodes.Compare) -> _Text:
        left, right = self.text(expr.a, COMPARE + 1), self.text(expr.b, COMPARE + 1)
        return _Text(f"{left} {COMPARE_SIGNS[expr.op]} {right}", COMPARE)

    def write_select(self, expr: nodes.Select) -> _Text:
        return _Text(f"select({self.listed((expr.cond, expr.a, expr.b))})")

    def write_cast(self, expr: nodes.Cast) -> _Text:
        return _Text(f"{expr.dtype}({self.text(expr.value)})")

    def write_bitcast(self, expr: nodes.Bitcast) -> _Text:
        return _Text(f"bitcast({self.text(expr.value)}, {expr.dtype})")

    def write_load(self, expr: nodes.Load) -> _Text:
        return _Text(self.access(expr.buffer, expr.indices, expr.mask))

    def write_address(self, expr: nodes.AddressOf) -> _Text:
        return _Text(f"&{self.access(expr.buffer, expr.indices)}", UNARY)

    def write_ramp(self, expr: nodes.Ramp) -> _Text:
        return _Text(f"ramp({self.listed((expr.base, expr.stride))}, {expr.lanes})")

    def write_broadcast(self, expr: nodes.Broadcast) -> _Text:
        return _Text(f"broadcast({self.text(expr.value)}, {expr.lanes})")

    def write_shuffle(self, expr: nodes.Shuffle) -> _Text:
        return _Text(f"shuffle([{self.listed(expr.vectors)}], [{', '.join(map(str, expr.indices))}])")

    def write_lookup(self, expr: nodes.Lookup) -> _Text:
        table = ", ".join(const_text(value, expr.dtype) for value in expr.table)
        return _Text(f"lookup([{table}], {self.text(expr.index)})")

    def write_reduce(self, expr: nodes.HorizontalReduce) -> _Text:
        return _Text(f"reduce({expr.op}, {self.text(expr.value)})")

    def write_call(self, expr: nodes.Call) -> _Text:
        op = expr.op
        if ops.ALL.get(op.name) == op:
            return _Text(f"{op.name}({self.listed(expr.args)})")
        return _Text(f"{op.kind}[{quote(op.name)}, {op.domain}, {op.result}, {expr.lanes}]({self.listed(expr.args)})")


_WRITERS: dict[type[Expr], Callable[[ExpressionWriter, Any], _Text]] = {
    nodes.Var: ExpressionWriter.write_var,
    nodes.Const: ExpressionWriter.write_const,
    nodes.Unary: ExpressionWriter.write_unary,
    nodes.Binary: ExpressionWriter.write_binary,
    nodes.Compare: ExpressionWriter.write_compare,
    nodes.Select: ExpressionWriter.write_select,
    nodes.Cast: ExpressionWriter.write_cast,
    nodes.Bitcast: ExpressionWriter.write_bitcast,
    nodes.Load: ExpressionWriter.write_load,
    nodes.AddressOf: ExpressionWriter.write_address,
    nodes.Ramp: ExpressionWriter.write_ramp,
    nodes.Broadcast: ExpressionWriter.write_broadcast,
    nodes.Shuffle: ExpressionWriter.write_shuffle,
    nodes.Lookup: ExpressionWriter.write_lookup,
    nodes.HorizontalReduce: ExpressionWriter.write_reduce,
    nodes.Call: ExpressionWriter.write_call,
}


def _postorder(roots: Sequence[Expr]) -> list[Expr]:
    seen: dict[Expr, None] = {}
    for root in roots:
        for expr in traverse.walk(root):
            seen.setdefault(expr)
    return list(seen)


def _choose_named(order: Sequence[Expr], roots: Sequence[Expr]) -> set[Expr]:
    uses = dict.fromkeys(order, 0)
    for root in roots:
        uses[root] += 1
    for expr in order:
        for child in traverse.children(expr):
            uses[child] += 1
    named: set[Expr] = set()
    sizes: dict[Expr, int] = {}
    heights: dict[Expr, int] = {}
    for expr in order:
        children = traverse.children(expr)
        sizes[expr] = min(1 + sum(sizes[c] for c in children), _INLINE_SIZE + 1)
        heights[expr] = 1 + max((heights[c] for c in children), default=0)
        if (uses[expr] > 1 and sizes[expr] > _INLINE_SIZE) or heights[expr] >= _MAX_HEIGHT:
            named.add(expr)
            heights[expr] = 1
    return named


def const_text(value: int | float, dtype: DType) -> str:
    """A constant with its dtype: `7` is an index, `7i32`, `0.5f32`, `inf_f32`, `true`."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_integer:
        return f"{value}{INTEGER_SUFFIX.get(dtype, '')}"
    suffix = FLOAT_SUFFIX[dtype]
    number = float(value)
    if math.isnan(number):
        return f"nan_{suffix}"
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}inf_{suffix}"
    return _shortest(number, dtype) + suffix


def _shortest(value: float, dtype: DType) -> str:
    short = repr(value)
    if dtype == dtypes.float32:
        brief = str(np.float32(value))
        if build.round_to(float(brief), dtype) == value:
            short = brief
    return short
