"""Rewriting rules as data: a pattern, a replacement and a side condition, written as expressions.

`x y z` stand for any operand of the domain, `u v` for floats, `p q r` for bools, `c1 c2` and `f1 f2` for constants;
literals match themselves. Operands of commutative operations match in either order. A vector operand that is a
broadcast constant counts as that constant. In a replacement, operations on constants are folded in the dtype of what
matched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import InternalError
from lpx.expr import build
from lpx.expr.nodes import Const, Expr, Var
from lpx.records import record

Domain = Literal["integer", "float", "bool", "any"]

x, y, z = build.var("x"), build.var("y"), build.var("z")
u, v = build.var("u", dtypes.float32), build.var("v", dtypes.float32)
p, q, r = build.var("p", dtypes.bool_), build.var("q", dtypes.bool_), build.var("r", dtypes.bool_)
c1, c2 = build.var("c1"), build.var("c2")
f1, f2 = build.var("f1", dtypes.float32), build.var("f2", dtypes.float32)
ZERO, TRUE, FALSE = build.const(0), build.const(True), build.const(False)
CONSTANTS = frozenset((c1, c2, f1, f2))


@record
class Match:
    """What the variables of a pattern stand for, and the dtype of the operands of the node that matched."""

    dtype: DType
    bindings: Mapping[Var, Expr]

    def value(self, constant: Var) -> int | float:
        """The value of one of the constants of the pattern."""
        bound = self.bindings[constant]
        if not isinstance(bound, Const):
            raise InternalError(f"{constant.name} of a rule is not a constant")
        return bound.value


Condition = Callable[[Match], bool]


def always(_: Match) -> bool:
    """The side condition of a rule that needs none."""
    return True


@record
class Rule:
    """`pattern` may be replaced by `replacement` where `when` holds of what matched."""

    pattern: Expr
    replacement: Expr
    when: Condition = field(default=always)


@record
class Family:
    """Rules for nodes whose operands (for `Select`: sides) are of one domain."""

    domain: Domain
    rules: tuple[Rule, ...]
