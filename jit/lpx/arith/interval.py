"""Intervals of integers with possibly infinite ends, and what each binary operation does to them.

The arithmetic is that of the unbounded integers; a caller whose dtype wraps checks results against its range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

from lpx.expr.nodes import BinaryOp
from lpx.records import record

_SHIFT_LIMIT = 128
"""Shift amounts above this are treated as unbounded, so that no huge integers are made."""


@record
class Interval:
    """The integers from `lo` to `hi`, both included; None stands for minus or plus infinity."""

    lo: int | None
    hi: int | None

    @property
    def is_point(self) -> bool:
        """Whether exactly one value is in it."""
        return self.lo is not None and self.lo == self.hi

    @property
    def is_empty(self) -> bool:
        """Whether no value is in it (the assumptions it came from contradict each other)."""
        return self.lo is not None and self.hi is not None and self.lo > self.hi

    @property
    def is_non_negative(self) -> bool:
        return self.lo is not None and self.lo >= 0

    @property
    def is_negative(self) -> bool:
        return self.hi is not None and self.hi < 0

    def contains(self, value: int) -> bool:
        """Whether `value` is in it."""
        return (self.lo is None or self.lo <= value) and (self.hi is None or value <= self.hi)

    def within(self, low: int, high: int) -> bool:
        """Whether all of it lies in [low, high]."""
        return self.lo is not None and self.hi is not None and low <= self.lo and self.hi <= high

    def meet(self, other: Interval) -> Interval:
        """The values in both."""
        return Interval(_largest_known(self.lo, other.lo), _smallest_known(self.hi, other.hi))

    def join(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        lo = None if self.lo is None or other.lo is None else min(self.lo, other.lo)
        hi = None if self.hi is None or other.hi is None else max(self.hi, other.hi)
        return Interval(lo, hi)

    def negated(self) -> Interval:
        """The negatives of its values."""
        return Interval(None if self.hi is None else -self.hi, None if self.lo is None else -self.lo)

    def scaled(self, factor: int) -> Interval:
        """Its values times a constant."""
        if factor == 0:
            return point(0)
        lo = None if self.lo is None else self.lo * factor
        hi = None if self.hi is None else self.hi * factor
        return Interval(lo, hi) if factor > 0 else Interval(hi, lo)


UNBOUNDED = Interval(None, None)
BOOLEAN = Interval(0, 1)


def point(value: int) -> Interval:
    """The interval of one value."""
    return Interval(value, value)


def apply(op: BinaryOp, a: Interval, b: Interval) -> Interval:
    """The interval of `x op y` over all x in `a`, y in `b` for which the operation is defined (no division by 0)."""
    return _OPERATIONS[op](a, b)


def _largest_known(x: int | None, y: int | None) -> int | None:
    if x is None or y is None:
        return y if x is None else x
    return max(x, y)


def _smallest_known(x: int | None, y: int | None) -> int | None:
    if x is None or y is None:
        return y if x is None else x
    return min(x, y)


def _add(a: Interval, b: Interval) -> Interval:
    lo = None if a.lo is None or b.lo is None else a.lo + b.lo
    hi = None if a.hi is None or b.hi is None else a.hi + b.hi
    return Interval(lo, hi)


def _sub(a: Interval, b: Interval) -> Interval:
    return _add(a, b.negated())


def _mul(a: Interval, b: Interval) -> Interval:
    if a.is_point and a.lo is not None:
        return b.scaled(a.lo)
    if b.is_point and b.lo is not None:
        return a.scaled(b.lo)
    if a.lo is not None and b.lo is not None and a.lo >= 0 and b.lo >= 0:
        return Interval(a.lo * b.lo, None if a.hi is None or b.hi is None else a.hi * b.hi)
    if None in (a.lo, a.hi, b.lo, b.hi):
        return _mul_half_bounded(a, b)
    return _hull(x * y for x, y in product(_ends(a), _ends(b)))


def _mul_half_bounded(a: Interval, b: Interval) -> Interval:
    """Products where some end is infinite: only the sign, and the end nearest zero, can be told."""
    flip = False
    if a.hi is not None and a.hi <= 0:
        a, flip = a.negated(), not flip
    if b.hi is not None and b.hi <= 0:
        b, flip = b.negated(), not flip
    if a.lo is None or b.lo is None or a.lo < 0 or b.lo < 0:
        return UNBOUNDED
    result = Interval(a.lo * b.lo, None if a.hi is None or b.hi is None else a.hi * b.hi)
    return result.negated() if flip else result


def _floordiv(a: Interval, b: Interval) -> Interval:
    return _divide(a, b, lambda x, y: x // y, -1)


def _truncdiv(a: Interval, b: Interval) -> Interval:
    return _divide(a, b, truncdiv, 0)


def _divide(a: Interval, b: Interval, divide: Callable[[int, int], int], below_zero: int) -> Interval:
    """`below_zero` is what a small negative number divided by a huge positive one gives."""
    parts = [part for part in (_positive(b), _negative(b)) if part is not None]
    if not parts:
        return UNBOUNDED
    total = _divide_one_sign(a, parts[0], divide, below_zero)
    for part in parts[1:]:
        total = total.join(_divide_one_sign(a, part, divide, below_zero))
    return total


def _divide_one_sign(a: Interval, b: Interval, divide: Callable[[int, int], int], below_zero: int) -> Interval:
    if b.hi is not None and b.hi < 0:
        a, b = a.negated(), b.negated()
    smallest = b.lo if b.lo is not None and b.lo > 0 else 1
    lo = hi = None
    if a.lo is not None:
        largest_quotient = below_zero if b.hi is None else divide(a.lo, b.hi)
        lo = divide(a.lo, smallest) if a.lo < 0 else (0 if b.hi is None else largest_quotient)
    if a.hi is not None:
        if a.hi >= 0:
            hi = divide(a.hi, smallest)
        else:
            hi = below_zero if b.hi is None else divide(a.hi, b.hi)
    return Interval(lo, hi)


def _positive(a: Interval) -> Interval | None:
    part = a.meet(Interval(1, None))
    return None if part.is_empty else part


def _negative(a: Interval) -> Interval | None:
    part = a.meet(Interval(None, -1))
    return None if part.is_empty else part


def _floormod(a: Interval, b: Interval) -> Interval:
    result: Interval | None = None
    positive, negative = _positive(b), _negative(b)
    if positive is not None:
        result = _mod_positive(a, positive)
    if negative is not None:
        part = _mod_positive(a.negated(), negative.negated()).negated()
        result = part if result is None else result.join(part)
    return UNBOUNDED if result is None else result


def _mod_positive(a: Interval, b: Interval) -> Interval:
    if b.is_point and b.lo is not None and a.lo is not None and a.hi is not None and a.lo // b.lo == a.hi // b.lo:
        return Interval(a.lo % b.lo, a.hi % b.lo)
    hi = None if b.hi is None else b.hi - 1
    if a.lo is not None and a.lo >= 0:
        if a.hi is not None and b.lo is not None and a.hi < b.lo:
            return a
        hi = _smallest_known(hi, a.hi)
    return Interval(0, hi)


def _truncmod(a: Interval, b: Interval) -> Interval:
    if b == point(0):
        return UNBOUNDED
    magnitude = _smallest_known(_minus_one(_magnitude(b)), _magnitude(a))
    lo = 0 if a.is_non_negative else (None if magnitude is None else -magnitude)
    hi = 0 if a.hi is not None and a.hi <= 0 else magnitude
    return Interval(lo, hi)


def _magnitude(a: Interval) -> int | None:
    return None if a.lo is None or a.hi is None else max(abs(a.lo), abs(a.hi))


def _minus_one(value: int | None) -> int | None:
    return None if value is None else max(value - 1, 0)


def _min(a: Interval, b: Interval) -> Interval:
    lo = None if a.lo is None or b.lo is None else min(a.lo, b.lo)
    return Interval(lo, _smallest_known(a.hi, b.hi))


def _max(a: Interval, b: Interval) -> Interval:
    hi = None if a.hi is None or b.hi is None else max(a.hi, b.hi)
    return Interval(_largest_known(a.lo, b.lo), hi)


def _bitand(a: Interval, b: Interval) -> Interval:
    if a.is_non_negative or b.is_non_negative:
        return Interval(0, _smallest_known(a.hi if a.is_non_negative else None, b.hi if b.is_non_negative else None))
    return Interval(None, _max(a, b).hi)


def _bitor(a: Interval, b: Interval) -> Interval:
    if a.is_non_negative and b.is_non_negative:
        return Interval(_largest_known(a.lo, b.lo), _all_ones(a.hi, b.hi))
    return UNBOUNDED


def _bitxor(a: Interval, b: Interval) -> Interval:
    if a.is_non_negative and b.is_non_negative:
        return Interval(0, _all_ones(a.hi, b.hi))
    return UNBOUNDED


def _all_ones(x: int | None, y: int | None) -> int | None:
    return None if x is None or y is None else (1 << max(x.bit_length(), y.bit_length())) - 1


def _shl(a: Interval, b: Interval) -> Interval:
    if b.lo is None or b.hi is None or not b.within(0, _SHIFT_LIMIT):
        return Interval(0 if a.is_non_negative else None, 0 if a.hi is not None and a.hi <= 0 else None)
    return _mul(a, Interval(1 << b.lo, 1 << b.hi))


def _shr(a: Interval, b: Interval) -> Interval:
    if b.lo is None or b.hi is None or not b.within(0, _SHIFT_LIMIT):
        return a.join(point(0) if a.is_non_negative else Interval(-1, 0))
    return _floordiv(a, Interval(1 << b.lo, 1 << b.hi))


def _div(a: Interval, b: Interval) -> Interval:
    return UNBOUNDED


def truncdiv(x: int, y: int) -> int:
    """Division rounding toward zero."""
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _ends(a: Interval) -> list[int]:
    return [end for end in (a.lo, a.hi) if end is not None]


def _hull(values: Iterable[int]) -> Interval:
    found = list(values)
    return Interval(min(found), max(found))


_OPERATIONS: dict[BinaryOp, Callable[[Interval, Interval], Interval]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "floordiv": _floordiv,
    "floormod": _floormod,
    "truncdiv": _truncdiv,
    "truncmod": _truncmod,
    "min": _min,
    "max": _max,
    "bitand": _bitand,
    "bitor": _bitor,
    "bitxor": _bitxor,
    "shl": _shl,
    "shr": _shr,
}
