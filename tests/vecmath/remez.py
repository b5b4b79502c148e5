"""Minimax polynomials: the exchange algorithm of Remez on a fine grid, and rounding of the coefficients.

E. Remez, "Sur la détermination des polynômes d'approximation de degré donnée", 1934. The coefficients are rounded one
after another, lowest power first, and the rest are fitted again to what the rounding left over, as S. Chevillard and
others do in "Sollya: an environment for the development of numerical codes", 2010.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.vecmath.multiprecision import Real, mp

Function = Callable[[Real], Real]

BITS = 200
"""The precision of mpmath that fits are made with."""
_POINTS_PER_TERM = 16
_MAX_EXCHANGES = 40


@dataclass(frozen=True, slots=True)
class Grid:
    """Points of an interval, dense towards its ends, with a function's values and the weight of its errors there."""

    points: list[Real]
    values: list[Real]
    weights: list[Real]

    @staticmethod
    def of(function: Function, low: Real, high: Real, terms: int, weight: Function) -> Grid:
        """Chebyshev points of [low, high], enough of them for a polynomial of `terms` coefficients."""
        count = _POINTS_PER_TERM * (terms + 2)
        middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
        points = [middle - half * mp.cos(mp.pi * (i + 0.5) / count) for i in range(count)]
        return Grid(points, [function(x) for x in points], [abs(weight(x)) for x in points])

    def minus(self, coefficient: float, power: int) -> Grid:
        """The same grid for the function less one term."""
        values = [v - coefficient * x**power for x, v in zip(self.points, self.values, strict=True)]
        return Grid(self.points, values, self.weights)

    def errors(self, coefficients: Sequence[Real], first: int) -> list[Real]:
        """Weighted errors of sum(coefficients[i] * x**(first + i))."""
        return [
            (v - polynomial(coefficients, x) * x**first) * w
            for x, v, w in zip(self.points, self.values, self.weights, strict=True)
        ]


def minimax(grid: Grid, first: int, terms: int) -> list[Real]:
    """Coefficients of powers first, first + 1, ... whose largest weighted error on the grid is smallest."""
    count = len(grid.points)
    chosen = [(count - 1) * i // terms for i in range(terms + 1)]
    coefficients: list[Real] = []
    for _ in range(_MAX_EXCHANGES):
        coefficients, level = _level_on(grid, chosen, first, terms)
        errors = grid.errors(coefficients, first)
        if max(abs(e) for e in errors) <= abs(level) * mp.mpf("1.01"):
            break
        chosen = _exchange(errors, terms + 1)
    return coefficients


def rounded_minimax(grid: Grid, first: int, terms: int, dtype: type[np.floating[Any]], refit: int = 4) -> list[float]:
    """Coefficients that `dtype` holds; the first `refit` are rounded before the later ones are fitted."""
    found: list[float] = []
    for i in range(min(terms, refit)):
        best = minimax(grid, first + i, terms - i)[0]
        found.append(to_nearest(best, dtype))
        grid = grid.minus(found[-1], first + i)
    rest = terms - len(found)
    return found + [to_nearest(c, dtype) for c in minimax(grid, first + len(found), rest)] if rest else found


def polynomial(coefficients: Sequence[Real], x: Real) -> Real:
    """coefficients[0] + coefficients[1] * x + ..."""
    total = mp.mpf(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def to_nearest(value: Real, dtype: type[np.floating[Any]]) -> float:
    """`value` rounded once to a float of `dtype`."""
    with mp.workprec(np.finfo(dtype).nmant + 1):
        return float(+mp.mpf(value))


def _level_on(grid: Grid, chosen: Sequence[int], first: int, terms: int) -> tuple[list[Real], Real]:
    """The polynomial whose weighted errors at the chosen points have one size and alternating signs; that size."""
    matrix, right = mp.matrix(terms + 1, terms + 1), mp.matrix(terms + 1, 1)
    for row, index in enumerate(chosen):
        x = grid.points[index]
        for column in range(terms):
            matrix[row, column] = x ** (first + column)
        matrix[row, terms] = (-1) ** row / grid.weights[index]
        right[row] = grid.values[index]
    solution = mp.lu_solve(matrix, right)
    return [solution[i] for i in range(terms)], solution[terms]


def _exchange(errors: Sequence[Real], count: int) -> list[int]:
    """`count` points of alternating error: the largest of each run of one sign, less the smallest while too many."""
    peaks: list[int] = []
    for i, error in enumerate(errors):
        if peaks and (error > 0) == (errors[peaks[-1]] > 0):
            if abs(error) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > count:
        _drop(peaks, errors, only_one=len(peaks) == count + 1)
    return peaks


def _drop(peaks: list[int], errors: Sequence[Real], only_one: bool) -> None:
    """Forget the smallest peak and keep the signs alternating: at an end alone, inside with its smaller neighbour."""
    sizes = [abs(errors[i]) for i in peaks]
    smallest = min(range(len(peaks)), key=sizes.__getitem__)
    if only_one or smallest in (0, len(peaks) - 1):
        peaks.pop(0 if sizes[0] < sizes[-1] else -1)
    else:
        neighbour = smallest - 1 if sizes[smallest - 1] < sizes[smallest + 1] else smallest + 1
        del peaks[min(smallest, neighbour) : max(smallest, neighbour) + 1]
