"""Index maps made of splits and fusions: whether they are bijections, and their inverses.

Every target is read as a number in mixed radix whose digits are digits of the variables: a digit of x is
(x // lower) % extent. A target such as (i*n + j) // 8 is a digit of i*n + j, which so becomes a source of digits
itself. The map is a bijection onto a box when the digits of each target are packed without gaps, and the digits of
each source are all used, each once.

The idea (iterators as marks, splits and sums) is that of `detect_iter_map` in Apache TVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lpx.arith.analyzer import Analyzer
from lpx.arith.atoms import Division
from lpx.arith.polynomial import Monomial, Polynomial, constant, exact_quotient
from lpx.expr import build
from lpx.expr.nodes import Expr, Var

_UNIT = constant(1)


@dataclass(frozen=True, slots=True)
class _Digit:
    """(source // lower) % extent, where `source` is the number of an atom or the key of a fused sum."""

    source: object
    lower: Polynomial
    extent: Polynomial


@dataclass(frozen=True, slots=True)
class _Packed:
    """The sum of digit * scale, lowest first, with each scale the product of the extents before."""

    digits: tuple[_Digit, ...]
    scales: tuple[Polynomial, ...]
    extent: Polynomial


@dataclass(frozen=True, slots=True)
class IndexMap:
    """A bijection from the box of `variables` to the box [0, extents[0]) x [0, extents[1]) x ...

    Made by `detect_bijection`.
    """

    variables: tuple[Var, ...]
    extents: tuple[Expr, ...]
    analyzer: Analyzer
    targets: tuple[_Packed, ...]
    fused: Mapping[object, _Packed]
    """Fused sources by key, each before those that its digits are taken of."""

    def inverse(self, values: Sequence[Var]) -> tuple[Expr, ...]:
        """The map's variables, in order, as expressions of the targets' values (one variable per target)."""
        analyzer = self.analyzer
        for target, target_extent in zip(values, self.extents, strict=True):
            analyzer = analyzer.with_range(target, 0, target_extent)
        emit = analyzer.context.table.emit
        totals: dict[object, Expr] = {}
        pending: list[tuple[_Packed, Expr]] = list(zip(self.targets, values, strict=True))
        waiting = dict(self.fused)
        while pending:
            packed, value = pending.pop(0)
            for position, (digit, scale) in enumerate(zip(packed.digits, packed.scales, strict=True)):
                part = value // emit(scale)
                if position < len(packed.digits) - 1:
                    part = part % emit(digit.extent)
                term = part * emit(digit.lower)
                totals[digit.source] = totals[digit.source] + term if digit.source in totals else term
            if not pending and waiting:
                key = next(iter(waiting))
                pending.append((waiting.pop(key), totals[key]))
        number = analyzer.context.table.plain
        return tuple(analyzer.simplify(totals.get(number(v), build.const(0))) for v in self.variables)


def detect_bijection(
    targets: Sequence[Expr], variables: Sequence[Var], extents: Sequence[Expr], analyzer: Analyzer
) -> IndexMap | None:
    """The map `variables` -> `targets` over the box of `extents`, if it is recognised as a bijection onto a box.

    Exact for combinations of splits (x // c and x % c) and fusions (i*n + j) whose factors divide evenly, with constant
    or symbolic extents; other maps give None. The targets' extents are those of the result; for a split with a
    remainder they exceed the extents of what is indexed, and a predicate trims them.
    """
    for var, extent in zip(variables, extents, strict=True):
        analyzer = analyzer.with_range(var, 0, extent)
    reader = _Reader(analyzer, variables, extents)
    packed: list[_Packed] = []
    for target in targets:
        found = reader.read(analyzer.context.polynomial(target))
        if found is None:
            return None
        packed.append(found)
    if not reader.covers(packed):
        return None
    emit = analyzer.context.table.emit
    return IndexMap(
        tuple(variables), tuple(emit(p.extent) for p in packed), analyzer, tuple(packed), reader.ordered_fused()
    )


class _Reader:
    """Reads polynomials as packed sums of digits, collecting the fused sources it meets."""

    def __init__(self, analyzer: Analyzer, variables: Sequence[Var], extents: Sequence[Expr]) -> None:
        self.ctx = analyzer.context
        self.extents: dict[object, Polynomial] = {
            self.ctx.table.plain(v): self.ctx.polynomial(e) for v, e in zip(variables, extents, strict=True)
        }
        self.fused: dict[object, _Packed] = {}

    def read(self, p: Polynomial) -> _Packed | None:
        """`p` as a packed sum of digits; None when it is not one."""
        parts: list[tuple[_Digit, Polynomial]] = []
        for monomial, coefficient in p.terms.items():
            part = self._part(monomial, coefficient)
            if part is None:
                return None
            parts.append(part)
        return _pack(parts)

    def covers(self, targets: Sequence[_Packed]) -> bool:
        """Whether the digits of every source make it up entirely, without overlap."""
        by_source: dict[object, list[_Digit]] = {}
        for packed in (*targets, *self.fused.values()):
            for digit in packed.digits:
                by_source.setdefault(digit.source, []).append(digit)
        return all(_is_whole(by_source.get(source, []), extent) for source, extent in self.extents.items())

    def ordered_fused(self) -> dict[object, _Packed]:
        """Fused sources, those made last (which may be made of earlier ones) first."""
        return dict(reversed(self.fused.items()))

    def _part(self, monomial: Monomial, coefficient: int) -> tuple[_Digit, Polynomial] | None:
        """A term as digit * scale: exactly one of its atoms depends on the variables."""
        varying = [n for n in monomial if self._depends(n)]
        if len(varying) != 1 or coefficient < 0:
            return None
        digit = self._digit(varying[0])
        rest = list(monomial)
        rest.remove(varying[0])
        return None if digit is None else (digit, Polynomial({tuple(rest): coefficient}))

    def _depends(self, number: int) -> bool:
        return not self.ctx.table.variables(number).isdisjoint(n for n in self.extents if isinstance(n, int))

    def _digit(self, number: int) -> _Digit | None:
        if number in self.extents:
            return _Digit(number, _UNIT, self.extents[number])
        found = self.ctx.table.structures.get(number)
        if not isinstance(found, Division) or any(self._depends(n) for n in found.divisor.atoms()):
            return None
        whole = self._source(found.dividend)
        if whole is None:
            return None
        extent = exact_quotient(whole.extent, found.divisor)
        if extent is None or not self.ctx.is_positive(found.divisor):
            return None
        if found.op == "floormod":
            return _Digit(whole.source, whole.lower, found.divisor)
        return _Digit(whole.source, whole.lower * found.divisor, extent)

    def _source(self, dividend: Polynomial) -> _Digit | None:
        """What is divided, as one digit: a digit as it is, or a sum that becomes a source of its own."""
        packed = self.read(dividend)
        if packed is None:
            return None
        if len(packed.digits) == 1:
            return packed.digits[0]
        key = dividend.key
        if key not in self.fused:
            self.fused[key] = packed
            self.extents[key] = packed.extent
        return _Digit(key, _UNIT, packed.extent)


def _pack(parts: list[tuple[_Digit, Polynomial]]) -> _Packed | None:
    """The parts in order of their scales, which must be 1 and then the product of the extents before."""
    digits: list[_Digit] = []
    scales: list[Polynomial] = []
    scale = _UNIT
    while parts:
        position = next((i for i, (_, s) in enumerate(parts) if s.same(scale)), None)
        if position is None:
            return None
        digit, _ = parts.pop(position)
        digits.append(digit)
        scales.append(scale)
        scale = scale * digit.extent
    return _Packed(tuple(digits), tuple(scales), scale)


def _is_whole(digits: list[_Digit], extent: Polynomial) -> bool:
    """Whether the digits are a source's lowest, the one above it, and so on to its extent."""
    lower = _UNIT
    left = list(digits)
    while left:
        position = next((i for i, d in enumerate(left) if d.lower.same(lower)), None)
        if position is None:
            return False
        lower = lower * left.pop(position).extent
    return lower.same(extent)
