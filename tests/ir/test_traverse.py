"""What expressions mention, and substitution, which looks only where the variables are."""

from __future__ import annotations

from lpx import dtypes
from lpx.expr import build, traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Expr, Load, Var

N = build.const(8)
A, B = Buffer("A", dtypes.float32, (N,)), Buffer("B", dtypes.index, (N,))
VI, VJ, VK = build.var("i"), build.var("j"), build.var("k")


def gathered() -> Expr:
    """A[B[i] + j] * A[i] + A[B[i] + j]: shared nodes, nested reads."""
    read = build.load(A, (build.load(B, (VI,)) + VJ,))
    return read * build.load(A, (VI,)) + read


def walked(expr: Expr) -> tuple[set[Var], tuple[Expr, ...]]:
    """The same by looking at every node."""
    nodes = list(traverse.walk(expr))
    return {n for n in nodes if isinstance(n, Var)}, tuple(n for n in nodes if isinstance(n, Load | AddressOf))


def test_variables_and_accesses_are_those_of_all_nodes() -> None:
    for expr in (
        gathered(),
        VI,
        N,
        VI + VJ,
        build.address_of(A, (VI + VJ,)),
        build.select(VI < VJ, gathered(), gathered()),
    ):
        variables, accesses = walked(expr)
        assert traverse.free_vars(expr) == variables
        found = traverse.accesses(expr)
        assert len(found) == len(accesses)
        assert all(a is b for a, b in zip(found, accesses, strict=True))


def test_deep_expressions_do_not_recurse() -> None:
    expr: Expr = VI
    for _ in range(20_000):
        expr = expr + 1
    assert traverse.free_vars(expr) == {VI}
    assert traverse.free_vars(traverse.substitute(expr, {VI: VJ})) == {VJ}


def test_substitute_keeps_what_does_not_mention_the_variables() -> None:
    expr = gathered()
    assert traverse.substitute(expr, {VK: VJ}) is expr
    assert traverse.substitute(expr, {}) is expr
    made = traverse.substitute(expr, {VJ: VK})
    variables, accesses = walked(made)
    assert variables == {VI, VK}
    kept = {a for a in walked(expr)[1] if VJ not in traverse.free_vars(a)}
    assert kept <= set(accesses)
    assert len(accesses) == 3  # what was shared still is


def test_substitution_is_simultaneous() -> None:
    made = traverse.substitute(VI - VJ, {VI: VJ, VJ: VI})
    assert traverse.structural_equal(made, VJ - VI)
    memo: dict[Expr, Expr] = {}
    shared = VI * VI
    first, second = (traverse.substitute(e, {VI: VK}, memo) for e in (shared + 1, shared + 2))
    assert traverse.children(first)[0] is traverse.children(second)[0]


def test_long_sums_keep_one_list_of_what_they_read() -> None:
    expr: Expr = build.load(A, (VI,))
    for k in range(1, 3000):
        expr = expr + build.load(A, (VI + k,))
    assert len(traverse.accesses(expr)) == 3000
    assert traverse.touches_memory(expr)
    assert not hasattr(traverse.children(expr)[0], "found")
    assert not traverse.touches_memory(VI + 1)
    assert traverse.accesses(VI + 1) == ()
