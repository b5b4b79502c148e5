"""Types of the functions users hand in, spelled out by number of parameters so that type checkers know a lambda's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lpx.expr.nodes import Expr
from lpx.te.tensor import Tensor

P = TypeVar("P")
R = TypeVar("R")

Positional = (
    Callable[[], R]
    | Callable[[P], R]
    | Callable[[P, P], R]
    | Callable[[P, P, P], R]
    | Callable[[P, P, P, P], R]
    | Callable[[P, P, P, P, P], R]
    | Callable[[P, P, P, P, P, P], R]
    | Callable[[P, P, P, P, P, P, P], R]
    | Callable[[P, P, P, P, P, P, P, P], R]
)
"""`Positional[R, P]`: a function of any number of P (as `*p: P`, or up to eight one by one) that gives R."""

Step = (
    Callable[[Expr, Tensor], R]
    | Callable[[Expr, Tensor, Tensor], R]
    | Callable[[Expr, Tensor, Tensor, Tensor], R]
    | Callable[[Expr, Tensor, Tensor, Tensor, Tensor], R]
    | Callable[[Expr, Tensor, Tensor, Tensor, Tensor, Tensor], R]
    | Callable[[Expr, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], R]
)
"""`Step[R]`: a function of a time and the states that gives R."""
