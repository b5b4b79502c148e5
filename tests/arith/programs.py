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

    def variable(self, name: str) -> Var:
        """The variable of that name."""
        return {v.name: v for v in (self.m, self.n, self.i, self.j, self.f, self.k, self.s)}[name]

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


_SMALL = st.sampled_from([build.const(c) for c in CONSTANTS])
_DIVISORS = st.sampled_from([*(build.const(c) for c in CONSTANTS if c), WORLD.n, WORLD.m, WORLD.n * 4])


def _choose(a: Expr, b: Expr, c: Expr, d: Expr) -> Expr:
    return build.select(a < b, c, d)


def _invert(cond: Expr) -> Expr:
    return build.unary("not", cond)


def _arithmetic(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    op = st.sampled_from(("add", "add", "sub", "min", "max"))
    division = st.sampled_from(("floordiv", "floormod", "floordiv", "floormod", "truncdiv", "truncmod"))
    return st.one_of(
        st.builds(build.binary, op, inner, inner),
        st.builds(build.binary, op, inner, _SMALL),
        st.builds(build.binary, st.just("mul"), inner, st.one_of(_SMALL, _SMALL, st.sampled_from(_VARIABLES))),
        st.builds(build.binary, division, inner, _DIVISORS),
        st.builds(_choose, inner, inner, inner, inner),
    )


def index_expressions(leaves: int = 8) -> st.SearchStrategy[Expr]:
    """Scalar index expressions over `WORLD`."""
    leaf: st.SearchStrategy[Expr] = st.one_of(st.sampled_from(_VARIABLES), _SMALL)
    return st.recursive(leaf, _arithmetic, max_leaves=leaves)


def conditions(leaves: int = 6) -> st.SearchStrategy[Expr]:
    """Bool expressions over `WORLD`."""
    return st.recursive(_comparisons(index_expressions(leaves)), _logic, max_leaves=3)


def _comparisons(operand: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.builds(build.compare, st.sampled_from(("lt", "le", "eq", "ne")), operand, operand)


def _logic(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    joined = st.builds(build.binary, st.sampled_from(("bitand", "bitor")), inner, inner)
    return st.one_of(joined, st.builds(_invert, inner))


LANES = 4
_VECTOR_CONSTANTS = st.sampled_from([build.broadcast(build.const(c), LANES) for c in (1, 2, 3, 4, 8, 16)])
_STRIDES = st.sampled_from([build.const(c) for c in (0, 1, 2, 3, 4, 8, -1, -4)])


def _vector_arithmetic(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    op = st.sampled_from(("add", "sub", "mul", "min", "max", "floordiv", "floormod"))
    return st.one_of(
        st.builds(build.binary, op, inner, _VECTOR_CONSTANTS), st.builds(build.binary, st.just("add"), inner, inner)
    )


def vectors() -> st.SearchStrategy[Expr]:
    """Vector index expressions and conditions over `WORLD`, of `LANES` lanes."""
    scalar = index_expressions(3)
    lanes = st.just(LANES)
    leaf = st.one_of(st.builds(build.ramp, scalar, _STRIDES, lanes), st.builds(build.broadcast, scalar, lanes))
    vector = st.recursive(leaf, _vector_arithmetic, max_leaves=3)
    comparison = _comparisons(vector)
    return st.one_of(vector, comparison, st.builds(build.select, comparison, vector, vector))
