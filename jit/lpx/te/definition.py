"""Definitions by a function over axes: `te.placeholder`, `te.var`, `te.compute`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import cast, overload

import numpy as np
from numpy.typing import NDArray

from lpx import dtypes
from lpx.errors import DefinitionError, DTypeError
from lpx.expr import build, traverse
from lpx.expr.nodes import AxisKind, Expr, Var
from lpx.records import record, replace
from lpx.source import Span, capture
from lpx.te.bounds import IndexCheck, check_indices
from lpx.te.functions import Scalar
from lpx.te.reduction import Reduce
from lpx.te.shapes import parse_dtype, parse_shape
from lpx.te.signatures import Positional
from lpx.te.tensor import AxisVar, Operation, Tensor, element_hint, open_frames, plain

Body = Callable[..., object]
"""The function of a definition: from one variable per axis to the element there, or a tuple of elements."""


@record(eq=False, kw_only=True)
class Placeholder(Operation):
    """A tensor the caller passes; with `inout`, one that `te.update` may write."""

    inout: bool = False


@record(eq=False, kw_only=True)
class Constant(Operation):
    """A tensor whose elements are known when it is defined."""

    array: NDArray[np.generic]


@record(eq=False, kw_only=True)
class Compute(Operation):
    """Element-wise definitions, or reductions, of all outputs over the same axes.

    `values` has one expression per output. With `reduce_axes` each is a `Reduce` over them. Reads are plain loads, and
    `checks` must hold wherever the values are computed, `start_checks` wherever the reduction starts.
    """

    axes: tuple[AxisVar, ...]
    reduce_axes: tuple[AxisVar, ...]
    values: tuple[Expr, ...]
    checks: tuple[IndexCheck, ...]
    start_checks: tuple[IndexCheck, ...]


def var(name: str) -> Var:
    """A symbol: an extent, at least 0, that is known when the kernel is called."""
    return build.var(name)


def placeholder(shape: object, dtype: object = "float32", name: str = "A", *, inout: bool = False) -> Tensor:
    """A tensor that the caller passes. `te.update` may write it only where `inout`.

    Raises: ShapeError, DTypeError on a shape or dtype that is none.
    """
    span = capture()
    tensor = Tensor(name, parse_dtype(dtype), parse_shape(shape, name, span))
    tensor.define(Placeholder(outputs=(tensor,), inout=inout, span=span))
    return tensor


def constant(array: object, name: str = "constant") -> Tensor:
    """A tensor with the elements of an array, which is copied."""
    span = capture()
    elements: NDArray[np.generic] = np.array(array)
    elements.flags.writeable = False
    tensor = Tensor(name, parse_dtype(elements.dtype), tuple(build.const(extent) for extent in elements.shape))
    tensor.define(Constant(outputs=(tensor,), array=elements, span=span))
    return tensor


@overload
def compute(shape: object, body: Positional[Scalar, Expr], name: str | Sequence[str] = "T") -> Tensor: ...
@overload
def compute(
    shape: object, body: Positional[Sequence[Scalar], Expr], name: str | Sequence[str] = "T"
) -> tuple[Tensor, ...]: ...
def compute(shape: object, body: Body, name: str | Sequence[str] = "T") -> Tensor | tuple[Tensor, ...]:
    """Tensors of `shape` whose elements `body` gives, called once with a variable per axis.

    A body that returns a tuple defines several tensors at once, returned as a tuple and named by `name` (a sequence of
    names, or one to be numbered). A reduction (`te.sum` and so on) must be the whole of what it returns, or of each
    entry of its tuple, then all over the same axes.

    Raises: DefinitionError, ShapeError, DTypeError, IndexRangeError (an index that can leave its tensor).
    """
    span = capture()
    label = name if isinstance(name, str) else name[0]
    extents = parse_shape(shape, label, span)
    traced = trace(body, extents, label, span)
    names = output_names(name, traced.count, span)
    checks, start_checks = index_checks(traced, span)
    outputs = tuple(
        Tensor(names[k] if k < len(names) else f"{label}_{k}", value.dtype, extents)
        for k, value in enumerate(traced.values)
    )
    op = Compute(
        outputs=outputs,
        scope=open_frames.get(),
        span=span,
        axes=traced.axes,
        reduce_axes=traced.reduce_axes,
        values=traced.values,
        checks=checks,
        start_checks=start_checks,
    )
    for tensor in outputs:
        tensor.define(op)
    return outputs[: traced.count] if traced.is_tuple else outputs[0]


@record
class Traced:
    """What a body said: its values made plain. Of these, the first `count` are those the body returned; the others are
    further components that a reduction needs.
    """

    axes: tuple[AxisVar, ...]
    reduce_axes: tuple[AxisVar, ...]
    values: tuple[Expr, ...]
    count: int
    is_tuple: bool
    spans: dict[Expr, Span | None] = field(default_factory=dict[Expr, "Span | None"])


def trace(body: Body, extents: Sequence[Expr], label: str, span: Span | None, *, kind: AxisKind = "spatial") -> Traced:
    """Call `body` on fresh axes and check what it returns, but for the ranges of indices."""
    needs = f"the body of {label} takes one variable per dimension ({len(extents)})"
    names = parameter_names(body, len(extents), needs, span)
    axes = tuple(AxisVar(dtypes.index, 1, name, extent, kind) for name, extent in zip(names, extents, strict=True))
    returned = body(*axes)
    is_tuple = isinstance(returned, tuple | list)
    entries = tuple(cast("Sequence[object]", returned)) if is_tuple else (returned,)
    if not entries:
        raise DefinitionError(f"the body of {label} returns nothing", hint="return one element or more", span=span)
    spans: dict[Expr, Span | None] = {}
    memo: dict[Expr, Expr] = {}
    values = tuple(plain(_element(entry, label, span), spans, memo) for entry in entries)
    reduce_axes = _check_reductions(values, label, span)
    _check_variables(values, axes, label, span)
    return Traced(axes, reduce_axes, _complete(values), len(values), is_tuple, spans)


def index_checks(
    traced: Traced, span: Span | None, places: Sequence[Expr] = ()
) -> tuple[tuple[IndexCheck, ...], tuple[IndexCheck, ...]]:
    """The run-time checks of what is computed and of what a reduction starts from; `places` are accessed in both.

    Raises: IndexRangeError when an index cannot be proved to stay within its tensor.
    """
    reductions = [value for value in traced.values if isinstance(value, Reduce)]
    if not reductions:
        return check_indices((*traced.values, *places), traced.axes, traced.spans, span), ()
    values = list(dict.fromkeys(value for reduction in reductions for value in reduction.values))
    starts = list(dict.fromkeys(start for reduction in reductions for start in reduction.start))
    axes = (*traced.axes, *traced.reduce_axes)
    return (
        check_indices((*values, *places), axes, traced.spans, span),
        # A reduction over no elements starts too, so nothing is known of its axes.
        check_indices((*starts, *places), traced.axes, traced.spans, span),
    )


def parameter_names(function: Body, count: int, needs: str, span: Span | None) -> list[str]:
    """The names of the parameters of `function`, which must take `count` positional arguments, as `needs` says."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise DefinitionError(f"{needs}, not {function!r}", hint="give a function", span=span) from None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names = [p.name for p in positional[:count]]
    if variadic:
        names += [f"{variadic[0]}{k}" for k in range(count - len(names))]
    if len(names) < count or len(required) > count:
        takes = ", ".join(p.name for p in parameters) or "nothing"
        raise DefinitionError(
            f"{needs}, but it takes ({takes})", hint=f"it is called with {count} argument(s)", span=span
        )
    return names


def output_names(name: str | Sequence[str], count: int, span: Span | None) -> list[str]:
    """A name for each of `count` tensors."""
    if isinstance(name, str):
        return [name] if count == 1 else [f"{name}_{k}" for k in range(count)]
    if len(name) != count:
        raise DefinitionError(f"{len(name)} name(s) for {count} tensor(s)", span=span)
    return list(name)


def _element(entry: object, label: str, span: Span | None) -> Expr:
    if isinstance(entry, Tensor):
        raise DefinitionError(
            f"the body of {label} returns the whole tensor {entry.name}",
            hint=f"return one element, such as {entry.name}[{element_hint(entry)}]",
            span=span,
        )
    if isinstance(entry, Expr | bool | int | float | np.generic):
        return build.as_expr(cast("object", entry))
    raise DefinitionError(f"the body of {label} returns {entry!r}", hint="return an expression or a number", span=span)


def _check_reductions(values: Sequence[Expr], label: str, span: Span | None) -> tuple[AxisVar, ...]:
    for value in values:
        parts = traverse.children(value) if isinstance(value, Reduce) else (value,)
        for part in parts:
            _check_no_reduction(part, label)
    reductions = [value for value in values if isinstance(value, Reduce)]
    if not reductions:
        return ()
    axes = reductions[0].axes
    if len(reductions) != len(values) or any(not _same(r.axes, axes) for r in reductions):
        raise DefinitionError(
            f"the tensors of {label} are not all reduced over the same axes",
            hint="define them by separate te.compute calls",
            span=span,
        )
    return axes


def _check_no_reduction(part: Expr, label: str) -> None:
    for node in traverse.walk(part):
        if isinstance(node, Reduce):
            raise DefinitionError(
                f"{node.reducer.name} is only part of the value of {label}",
                hint=f"a reduction is the whole value: put it in a te.compute of its own and read that in {label}"
                " (a sum that starts from a value takes init=)",
                span=node.span,
            )


def _check_variables(values: Sequence[Expr], axes: Sequence[AxisVar], label: str, span: Span | None) -> None:
    around = {*axes, *(frame.time for frame in open_frames.get())}
    for value in values:
        if not isinstance(value, Reduce):
            _check_known(value, around, label, span)
            continue
        for operand in value.values:
            _check_known(operand, around.union(value.axes), label, span)
        for start in value.start:
            _check_known(start, around, label, span)


def _check_known(expr: Expr, known: set[AxisVar], label: str, span: Span | None) -> None:
    for node in traverse.walk(expr):
        if isinstance(node, AxisVar) and node not in known:
            raise DefinitionError(
                f"{label} uses {_KINDS[node.kind]} {node.name} where it has no value",
                hint="use the variables the body is called with, and a reduce axis only in what is reduced over it",
                span=span,
            )
        if isinstance(node, Var) and node.dtype != dtypes.index:
            raise DTypeError(
                f"{label} uses the {node.dtype} variable {node.name}", hint="a symbol is int64: te.var", span=span
            )


_KINDS = {"spatial": "the axis", "reduce": "the reduce axis", "sequential": "the time"}


def _complete(values: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """`values` and, after them, the components their reductions need beside those that were returned."""
    found: list[Expr] = list(values)
    for value in values:
        if not isinstance(value, Reduce):
            continue
        for position in range(len(value.values)):
            if not any(is_component(other, value, position) for other in found):
                found.append(replace(value, dtype=value.values[position].dtype, position=position))
    return tuple(found)


def is_component(expr: Expr, of: Reduce, position: int) -> bool:
    """Whether `expr` is component `position` of the same reduction as `of`."""
    return (
        isinstance(expr, Reduce)
        and expr.position == position
        and expr.reducer is of.reducer
        and _same(expr.values, of.values)
        and _same(expr.start, of.start)
    )


def _same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
