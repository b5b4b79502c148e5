"""Operations that `Call` applies: mathematical functions and single hardware operations.

Each operation is one row: its name, its arity, the dtypes it takes and gives. How a mathematical function is computed
is in `lpx.expr.vecmath`; how an operation is emitted is in `lpx.codegen`; what it means is its interpretation in
`lpx.ir.interpreter`.
"""

from __future__ import annotations

from typing import Literal

from lpx.records import record

OpKind = Literal["math", "primitive", "hardware", "extern", "foreign"]
Domain = Literal["float", "number", "integer", "bool", "any"]


@record
class Op:
    """One operation.

    `math` functions are expanded into arithmetic before code generation, `primitive` ones are a single correctly
    rounded instruction or a short bit trick on every target, `hardware` ones exist on some targets only, `extern` ones
    are calls of a named function, `foreign` ones functions of scalars that another compiler made (`lpx.expr.foreign`).
    `result` is "same" (the dtype of the first operand), "bool", or a dtype name.
    """

    name: str
    arity: int
    kind: OpKind
    domain: Domain = "float"
    result: str = "same"


def _table(kind: OpKind, domain: Domain, arity: int, names: str, result: str = "same") -> dict[str, Op]:
    return {name: Op(name, arity, kind, domain, result) for name in names.split()}


PRIMITIVE: dict[str, Op] = {
    **_table("primitive", "float", 1, "sqrt floor ceil trunc rint"),  # rint: to nearest, ties to even
    **_table("primitive", "number", 1, "abs"),
    **_table("primitive", "float", 2, "copysign"),
    **_table("primitive", "float", 3, "fma"),  # a * b + c, rounded once
    **_table("primitive", "float", 1, "isnan isinf isfinite signbit", result="bool"),
    **_table("primitive", "integer", 1, "popcount clz ctz"),
    **_table("primitive", "integer", 2, "mulhi"),  # the upper half of the double-width product
    **_table("primitive", "bool", 1, "unlikely"),  # its operand, said to be false nearly always
}
"""`abs` of the most negative integer wraps to itself. `clz`/`ctz` of 0 give the width."""

MATH: dict[str, Op] = {
    **_table(
        "math",
        "float",
        1,
        "exp exp2 expm1 log log2 log10 log1p tanh sigmoid erf erfc rsqrt cbrt sin cos tan asin acos atan "
        "sinh cosh asinh acosh atanh",
    ),
    **_table("math", "float", 2, "pow atan2 hypot fmod nextafter"),
}

ALL: dict[str, Op] = {**PRIMITIVE, **MATH}
