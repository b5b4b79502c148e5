"""Shapes as users write them: numbers, symbols, and expressions over symbols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np

from lpx import dtypes
from lpx.arith.analyzer import Analyzer
from lpx.dtypes import DType
from lpx.errors import DTypeError, ShapeError
from lpx.expr import build, traverse
from lpx.expr.nodes import Binary, Cast, Const, Expr, Select, Unary, Var
from lpx.source import Span, capture
from lpx.te.tensor import AxisVar, Tensor

_SHAPE_NODES = (Binary, Cast, Const, Select, Unary, Var)


def parse_shape(shape: object, what: str, span: Span | None) -> tuple[Expr, ...]:
    """The extents `shape` means: a sequence of dimensions, or one dimension alone for rank 1.

    Raises: ShapeError, DTypeError when an entry is no extent.
    """
    if isinstance(shape, Expr) or _is_number(shape):
        return (parse_extent(shape, what, span),)
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise ShapeError(
            f"the shape of {what} is {shape!r}", hint="give a tuple of extents, such as (n, 64)", span=span
        )
    return tuple(parse_extent(entry, what, span) for entry in cast("Sequence[object]", shape))


def parse_extent(extent: object, what: str, span: Span | None) -> Expr:
    """One extent: a number of at least 0, or an index expression over symbols.

    Raises: ShapeError, DTypeError when it is something else.
    """
    if isinstance(extent, Expr):
        return _parse_symbolic(extent, what, span)
    if isinstance(extent, bool) or not _is_number(extent):
        raise ShapeError(
            f"an extent of {what} is {extent!r}", hint="an extent is an integer or an expression over te.var", span=span
        )
    number = int(cast("int", extent))
    if number < 0:
        raise ShapeError(f"an extent of {what} is {number}", hint="an extent is at least 0", span=span)
    return build.const(number)


def parse_dtype(dtype: object) -> DType:
    """The element type `dtype` means.

    Raises: DTypeError when there is no such type.
    """
    try:
        return dtypes.parse(dtype)
    except DTypeError as error:
        raise DTypeError(error.message, hint=error.hint, span=capture()) from None


def symbols_of(exprs: Sequence[Expr]) -> list[Var]:
    """The symbols the expressions mention, each once, in order of first mention."""
    nodes = (node for expr in exprs for node in traverse.walk(expr))
    return list(dict.fromkeys(n for n in nodes if isinstance(n, Var) and not isinstance(n, AxisVar)))


def knowledge(axes: Iterable[AxisVar], exprs: Iterable[Expr] = ()) -> Analyzer:
    """What is known of the axes, and of the symbols in their extents and in `exprs`."""
    axes = list(axes)
    analyzer = Analyzer()
    for symbol in symbols_of([*(axis.extent for axis in axes), *exprs]):
        analyzer = analyzer.with_fact(build.compare("le", 0, symbol))
    for axis in axes:
        analyzer = analyzer.with_range(axis, 0, axis.extent)
    return analyzer


def same_shape(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether two shapes are proved to be equal."""
    analyzer = knowledge((), (*a, *b))
    return len(a) == len(b) and all(analyzer.equal(x, y) for x, y in zip(a, b, strict=True))


def _is_number(value: object) -> bool:
    return isinstance(value, int | np.integer)


def _parse_symbolic(extent: Expr, what: str, span: Span | None) -> Expr:
    if extent.dtype != dtypes.index:
        raise DTypeError(
            f"an extent of {what} has dtype {extent.dtype}",
            hint="an extent is int64: arithmetic over te.var and integers",
            span=span,
        )
    for node in traverse.walk(extent):
        if isinstance(node, AxisVar):
            raise ShapeError(
                f"an extent of {what} depends on the axis {node.name}",
                hint="use the full extent and te.where(cond, value, 0) for the part that counts",
                span=span,
            )
        if not isinstance(node, _SHAPE_NODES):
            raise ShapeError(
                f"an extent of {what} is computed from data or by {type(node).__name__.lower()}",
                hint="an extent is arithmetic over te.var and integers",
                span=span,
            )
    return extent


def tensor_argument(value: object, what: str, span: Span | None) -> Tensor:
    """`value` as a tensor.

    Raises: DTypeError when it is something else.
    """
    if not isinstance(value, Tensor):
        raise DTypeError(
            f"{what} is {value!r}, not a tensor", hint="pass what te.placeholder or te.compute gave", span=span
        )
    return value
