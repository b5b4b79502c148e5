"""Index maps made of splits and fusions: whether they are injective or bijective, and their inverses.

Every target is read as a number in mixed radix whose digits are digits of the variables; a digit of x is
(x // lower) % extent. A target such as (i*n + j) // 8 is a digit of i*n + j, which so becomes a source of digits
itself. The map is injective when the digits of each target do not run into each other, and the digits of each source
make it up.

The idea (iterators as marks, splits and sums) is that of `detect_iter_map` in Apache TVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from lpx.arith.analyzer import Analyzer
from lpx.arith.atoms import Division
from lpx.arith.context import Context
from lpx.arith.polynomial import Monomial, Polynomial, constant, exact_quotient
from lpx.expr import build
from lpx.expr.nodes import Expr, Var
from lpx.records import record, replace

_UNIT = constant(1)


@record
class _Digit:
    """(source // lower) % extent. `source` is the number of a variable or the key of a fused sum.

    `is_top`: the source is less than lower * extent, so the digit is source // lower.
    """

    source: object
    lower: Polynomial
    extent: Polynomial
    is_top: bool


@record
class _Sum:
    """The sum of digit * scale, lowest first; each scale is a multiple of the one before, by at least its extent."""

    digits: tuple[_Digit, ...]
    scales: tuple[Polynomial, ...]
    extent: Polynomial
    is_dense: bool
    """Whether every value in [0, extent) occurs."""


@record
class IndexMap:
    """An injective map of the box of `variables` into the box [0, extents[0]) x [0, extents[1]) x ...

    `is_onto`: it is a bijection, every place of the box being hit. Made by `read_index_map`.
    """

    variables: tuple[Var, ...]
    extents: tuple[Expr, ...]
    is_onto: bool
    analyzer: Analyzer
    targets: tuple[_Sum, ...]
    fused: Mapping[object, _Sum]

    def inverse(self, values: Sequence[Var]) -> tuple[Expr, ...]:
        """The map's variables, in order, as expressions of the targets' values (one variable per target)."""
        analyzer = self.analyzer
        for value, extent in zip(values, self.extents, strict=True):
            analyzer = analyzer.with_range(value, 0, extent)
        table = analyzer.context.table
        totals: dict[object, Expr] = {}
        for total, value in zip(self.targets, values, strict=True):
            _take_apart(total, value, totals, analyzer.context)
        for key, total in self.fused.items():
            _take_apart(total, totals[key], totals, analyzer.context)
        return tuple(analyzer.simplify(totals.get(table.plain(v), build.const(0))) for v in self.variables)


def read_index_map(targets: Sequence[Expr], extents: Mapping[Var, Expr], analyzer: Analyzer) -> IndexMap | None:
    """The map from the box of the variables in `extents` to `targets`, if it is seen to be injective.

    Exact for combinations of splits (x // c and x % c) and fusions (i*n + j), with constant or symbolic extents, also
    with remainders and gaps (x // 3 and x % 3 for x < 20; i*33 + j for j < 32); other maps give None.
    """
    for var, extent in extents.items():
        analyzer = analyzer.with_range(var, 0, extent)
    reader = _Reader(analyzer, extents)
    sums: list[_Sum] = []
    for target in targets:
        found = reader.read(analyzer.context.polynomial(target))
        if found is None:
            return None
        sums.append(found)
    sums = reader.unify(sums)
    if not reader.is_injective(sums):
        return None
    emit = analyzer.context.table.emit
    return IndexMap(
        variables=tuple(extents),
        extents=tuple(emit(total.extent) for total in sums),
        is_onto=reader.is_onto(sums),
        analyzer=analyzer,
        targets=tuple(sums),
        fused=dict(reversed(reader.fused.items())),  # a fused sum comes before those it is made of
    )


def is_injective(targets: Sequence[Expr], extents: Mapping[Var, Expr], analyzer: Analyzer) -> bool:
    """Whether no two points of the box of `extents` are seen to have the same `targets` (see `read_index_map`)."""
    return read_index_map(targets, extents, analyzer) is not None


class _Reader:
    """Reads polynomials as sums of digits, collecting the fused sums that are sources of digits."""

    def __init__(self, analyzer: Analyzer, extents: Mapping[Var, Expr]) -> None:
        self.ctx = analyzer.context
        self.numbers = frozenset(self.ctx.table.plain(v) for v in extents)
        self.extents: dict[object, Polynomial] = {
            self.ctx.table.plain(v): self.ctx.polynomial(e) for v, e in extents.items()
        }
        self.fused: dict[object, _Sum] = {}

    def read(self, p: Polynomial) -> _Sum | None:
        """`p` as a sum of digits; None when it is not one."""
        parts: list[tuple[_Digit, Polynomial]] = []
        for monomial, coefficient in p.terms.items():
            part = self._part(monomial, coefficient)
            if part is None:
                return None
            parts.append(part)
        return _arrange(self.ctx, parts)

    def unify(self, sums: list[_Sum]) -> list[_Sum]:
        """Express digits of sources that are wholly part of a fused sum as digits of that sum.

        Example: with (i*8 + j) // 6 comes a source i*8 + j; then i*4 + j//2 is its digit from 2 upwards.
        """
        self._join_overlapping()
        while (found := self._nested_source()) is not None:
            other, alias = found
            del self.fused[other], self.extents[other]
            sums = [_renamed(total, other, alias) for total in sums]
            self.fused = {key: _renamed(total, other, alias) for key, total in self.fused.items()}
        for key, whole in self.fused.items():
            sums = [_within(total, whole, key) for total in sums]
        return sums

    def _join_overlapping(self) -> None:
        """Where one fused sum begins with what another ends with, add the sum of both.

        Example: h*8 + j and j*6 + k are parts of h*48 + j*6 + k.
        """
        pending = list(self.fused.values())
        while pending:
            total = pending.pop()
            for other in list(self.fused.values()):
                joined = _join(total, other)
                key = None if joined is None else ("joined", joined.digits)
                if joined is not None and key not in self.fused:
                    self.fused[key], self.extents[key] = joined, joined.extent
                    pending.append(joined)

    def _nested_source(self) -> tuple[object, _Digit] | None:
        """A fused sum that is a digit of another one, and that digit."""
        for key, whole in self.fused.items():
            for other, total in self.fused.items():
                alias = None if other == key else _as_one_digit(total, whole, key)
                if alias is not None:
                    return other, alias
        return None

    def is_injective(self, sums: Sequence[_Sum]) -> bool:
        """Whether the digits of every source make it up entirely, without overlap."""
        by_source: dict[object, list[_Digit]] = {}
        for total in (*sums, *self.fused.values()):
            for digit in total.digits:
                by_source.setdefault(digit.source, []).append(digit)
        return all(_is_whole(by_source.get(source, []), extent) for source, extent in self.extents.items())

    def is_onto(self, sums: Sequence[_Sum]) -> bool:
        """Whether, besides, every place of the targets' box is hit."""
        return all(
            total.is_dense and all(_is_even(digit, self.extents[digit.source]) for digit in total.digits)
            for total in (*sums, *self.fused.values())
        )

    def _part(self, monomial: Monomial, coefficient: int) -> tuple[_Digit, Polynomial] | None:
        """A term as digit * scale: exactly one of its atoms depends on the variables."""
        varying = [n for n in monomial if self._depends(n)]
        if len(varying) != 1 or coefficient < 0:
            return None
        digit = self._digit(varying[0])
        scale = list(monomial)
        scale.remove(varying[0])
        return None if digit is None else (digit, Polynomial({tuple(scale): coefficient}))

    def _depends(self, number: int) -> bool:
        return not self.ctx.table.variables(number).isdisjoint(self.numbers)

    def _digit(self, number: int) -> _Digit | None:
        if number in self.numbers:
            return _Digit(number, _UNIT, self.extents[number], is_top=True)
        found = self.ctx.table.structures.get(number)
        if not isinstance(found, Division) or any(self._depends(n) for n in found.divisor.atoms()):
            return None
        whole = self._source(found.dividend)
        if whole is None or not self.ctx.is_positive(found.divisor):
            return None
        return _split(self.ctx, whole, found)

    def _source(self, dividend: Polynomial) -> _Digit | None:
        """What is divided, as one digit: a digit as it is, or a sum that becomes a source of its own."""
        total = self.read(dividend)
        if total is None:
            return None
        if len(total.digits) == 1 and total.scales[0].same(_UNIT):
            return total.digits[0]
        key = dividend.key
        if key not in self.fused:
            self.fused[key] = total
            self.extents[key] = total.extent
        return _Digit(key, _UNIT, total.extent, is_top=True)


def _split(ctx: Context, whole: _Digit, division: Division) -> _Digit | None:
    """The upper or lower part of a digit that is divided. Where it does not come out even, only a top digit can be."""
    divisor = division.divisor
    upper = exact_quotient(whole.extent, divisor)
    if upper is None:
        if not whole.is_top:
            return None
        upper = ctx.divide(whole.extent + divisor.shifted(-1), divisor)[0]
    if division.op == "floormod":
        return _Digit(whole.source, whole.lower, divisor, is_top=False)
    return _Digit(whole.source, whole.lower * divisor, upper, whole.is_top)


def _arrange(ctx: Context, parts: list[tuple[_Digit, Polynomial]]) -> _Sum | None:
    """The parts from the lowest scale to the highest; None where one may run into the next."""
    if not parts:
        return _Sum((), (), _UNIT, is_dense=True)
    ordered: list[tuple[_Digit, Polynomial]] = []
    left = list(parts)
    while left:
        lowest = next((p for p in left if all(exact_quotient(s, p[1]) is not None for _, s in left)), None)
        if lowest is None:
            return None
        left.remove(lowest)
        ordered.append(lowest)
    is_dense = ordered[0][1].same(_UNIT)
    for (digit, scale), (_, above) in pairwise(ordered):
        room = exact_quotient(above, scale)
        if room is None or not ctx.is_non_negative(room - digit.extent):
            return None
        is_dense = is_dense and room.same(digit.extent)
    last, top = ordered[-1]
    extent = top * last.extent.shifted(-1)
    for digit, scale in ordered[:-1]:
        extent = extent + scale * digit.extent.shifted(-1)
    return _Sum(tuple(d for d, _ in ordered), tuple(s for _, s in ordered), extent.shifted(1), is_dense)


def _is_whole(digits: list[_Digit], extent: Polynomial) -> bool:
    """Whether the digits are a source's lowest, the one above it, and so on to its top."""
    lower, is_complete = _UNIT, extent.same(_UNIT)
    left = list(digits)
    while left:
        found = next((d for d in left if d.lower.same(lower)), None)
        if found is None:
            return False
        left.remove(found)
        lower = lower * found.extent
        is_complete = found.is_top or lower.same(extent)
    return is_complete


def _is_even(digit: _Digit, extent: Polynomial) -> bool:
    """Whether the digit takes each of its values equally often."""
    return exact_quotient(extent, digit.lower * digit.extent) is not None


def _as_digit_of(digit: _Digit, whole: _Sum, key: object) -> _Digit | None:
    """A digit of a source whose digits the sum `whole` contains, as a digit of that sum."""
    if digit.source == key:
        return digit
    if not whole.is_dense:
        return None
    for part, scale in zip(whole.digits, whole.scales, strict=True):
        if part.source != digit.source:
            continue
        step = exact_quotient(digit.lower, part.lower)
        above = exact_quotient(part.lower * part.extent, digit.lower * digit.extent)
        if step is not None and above is not None:
            is_top = above.same(_UNIT) and part is whole.digits[-1]
            return _Digit(key, scale * step, digit.extent, is_top)
    return None


def _as_one_digit(total: _Sum, whole: _Sum, key: object) -> _Digit | None:
    """A sum all of whose digits lie side by side in the sum `whole`, as one digit of that."""
    if not total.is_dense:
        return None
    found = [_as_digit_of(digit, whole, key) for digit in total.digits]
    first = found[0] if found else None
    if first is None:
        return None
    lower = first.lower
    last = first
    for digit in found:
        if digit is None or not digit.lower.same(lower):
            return None
        lower = lower * digit.extent
        last = digit
    return _Digit(key, first.lower, total.extent, last.is_top)


def _join(low: _Sum, high: _Sum) -> _Sum | None:
    """The dense sum that ends as `high` does and begins as `low` does, if some top digits of `low` begin `high`."""
    if not low.is_dense or not high.is_dense:
        return None
    for count in range(min(len(low.digits), len(high.digits)) - 1, 0, -1):
        if all(map(_is_same_digit, low.digits[-count:], high.digits[:count])):
            base = low.scales[-count]
            scales = (*low.scales, *(base * scale for scale in high.scales[count:]))
            digits = (*low.digits, *high.digits[count:])
            if len({digit.source for digit in digits}) < len(digits):
                return None
            return _Sum(digits, scales, base * high.extent, is_dense=True)
    return None


def _is_same_digit(a: _Digit, b: _Digit) -> bool:
    return a.source == b.source and a.lower.same(b.lower) and a.extent.same(b.extent)


def _within(total: _Sum, whole: _Sum, key: object) -> _Sum:
    """`total` with its digits as digits of the sum `whole`, where they are."""
    found = [(digit, _as_digit_of(digit, whole, key)) for digit in total.digits]
    return replace(total, digits=tuple(digit if new is None else new for digit, new in found))


def _renamed(total: _Sum, old: object, alias: _Digit) -> _Sum:
    """`total` with digits of the source `old`, which is the digit `alias`, as digits of the alias' source."""
    return replace(total, digits=tuple(_through(d, alias) if d.source == old else d for d in total.digits))


def _through(digit: _Digit, alias: _Digit) -> _Digit:
    return _Digit(alias.source, alias.lower * digit.lower, digit.extent, digit.is_top and alias.is_top)


def _take_apart(total: _Sum, value: Expr, totals: dict[object, Expr], ctx: Context) -> None:
    """Add what the digits of `total`, of which the value is known, contribute to their sources."""
    emit = ctx.table.emit
    for position, (digit, scale) in enumerate(zip(total.digits, total.scales, strict=True)):
        part = value // emit(scale)
        if position < len(total.digits) - 1:
            room = exact_quotient(total.scales[position + 1], scale)
            part = part if room is None else part % emit(room)
        term = part * emit(digit.lower)
        totals[digit.source] = totals[digit.source] + term if digit.source in totals else term
