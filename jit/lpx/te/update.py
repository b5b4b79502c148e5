"""In-place updates: `te.update` writes elements of a tensor that exists."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.arith.affine import AffineForm
from lpx.errors import DefinitionError, DTypeError
from lpx.expr import build, traverse
from lpx.expr.nodes import Const, Expr, Load
from lpx.records import record
from lpx.source import Span, capture
from lpx.te.definition import Compute, Constant, Placeholder, Traced, index_checks, trace
from lpx.te.functions import Scalar
from lpx.te.reduction import Reduce
from lpx.te.shapes import knowledge, parse_shape, tensor_argument
from lpx.te.signatures import Positional
from lpx.te.tensor import AxisVar, Tensor, check_open, open_frames, plain


@record(eq=False, kw_only=True)
class Update(Compute):
    """Writes `values[0]` to the elements `indices` of `target`; the output is `target` as it is afterwards."""

    target: Tensor
    indices: tuple[Expr, ...]


def update(
    target: Tensor,
    body: Positional[Scalar, Expr],
    shape: object = None,
    at: Positional[Scalar | Sequence[Scalar], Expr] | None = None,
    *,
    ordered: bool = False,
    name: str | None = None,
) -> Tensor:
    """`target` with elements overwritten, in its own memory: the result takes the place of `target`.

    For each index of `shape` (default: that of `target`) the element `at(*index)` (default: the index itself) becomes
    `body(*index)`; the others stay. Everything that reads `target` itself runs before. `body` may read of `target` the
    element it writes. Different indices must write different elements. With `ordered` both limits fall: the indices
    run one after another in row-major order, and each sees what the ones before it wrote (a scatter, a recurrence).

    `target` is a computed tensor, a state of a scan, or a placeholder with `inout=True`, whose array is then written.

        cache = te.placeholder((n, d), name="cache", inout=True)
        longer = te.update(cache, lambda i, j: new[i, j], shape=(k, d), at=lambda i, j: (te.clip(p + i, 0, n - 1), j))

    Raises: DefinitionError, ShapeError, DTypeError, IndexRangeError.
    """
    span = capture()
    target = _parse_target(target, span)
    label = f"{target.name}_updated" if name is None else name
    extents = target.buffer.shape if shape is None else parse_shape(shape, label, span)
    traced = trace(body, extents, label, span, kind="sequential" if ordered else "spatial")
    value = _parse_value(traced, target, label, span)
    place = plain(target[traced.axes if at is None else at(*traced.axes)], traced.spans, {})
    indices = traverse.children(place)
    if isinstance(value, Reduce) and any(_reads(node, target) for index in indices for node in traverse.walk(index)):
        raise DefinitionError(
            f"where {label} accumulates depends on {target.name} itself, which changes meanwhile",
            hint="take the index from a copy",
            span=span,
        )
    if not ordered:
        _check_independent(value, indices, traced.axes, target, span)
    checks, start_checks = index_checks(traced, span, (place,))
    tensor = Tensor(label, target.dtype, target.buffer.shape)
    tensor.define(
        Update(
            outputs=(tensor,),
            scope=open_frames.get(),
            span=span,
            axes=traced.axes,
            reduce_axes=traced.reduce_axes,
            values=(value,),
            target=target,
            checks=checks,
            start_checks=start_checks,
            indices=indices,
        )
    )
    return tensor


def version_root(tensor: Tensor) -> Tensor:
    """The tensor in whose memory a chain of updates started."""
    while isinstance(tensor.op, Update):
        tensor = tensor.op.target
    return tensor


def _parse_target(value: object, span: Span | None) -> Tensor:
    target = tensor_argument(value, "the target of te.update", span)
    check_open(target, span)
    op = target.op
    if isinstance(op, Constant) or (isinstance(op, Placeholder) and not op.inout):
        raise DefinitionError(
            f"{target.name} is read-only",
            hint="declare it by te.placeholder(..., inout=True), or update a copy of it",
            span=span,
        )
    if op.scope != open_frames.get():
        raise DefinitionError(
            f"the step of a scan updates {target.name}, which is defined outside of it",
            hint=f"make {target.name} a state of the scan, and update the state",
            span=span,
        )
    return target


def _parse_value(traced: Traced, target: Tensor, label: str, span: Span | None) -> Expr:
    if traced.is_tuple or len(traced.values) != 1:
        raise DefinitionError(
            f"{label} writes one tensor, but its body gives {len(traced.values)} values",
            hint="compute them first, and update with each",
            span=span,
        )
    (value,) = traced.values
    if value.dtype != target.dtype:
        raise DTypeError(
            f"{label} writes {value.dtype} into {target.name}, which holds {target.dtype}",
            hint=f'te.cast(..., "{target.dtype}")',
            span=span,
        )
    return value


def _check_independent(
    value: Expr, indices: Sequence[Expr], axes: Sequence[AxisVar], target: Tensor, span: Span | None
) -> None:
    if not _is_injective(indices, axes):
        raise DefinitionError(
            f"different indices of the update may write one element of {target.name}",
            hint="ordered=True runs them one after another, so that the last one counts",
            span=span,
        )
    inside = [node for expr in (value, *indices) for node in traverse.walk(expr)]
    if any(_reads(node, target) and not _same_place(traverse.children(node), indices) for node in inside):
        raise DefinitionError(
            f"the update of {target.name} reads elements of it that other indices write",
            hint="ordered=True lets each index see what the ones before it wrote; or read from a copy",
            span=span,
        )
    if isinstance(value, Reduce) and any(_reads(node, target) for part in value.values for node in traverse.walk(part)):
        raise DefinitionError(
            f"the reduction that updates {target.name} reads it while it accumulates in it",
            hint="read it in init= only, or from a copy",
            span=span,
        )


def _reads(node: Expr, target: Tensor) -> bool:
    return isinstance(node, Load) and node.buffer is target.buffer


def _same_place(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return all(traverse.structural_equal(x, y) for x, y in zip(a, b, strict=True))


def _is_injective(indices: Sequence[Expr], axes: Sequence[AxisVar]) -> bool:
    """Whether different axis values provably give different indices.

    Example: (i, 4 * j + k) for k below 4. Each index gives away the axes it is affine in, when their coefficients reach
    further than all smaller ones together, and when it depends on no other axis but those given away before.
    """
    analyzer = knowledge(axes)
    forms = [analyzer.affine(index) for index in indices]
    known = {axis for axis in axes if analyzer.equal(axis.extent, build.const(1))}
    while told := {axis for form in forms if form is not None for axis in _told_by(form, set(axes) - known)}:
        known |= told
    return known.issuperset(axes)


def _told_by(form: AffineForm, unknown: set[AxisVar]) -> list[AxisVar]:
    linear: list[tuple[int, AxisVar]] = []
    for term in form.terms:
        if unknown.isdisjoint(v for atom in term.atoms for v in traverse.free_vars(atom)):
            continue
        if len(term.atoms) != 1 or not isinstance(term.atoms[0], AxisVar):
            return []
        linear.append((abs(term.coefficient), term.atoms[0]))
    reach: int | None = 0
    for coefficient, axis in sorted(linear, key=lambda entry: entry[0]):
        if reach is None or coefficient <= reach:
            return []
        extent = axis.extent.value if isinstance(axis.extent, Const) else None
        reach = None if extent is None else reach + coefficient * (int(extent) - 1)
    return [axis for _, axis in linear]
