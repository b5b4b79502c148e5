"""Reductions: reduce axes, reducers over one or several values, and the named ones.

A reduction is the whole value of a tensor (or of each tensor of a tuple): it accumulates in the tensor itself. The
order of combination is that of the axes, the last fastest, until a schedule says otherwise.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast, overload

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import DefinitionError, DTypeError
from lpx.expr import build, traverse
from lpx.expr.nodes import Expr, Load, Var
from lpx.records import record, replace
from lpx.source import Span, capture
from lpx.te.functions import Scalar
from lpx.te.shapes import parse_dtype, parse_extent
from lpx.te.signatures import Positional
from lpx.te.tensor import AxisVar

Combine = Callable[[Any, Any], Any]
"""From the accumulated value and the next one (tuples of them, for a reducer of several) to the new accumulated one."""

Identity = Positional[object, DType]
"""From the dtypes of the values to what combining leaves any value unchanged by: numbers or expressions."""


@record(eq=False, repr=False)
class Reduce(Expr):
    """Component `position` of a reduction of `values` over `axes`; `start` holds the accumulators' first values.

    The components of one reduction hold the same values and axes. A `Reduce` stands only at the root of a definition.
    """

    reducer: Reducer
    values: tuple[Expr, ...]
    start: tuple[Expr, ...]
    axes: tuple[AxisVar, ...]
    position: int
    span: Span | None


@record(eq=False)
class Reducer:
    """An associative combination with its identity, over one value or a tuple of values."""

    name: str
    combine: Combine
    identity: Identity

    @overload
    def __call__(self, values: Scalar, axis: object, init: object = None) -> Expr: ...
    @overload
    def __call__(self, values: Sequence[Scalar], axis: object, init: object = None) -> tuple[Expr, ...]: ...
    def __call__(self, values: Scalar | Sequence[Scalar], axis: object, init: object = None) -> Expr | tuple[Expr, ...]:
        """The reduction of `values` over `axis` (one reduce axis or several).

        One value gives one expression, a tuple gives the tuple of the components' expressions, to be returned from the
        definition as they are. `init` starts the accumulators in place of the identity; it may read other elements.

        Raises: DefinitionError, DTypeError when values, axes, init or the combination do not fit together.
        """
        span = capture()
        several = isinstance(values, tuple | list)
        operands = tuple(build.as_expr(value) for value in (values if isinstance(values, tuple | list) else (values,)))
        axes = _parse_axes(axis, self.name, span)
        start = self._parse_start(operands, init, span)
        components = tuple(
            Reduce(operand.dtype, 1, self, operands, start, axes, position, span)
            for position, operand in enumerate(operands)
        )
        self._check_combination(operands, span)
        return components if several else components[0]

    def combined(self, left: Sequence[Expr], right: Sequence[Expr], span: Span | None) -> tuple[Expr, ...]:
        """The combination of accumulated values `left` with values `right`.

        Raises: DefinitionError, DTypeError when `combine` does not give one value of the same dtype per component.
        """
        single = len(left) == 1
        made = self.combine(left[0], right[0]) if single else self.combine(tuple(left), tuple(right))
        results = self._components(made, len(left), "combination", span)
        exprs = tuple(build.as_expr(r, a.dtype) for r, a in zip(results, left, strict=True))
        for position, (expr, operand) in enumerate(zip(exprs, left, strict=True)):
            if expr.dtype != operand.dtype:
                raise DTypeError(
                    f"reducer {self.name} combines {operand.dtype} into {expr.dtype} in component {position}",
                    hint="cast within the combination, or cast the value that is reduced",
                    span=span,
                )
        return exprs

    def _check_combination(self, operands: tuple[Expr, ...], span: Span | None) -> None:
        left = [build.var("accumulated", operand.dtype) for operand in operands]
        right = [build.var("next", operand.dtype) for operand in operands]
        for made in self.combined(left, right, span):
            for node in traverse.walk(made):
                if isinstance(node, Load) or (isinstance(node, Var) and node not in {*left, *right}):
                    raise DefinitionError(
                        f"the combination of reducer {self.name} uses more than its two operands",
                        hint="put what else it needs into the values that are reduced",
                        span=span,
                    )

    def _parse_start(self, operands: tuple[Expr, ...], init: object, span: Span | None) -> tuple[Expr, ...]:
        if init is None:
            identity = cast("Callable[..., object]", self.identity)
            init = identity(*(operand.dtype for operand in operands))
        starts = self._components(init, len(operands), "identity or init", span)
        exprs = tuple(build.as_expr(s, o.dtype) for s, o in zip(starts, operands, strict=True))
        for expr, operand in zip(exprs, operands, strict=True):
            if expr.dtype != operand.dtype:
                raise DTypeError(
                    f"{self.name} over {operand.dtype} starts from a value of dtype {expr.dtype}",
                    hint=f'write init=te.cast(..., "{operand.dtype}")',
                    span=span,
                )
        return exprs

    def _components(self, made: object, count: int, what: str, span: Span | None) -> tuple[object, ...]:
        results = tuple(cast("Sequence[object]", made)) if isinstance(made, tuple | list) else (made,)
        if len(results) != count:
            raise DefinitionError(
                f"the {what} of reducer {self.name} has {len(results)} component(s) for {count} value(s)", span=span
            )
        return results


def reduce_axis(extent: object, name: str = "r") -> AxisVar:
    """An axis to reduce over, from 0 to `extent`, to be used as an index within one reduction's values."""
    span = capture()
    return AxisVar(dtypes.index, 1, name, parse_extent(extent, f"reduce axis {name}", span), "reduce")


def reducer(combine: Combine, identity: Identity | Scalar | tuple[Scalar, ...], name: str = "reducer") -> Reducer:
    """A reducer from `combine(accumulated, value)`, which must be associative.

    For several values at once, `combine` gets two tuples and returns one. `identity` is the value (tuple of values)
    that changes nothing, or a function of the values' dtypes that gives it. Example, a sum and a sum of squares:

        moments = te.reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), (0.0, 0.0), name="moments")
        S, Q = te.compute((m,), lambda i: moments((A[i, r], A[i, r] * A[i, r]), axis=r))
    """
    if not callable(identity):
        constant = identity
        return Reducer(name, combine, _always(constant))
    return Reducer(name, combine, identity)


def _always(value: object) -> Identity:
    def identity(*_: DType) -> object:
        return value

    return identity


def _lowest(dtype: DType) -> float:
    if not dtype.is_float:
        return dtype.min_value
    return -448.0 if dtype == dtypes.float8_e4m3fn else -math.inf  # float8_e4m3fn has no infinity


def _highest(dtype: DType) -> float:
    return -_lowest(dtype) if dtype.is_float else dtype.max_value


_SUM = reducer(operator.add, 0, "sum")
_PROD = reducer(operator.mul, 1, "prod")
_MAX = reducer(build.maximum, _lowest, "max")
_MIN = reducer(build.minimum, _highest, "min")
_ANY = reducer(partial(build.binary, "bitor"), False, "any")
_ALL = reducer(partial(build.binary, "bitand"), True, "all")


def sum(value: Scalar, axis: object, init: Scalar | None = None) -> Expr:
    """The sum over `axis`, in the dtype of `value` (cast it first to accumulate wider); 0 over no elements."""
    return _SUM(value, axis, init)


def prod(value: Scalar, axis: object, init: Scalar | None = None) -> Expr:
    """The product over `axis`, in the dtype of `value`; 1 over no elements."""
    return _PROD(value, axis, init)


def max(value: Scalar, axis: object, init: Scalar | None = None) -> Expr:
    """The maximum over `axis`, NaN when any is NaN; the lowest value (-inf for floats) over no elements."""
    return _MAX(value, axis, init)


def min(value: Scalar, axis: object, init: Scalar | None = None) -> Expr:
    """The minimum over `axis`, NaN when any is NaN; the highest value (inf for floats) over no elements."""
    return _MIN(value, axis, init)


def any(value: Scalar, axis: object, init: Scalar | None = None) -> Expr:
    """Whether any bool over `axis` is true; false over no elements."""
    return _ANY(_bool(value, "any"), axis, init)


def all(value: Scalar, axis: object, init: Scalar | None = None) -> Expr:
    """Whether all bools over `axis` are true; true over no elements."""
    return _ALL(_bool(value, "all"), axis, init)


def argmax(value: Scalar, axis: object, dtype: object = dtypes.index) -> tuple[Expr, Expr]:
    """The position of the maximum over `axis` and the maximum itself.

    Return the pair for two tensors, or its first alone. A NaN is the maximum; of equals the first counts. Over several
    axes the position is row-major in the order given. Over no elements it is the highest integer of `dtype`.
    """
    return _arg_extreme(_ARGMAX, value, axis, dtype)


def argmin(value: Scalar, axis: object, dtype: object = dtypes.index) -> tuple[Expr, Expr]:
    """The position of the minimum over `axis` and the minimum itself; as `argmax` otherwise."""
    return _arg_extreme(_ARGMIN, value, axis, dtype)


def _first_of(beats: Callable[[Expr, Expr], Expr], reaches: Callable[[Expr, Expr], Expr]) -> Combine:
    """Of two (position, value), the one whose value beats the other's; NaN beats numbers, then the position decides.

    This is a total order, so any order of combination gives the same. Of two values that differ, `reaches` says what
    `beats` does; it holds for equal ones as well.
    """

    def combine(a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        (a_position, a_value), (b_position, b_value) = a, b
        wins, keeps_up = beats(a_value, b_value), reaches(a_value, b_value)
        if a_value.dtype.is_float:
            a_nan = build.call("isnan", a_value)
            wins, keeps_up = wins | (a_nan & ~build.call("isnan", b_value)), keeps_up | a_nan
        keep = wins | (keeps_up & (a_position < b_position))
        return build.select(keep, a_position, b_position), build.select(keep, a_value, b_value)

    return combine


def _identity_of_argmax(position: DType, value: DType) -> tuple[int, float]:
    return position.max_value, _lowest(value)


def _identity_of_argmin(position: DType, value: DType) -> tuple[int, float]:
    return position.max_value, _highest(value)


_ARGMAX = Reducer("argmax", _first_of(operator.gt, operator.ge), _identity_of_argmax)
_ARGMIN = Reducer("argmin", _first_of(operator.lt, operator.le), _identity_of_argmin)


def _arg_extreme(extreme: Reducer, value: Scalar, axis: object, dtype: object) -> tuple[Expr, Expr]:
    span = capture()
    index_dtype = parse_dtype(dtype)
    if not index_dtype.is_integer:
        raise DTypeError(f"{extreme.name} gives positions as integers, not {index_dtype}", span=span)
    axes = _parse_axes(axis, extreme.name, span)
    position = build.cast(_row_major(axes), index_dtype)
    first, extremum = extreme((position, build.as_expr(value)), axes)
    return first, extremum


def _row_major(axes: Sequence[AxisVar]) -> Expr:
    position: Expr = axes[0]
    for axis in axes[1:]:
        position = position * axis.extent + axis
    return position


def _bool(value: Scalar, name: str) -> Expr:
    expr = build.as_expr(value)
    if not expr.dtype.is_bool:
        raise DTypeError(f"{name} takes bools, not {expr.dtype}", hint="compare first: x != 0", span=capture())
    return expr


def _parse_axes(axis: object, name: str, span: Span | None) -> tuple[AxisVar, ...]:
    given = tuple(cast("Sequence[object]", axis)) if isinstance(axis, tuple | list) else (axis,)
    axes = tuple(a for a in given if isinstance(a, AxisVar) and a.kind == "reduce")
    if len(axes) != len(given) or not axes:
        raise DefinitionError(
            f"the axis of {name} is {axis}", hint="give a te.reduce_axis(extent), or a tuple of them", span=span
        )
    if len(dict.fromkeys(axes)) != len(axes):
        raise DefinitionError(f"{name} reduces twice over one axis", hint="make one te.reduce_axis for each", span=span)
    return axes


def _reduce_children(expr: Expr) -> tuple[Expr, ...]:
    reduce = cast("Reduce", expr)
    return reduce.values + reduce.start


def _reduce_rebuild(expr: Expr, new: Sequence[Expr]) -> Expr:
    reduce = cast("Reduce", expr)
    count = len(reduce.values)
    return replace(reduce, values=tuple(new[:count]), start=tuple(new[count:]))


traverse.register_node(Reduce, _reduce_children, _reduce_rebuild)
