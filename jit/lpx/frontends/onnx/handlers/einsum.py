"""Einsum: the equation as labels per operand."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from lpx.errors import ModelError
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.registry import Call, handles

_TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


@handles("Einsum")
def einsum(ctx: Context, call: Call) -> Operand:
    """The sum of products over all labels that the result does not have."""
    terms, result = parse_equation(call.attrs.text("equation"), [x.rank for x in call.given])
    return ctx.add("einsum", *call.given, terms=tuple(terms), result=result)


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """One label per axis of each operand, and of the result. An ellipsis becomes labels that the equation does not use.

    Raises: ModelError when the equation is malformed or does not fit operands of these ranks.
    """
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks) or not all(_TERM.fullmatch(t) for t in (*terms, right)):
        raise ModelError(f"equation {equation!r} does not fit {len(ranks)} operand(s)")
    hidden = [rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True)]
    if any(h < 0 or (h and "..." not in t) for t, h in zip(terms, hidden, strict=True)):
        raise ModelError(f"equation {equation!r} does not fit operands of rank {', '.join(map(str, ranks))}")
    unused = [c for c in string.ascii_letters if c not in text]
    longest = max(hidden)
    if longest > len(unused):
        raise ModelError(f"equation {equation!r} has too many labels")
    broadcast = "".join(unused[:longest])
    full = [t.replace("...", broadcast[longest - h :]) for t, h in zip(terms, hidden, strict=True)]
    if not arrow:
        counts = "".join(terms).replace("...", "")
        right = ("..." if "..." in left else "") + "".join(sorted(c for c in set(counts) if counts.count(c) == 1))
    result = right.replace("...", broadcast)
    if len(set(result)) != len(result) or not set(result) <= set("".join(full)):
        raise ModelError(f"equation {equation!r} has a result with labels that repeat or occur nowhere")
    return full, result
