"""LLVM's fast-math flags as an attribute of functions, and a warning where they make part of one meaningless."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from lpx.errors import FastMathWarning
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Call
from lpx.ir import traverse
from lpx.ir.nodes import Function
from lpx.records import replace

_MEANINGLESS: Mapping[str, frozenset[str]] = {
    "nnan": frozenset({"isnan", "isfinite"}),
    "ninf": frozenset({"isinf", "isfinite"}),
}
"""What has no meaning where a flag says that there are no NaNs, no infinities."""


def with_flags(function: Function, fastmath: Sequence[str]) -> Function:
    """`function` with the flags; a FastMathWarning where it looks for what a flag says is never there."""
    if not fastmath:
        return function
    for flag in fastmath:
        lost = sorted(_MEANINGLESS.get(flag, frozenset()) & _called(function))
        if lost:
            warnings.warn(
                f"{function.name} uses {', '.join(lost)}, which {flag} makes meaningless: leave the flag out",
                FastMathWarning,
                stacklevel=2,
            )
    return replace(function, attrs={**function.attrs, "fastmath": ",".join(fastmath)})


def _called(function: Function) -> set[str]:
    """The names of the operations that a function calls."""
    roots = (e for stmt in traverse.walk(function.body) for e in traverse.expressions(stmt))
    return {node.op.name for root in roots for node in expr_traverse.walk(root) if isinstance(node, Call)}
