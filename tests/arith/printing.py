"""Expressions as short text, for golden comparisons in these tests (the IR printer is a layer above)."""

from __future__ import annotations

from lpx.expr import nodes
from lpx.expr.nodes import Expr

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "floormod": "%", "lt": "<", "le": "<=",
    "eq": "==", "ne": "!=", "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip


def text(e: Expr) -> str:
    """`e` with every operation in parentheses, without the outermost pair."""
    shown = _text(e)
    return shown[1:-1] if shown.startswith("(") else shown


def _text(e: Expr) -> str:
    match e:
        case nodes.Const(value=value):
            return str(value)
        case nodes.Var(name=name):
            return name
        case nodes.Binary(op=op, a=a, b=b) | nodes.Compare(op=op, a=a, b=b):
            return f"({_text(a)} {_SIGNS[op]} {_text(b)})" if op in _SIGNS else f"{op}({text(a)}, {text(b)})"
        case nodes.Unary(op=op, a=a):
            return f"{'-' if op == 'neg' else '~'}{_text(a)}"
        case nodes.Select(cond=cond, a=a, b=b):
            return f"select({text(cond)}, {text(a)}, {text(b)})"
        case nodes.Cast(dtype=dtype, value=value):
            return f"{dtype}({text(value)})"
        case nodes.Ramp(base=base, stride=stride, lanes=lanes):
            return f"ramp({text(base)}, {text(stride)}, {lanes})"
        case nodes.Broadcast(value=value, lanes=lanes):
            return f"broadcast({text(value)}, {lanes})"
        case nodes.Load(buffer=buffer, indices=indices):
            return f"{buffer.name}[{', '.join(text(i) for i in indices)}]"
        case _:
            return type(e).__name__
