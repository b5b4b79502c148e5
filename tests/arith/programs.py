"""Random index expressions with ranges, for properties of the analyzer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr.nodes import Expr, Var

CONSTANTS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 32, -1, -2, -3, -8, 0)


@dataclass(frozen=True)
class World:
    """Variables with ranges: a constant one, one of negative values, two symbolic extents and variables under them."""

    m: Var
    n: Var
    i: Var
    j: Var
    f: Var
    k: Var
    s: Var
    analyzer: Analyzer

    @staticmethod
    def make() -> World:
        m, n, i, j, f, k, s = (build.var(name) for name in "mnijfks")
        analyzer = Analyzer().with_range(m, 0, None).with_range(n, 0, 60)
        analyzer = analyzer.with_range(i, 0, m).with_range(j, 0, n).with_range(f, 0, m * n)
        analyzer = analyzer.with_range(k, 0, 8).with_range(s, -20, 21)
        return World(m, n, i, j, f, k, s, analyzer)

    def samples(self, rng: random.Random, count: int) -> Iterator[dict[Var, int]]:
        """Values of all variables within their ranges."""
        for _ in range(count):
            m, n = rng.choice((1, 2, 3, 4, 7, 32, 33)), rng.choice((1, 2, 3, 8, 31, 32, 59))
            yield {
                self.m: m,
                self.n: n,
                self.i: _pick(rng, 0, m),
                self.j: _pick(rng, 0, n),
                self.f: _pick(rng, 0, m * n),
                self.k: _pick(rng, 0, 8),
                self.s: _pick(rng, -20, 21),
            }


def _pick(rng: random.Random, low: int, high: int) -> int:
    return rng.choice((low, high - 1, rng.randrange(low, high)))


WORLD = World.make()
_VARIABLES = (WORLD.m, WORLD.n, WORLD.i, WORLD.j, WORLD.f, WORLD.k, WORLD.s)


def _arithmetic(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    small = st.sampled_from(CONSTANTS).map(build.const)
    nonzero = st.sampled_from([c for c in CONSTANTS if c]).map(build.const)
    divisor = st.one_of(nonzero, nonzero, st.sampled_from((WORLD.n, WORLD.m, WORLD.n * 4)))
    op = st.sampled_from(("add", "add", "sub", "min", "max"))
    division = st.sampled_from(("floordiv", "floormod", "floordiv", "floormod", "truncdiv", "truncmod"))
    return st.one_of(
        st.builds(build.binary, op, inner, inner),
        st.builds(build.binary, op, inner, small),
        st.builds(build.binary, st.just("mul"), inner, st.one_of(small, small, st.sampled_from(_VARIABLES))),
        st.builds(build.binary, division, inner, divisor),
        st.builds(lambda a, b, c, d: build.select(a < b, c, d), inner, inner, inner, inner),
    )


def index_expressions(leaves: int = 8) -> st.SearchStrategy[Expr]:
    """Scalar index expressions over `WORLD`."""
    leaf = st.one_of(st.sampled_from(_VARIABLES), st.sampled_from(CONSTANTS).map(build.const))
    return st.recursive(leaf, _arithmetic, max_leaves=leaves)


def conditions(leaves: int = 6) -> st.SearchStrategy[Expr]:
    """Bool expressions over `WORLD`."""
    operand = index_expressions(leaves)
    op = st.sampled_from(("lt", "le", "eq", "ne"))
    comparison = st.builds(build.compare, op, operand, operand)
    return st.recursive(comparison, _logic, max_leaves=3)


def _logic(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(build.binary, st.sampled_from(("bitand", "bitor")), inner, inner), st.builds(lambda p: ~p, inner)
    )


def vectors(lanes: int = 4) -> st.SearchStrategy[Expr]:
    """Vector index expressions and conditions over `WORLD`."""
    scalar = index_expressions(3)
    stride = st.sampled_from((0, 1, 2, 3, 4, 8, -1, -4)).map(build.const)
    leaf = st.one_of(
        st.builds(lambda b, s: build.ramp(b, s, lanes), scalar, stride),
        st.builds(lambda b: build.broadcast(b, lanes), scalar),
    )
    op = st.sampled_from(("add", "sub", "mul", "min", "max", "floordiv", "floormod"))
    constant = st.sampled_from((1, 2, 3, 4, 8, 16)).map(lambda c: build.broadcast(build.const(c), lanes))
    vector = st.recursive(
        leaf,
        lambda e: st.one_of(st.builds(build.binary, op, e, constant), st.builds(lambda a, b: a + b, e, e)),
        max_leaves=3,
    )
    compare = st.builds(build.compare, st.sampled_from(("lt", "le", "eq", "ne")), vector, vector)
    return st.one_of(vector, compare, st.builds(build.select, compare, vector, vector))
