"""Python's operators on expressions.

Kept apart from the nodes so that the node file stays a table. The builders register themselves here, since operators
need the builders, builders need the nodes and nodes need the operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from lpx.errors import DefinitionError
from lpx.source import capture

if TYPE_CHECKING:
    from lpx.expr.nodes import Expr

Builder = Callable[[str, object, object], "Expr"]

_builders: dict[str, Builder] = {}


def register_builder(kind: str, builder: Builder) -> None:
    """Set what the operators of `kind` ("binary", "compare", "unary", "divide") build."""
    _builders[kind] = builder


class Operators:
    """Arithmetic, comparison and bit operators. `//` and `%` floor, `/` is for floats, `==` builds a comparison."""

    __slots__ = ()

    def __add__(self, other: object) -> Expr:
        return _builders["binary"]("add", self, other)

    def __radd__(self, other: object) -> Expr:
        return _builders["binary"]("add", other, self)

    def __sub__(self, other: object) -> Expr:
        return _builders["binary"]("sub", self, other)

    def __rsub__(self, other: object) -> Expr:
        return _builders["binary"]("sub", other, self)

    def __mul__(self, other: object) -> Expr:
        return _builders["binary"]("mul", self, other)

    def __rmul__(self, other: object) -> Expr:
        return _builders["binary"]("mul", other, self)

    def __truediv__(self, other: object) -> Expr:
        return _builders["binary"]("div", self, other)

    def __rtruediv__(self, other: object) -> Expr:
        return _builders["binary"]("div", other, self)

    def __floordiv__(self, other: object) -> Expr:
        return _builders["binary"]("floordiv", self, other)

    def __rfloordiv__(self, other: object) -> Expr:
        return _builders["binary"]("floordiv", other, self)

    def __mod__(self, other: object) -> Expr:
        return _builders["binary"]("floormod", self, other)

    def __rmod__(self, other: object) -> Expr:
        return _builders["binary"]("floormod", other, self)

    def __and__(self, other: object) -> Expr:
        return _builders["binary"]("bitand", self, other)

    def __rand__(self, other: object) -> Expr:
        return _builders["binary"]("bitand", other, self)

    def __or__(self, other: object) -> Expr:
        return _builders["binary"]("bitor", self, other)

    def __ror__(self, other: object) -> Expr:
        return _builders["binary"]("bitor", other, self)

    def __xor__(self, other: object) -> Expr:
        return _builders["binary"]("bitxor", self, other)

    def __rxor__(self, other: object) -> Expr:
        return _builders["binary"]("bitxor", other, self)

    def __lshift__(self, other: object) -> Expr:
        return _builders["binary"]("shl", self, other)

    def __rlshift__(self, other: object) -> Expr:
        return _builders["binary"]("shl", other, self)

    def __rshift__(self, other: object) -> Expr:
        return _builders["binary"]("shr", self, other)

    def __rrshift__(self, other: object) -> Expr:
        return _builders["binary"]("shr", other, self)

    def __neg__(self) -> Expr:
        return _builders["unary"]("neg", self, None)

    def __invert__(self) -> Expr:
        return _builders["unary"]("not", self, None)

    def __lt__(self, other: object) -> Expr:
        return _builders["compare"]("lt", self, other)

    def __le__(self, other: object) -> Expr:
        return _builders["compare"]("le", self, other)

    def __gt__(self, other: object) -> Expr:
        return _builders["compare"]("lt", other, self)

    def __ge__(self, other: object) -> Expr:
        return _builders["compare"]("le", other, self)

    # `Any`, since the data model wants a bool here; `a is b` asks whether two nodes are the same.
    def __eq__(self, other: object) -> Any:
        return _builders["compare"]("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return _builders["compare"]("ne", self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise DefinitionError(
            "an expression has no truth value before the kernel runs",
            hint="use te.where(cond, a, b) instead of `if`, and & | ~ instead of `and` `or` `not`",
            span=capture(),
        )
