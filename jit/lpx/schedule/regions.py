"""Which elements of a dimension a nest of loops touches, and loops that run over them.

A region is described per dimension as a strip: `count` indices from `low` in steps of `step`. For indices that are
affine in the loops a strip is as tight as a strip can be; beyond, it may be too large but never too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Axis, Expr, Var
from lpx.ir.nodes import Block, For, Stmt
from lpx.records import record, replace
from lpx.schedule import queries, rewriting
from lpx.schedule.linear import ZERO, Linear, linear


@record(eq=False)
class Strip:
    """The indices low, low + step, ..., `count` of them. `is_exact`: each of them is touched."""

    low: Expr
    count: Expr
    step: int
    is_exact: bool

    @property
    def high(self) -> Expr:
        """The last index."""
        return self.low + (self.count - 1) * self.step


def strip_of(analyzer: Analyzer, index: Expr, inner: Sequence[For]) -> Strip | None:
    """The indices that `index` takes while the loops `inner` run and all others stand still; None where unknown.

    Example: i + 5*j while j runs over 0..3 is i, i + 5, i + 10. Vectors are unknown, and so are indices from memory:
    loops over what they take would read that memory also where a tail or a condition keeps the access itself from it.
    """
    if index.lanes > 1 or rewriting.mentions_memory(index):
        return None
    variables = [f.var for f in inner]
    bounds = analyzer.symbolic_bounds(index, variables)
    if bounds is None:
        return None
    low, high = bounds
    form = linear(analyzer, index, variables)
    step = _step(form)
    count = analyzer.simplify((high - low) // step + 1)
    return Strip(analyzer.simplify(low), count, step, _is_dense(analyzer, form, {f.var: f for f in inner}, step))


def _step(form: Linear | None) -> int:
    """The greatest common divisor of all distances between indices; 1 where coefficients are not constant."""
    if form is None or not form.terms:
        return 1
    coefficients = [queries.constant_value(t.coefficient) for t in form.terms]
    known = [k for k in coefficients if k is not None]
    return gcd(*known) if len(known) == len(coefficients) and any(known) else 1


def _is_dense(analyzer: Analyzer, form: Linear | None, inner: dict[Var, For], step: int) -> bool:
    """Whether no index is left out: each term steps at most one further than the smaller ones reach together."""
    if form is None:
        return False
    pending = [(inner[t.atom], t.coefficient) for t in form.terms if isinstance(t.atom, Var)]
    if len(pending) != len(form.terms):
        return False
    reach: Expr = ZERO
    while pending:
        for position, (loop, coefficient) in enumerate(pending):
            magnitude = coefficient if analyzer.prove(coefficient > 0) else -coefficient
            if analyzer.prove(magnitude > 0) and analyzer.prove(magnitude <= reach + step):
                reach = analyzer.simplify(reach + magnitude * (loop.extent - 1))
                del pending[position]
                break
        else:
            return False
    return True


def union(analyzer: Analyzer, first: Strip, second: Strip) -> Strip:
    """The smallest strip that holds both, as far as their ends can be compared."""
    shift = queries.constant_value(analyzer.simplify(second.low - first.low))
    step = gcd(first.step, second.step, shift) if shift is not None else 1
    if shift == 0 and first.step == second.step and analyzer.equal(first.count, second.count):
        return replace(first, is_exact=first.is_exact or second.is_exact)
    low = _smaller(analyzer, first.low, second.low)
    high = -_smaller(analyzer, -first.high, -second.high)
    return Strip(low, analyzer.simplify((high - low) // step + 1), step, is_exact=False)


def _smaller(analyzer: Analyzer, a: Expr, b: Expr) -> Expr:
    if analyzer.prove(a <= b):
        return a
    return b if analyzer.prove(b <= a) else build.minimum(a, b)


@record(eq=False)
class AxisRange:
    """The values a new loop gives an axis, and the conditions that keep it in its domain."""

    strip: Strip
    check_low: bool
    check_high: bool


def whole(axis: Axis) -> AxisRange:
    """All values of an axis."""
    return AxisRange(Strip(ZERO, axis.extent, 1, is_exact=True), check_low=False, check_high=False)


def is_whole(analyzer: Analyzer, axis: Axis, strip: Strip) -> bool:
    """Whether a strip certainly is the domain of an axis."""
    return strip.step == 1 and queries.constant_value(strip.low) == 0 and analyzer.equal(strip.count, axis.extent)


def lies_within(analyzer: Analyzer, strip: Strip, home: Strip) -> bool:
    """Whether every index of a strip is certainly between the ends of another of step 1."""
    return home.step == 1 and analyzer.prove(strip.low >= home.low) and analyzer.prove(strip.high <= home.high)


def clip(analyzer: Analyzer, strip: Strip, axis: Axis) -> AxisRange:
    """The values of a strip that are in the domain of an axis, and no others."""
    inside_low = analyzer.prove(strip.low >= 0)
    inside_high = analyzer.prove(strip.high < axis.extent)
    covers = analyzer.prove(strip.low <= 0) and analyzer.prove(strip.high >= axis.extent - 1)
    if strip.step == 1 and covers:
        return whole(axis)
    return AxisRange(strip, not inside_low, not inside_high)


def at_least(analyzer: Analyzer, strip: Strip, axis: Axis) -> AxisRange:
    """What `clip` gives, or all values where a strip has as many: for blocks that may run more often than is needed."""
    if strip.step == 1 and analyzer.prove(strip.count >= axis.extent):
        return whole(axis)
    return clip(analyzer, strip, axis)


def nest(block: Block, ranges: dict[Var, AxisRange], kept: dict[Var, Expr]) -> Stmt:
    """Fresh loops around `block`: an axis in `ranges` runs over its range, one in `kept` has that value.

    Spatial axes stand outside, in the block's order, then the reduce axes. An axis of one value gets no loop.
    """
    values = dict(kept)
    loops: list[For] = []
    conditions: list[Expr] = []
    for axis in sorted(block.axes, key=lambda a: a.kind == "reduce"):
        if axis.var in kept:
            continue
        wanted = ranges[axis.var]
        strip = wanted.strip
        value = strip.low
        if queries.constant_value(strip.count) != 1:
            var = build.var(loop_name(axis))
            loops.append(For(var, ZERO, strip.count, block))
            value = _offset(strip, var)
        values[axis.var] = value
        if wanted.check_low:
            conditions.append(value >= 0)
        if wanted.check_high:
            conditions.append(value < axis.extent)
    conditions += _steps_in_range(block, kept)
    bindings = tuple(values[a.var] for a in block.axes)
    result: Stmt = replace(block, bindings=bindings, predicate=rewriting.conjunction(conditions))
    for loop in reversed(loops):
        result = replace(loop, body=result)
    return result


def _steps_in_range(block: Block, kept: dict[Var, Expr]) -> list[Expr]:
    """What the predicate of a block says of axes that keep their values: the tail of a loop over steps is guarded."""
    guarded: frozenset[Var] = frozenset() if block.predicate is None else expr_traverse.free_vars(block.predicate)
    axes = [a for a in block.axes if a.var in kept and expr_traverse.free_vars(kept[a.var]) & guarded]
    return [kept[a.var] < a.extent for a in axes]


def _offset(strip: Strip, var: Var) -> Expr:
    scaled = var if strip.step == 1 else var * strip.step
    return scaled if queries.constant_value(strip.low) == 0 else strip.low + scaled


def loop_name(axis: Axis) -> str:
    """The name of a loop over an axis: that of the axis without its `v`."""
    name = axis.var.name
    return name[1:] if name.startswith("v") and len(name) > 1 else name


def unit_axis(analyzer: Analyzer, block: Block, index: Expr) -> tuple[Axis, Expr] | None:
    """The axis and offset of an index `axis + offset` over a block's axes, None for an index of another form."""
    form = linear(analyzer, index, [a.var for a in block.axes])
    if form is None or len(form.terms) != 1 or queries.constant_value(form.terms[0].coefficient) != 1:
        return None
    axis = next((a for a in block.axes if a.var is form.terms[0].atom), None)
    return None if axis is None else (axis, form.rest)
