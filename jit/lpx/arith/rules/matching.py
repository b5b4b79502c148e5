"""Finding and applying the rules that fit a node.

Rules are indexed by the operation of the node and of its two operands, so that the few rules that can match are found
by one dictionary lookup.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from lpx.arith.folding import fold
from lpx.arith.rules import bits, booleans, comparisons, floats, integers, selections
from lpx.arith.rules.rule import CONSTANTS, Condition, Domain, Family, Match, Rule, always
from lpx.dtypes import DType
from lpx.expr import nodes, traverse
from lpx.expr.nodes import Const, Expr, Var
from lpx.records import record

Number = Callable[[Expr], int]
"""The structural number of an expression: equal numbers, equal expressions."""

Head = tuple[object, object]
Bindings = dict[Var, Expr]
Matcher = Callable[[Expr, Bindings, Number], bool]
"""Whether an expression fits a pattern; notes what the pattern's variables stand for."""

FAMILIES: tuple[Family, ...] = (
    integers.SUMS,
    integers.PRODUCTS,
    integers.DIVISIONS,
    integers.EXTREMA,
    bits.BITS,
    bits.SHIFTS,
    floats.FLOATS,
    booleans.LOGIC,
    booleans.NEGATED_COMPARISONS,
    comparisons.INTEGER_COMPARISONS,
    comparisons.FLOAT_COMPARISONS,
    selections.SELECTIONS,
    selections.BOOL_SELECTIONS,
    selections.INTEGER_SELECTIONS,
)

_COMMUTATIVE = frozenset(("add", "mul", "min", "max", "bitand", "bitor", "bitxor", "eq", "ne"))


@record(eq=False)
class _Candidate:
    """A rule with its operands in one order."""

    pattern: Expr
    replacement: Expr
    when: Condition
    domain: Domain
    matches: Matcher


def rewrite(node: Expr, number: Number) -> Expr | None:
    """The result of the first rule that applies at the root of `node`, or None."""
    if type(node) not in _ROOTS:
        return None
    dtype = operand_dtype(node)
    operand_heads = tuple([_head(scalar_constant(o)) for o in traverse.children(node)])
    for candidate in _candidates(_head(node), operand_heads, _DOMAINS[dtype.kind]):
        bindings: Bindings = {}
        if not candidate.matches(node, bindings, number):
            continue
        if candidate.when is not always and not candidate.when(Match(dtype, bindings)):
            continue
        made = _instantiate(candidate.replacement, bindings, dtype, node.lanes)
        if made is not None:
            return made
    return None


def operand_dtype(node: Expr) -> DType:
    """The dtype that decides which rules a node gets: that of a comparison's operands, else its own."""
    return node.a.dtype if isinstance(node, nodes.Compare) else node.dtype


def orders(pattern: Expr) -> Iterator[Expr]:
    """`pattern` with the operands of its commutative operations in every order."""
    match pattern:
        case nodes.Binary(dtype=dtype, op=op, a=a, b=b):
            for left, right in product(orders(a), orders(b)):
                yield nodes.Binary(dtype, 1, op, left, right)
                if op in _COMMUTATIVE and left is not right:
                    yield nodes.Binary(dtype, 1, op, right, left)
        case nodes.Compare(dtype=dtype, op=op, a=a, b=b):
            for left, right in product(orders(a), orders(b)):
                yield nodes.Compare(dtype, 1, op, left, right)
                if op in _COMMUTATIVE and left is not right:
                    yield nodes.Compare(dtype, 1, op, right, left)
        case nodes.Select(dtype=dtype, cond=cond, a=a, b=b):
            yield from (nodes.Select(dtype, 1, *parts) for parts in product(orders(cond), orders(a), orders(b)))
        case nodes.Unary(dtype=dtype, op=op, a=a):
            yield from (nodes.Unary(dtype, 1, op, inner) for inner in orders(a))
        case _:
            yield pattern


_ROOTS = frozenset((nodes.Unary, nodes.Binary, nodes.Compare, nodes.Select))


_DOMAINS: dict[str, Domain] = {"int": "integer", "uint": "integer", "float": "float", "bool": "bool", "handle": "any"}


def _head(node: Expr) -> Head:
    return (type(node), getattr(node, "op", None))


def scalar_constant(node: Expr) -> Expr:
    """The constant that a broadcast constant repeats; any other node as it is."""
    return node.value if isinstance(node, nodes.Broadcast) and isinstance(node.value, Const) else node


@functools.cache
def _rules_by_head() -> dict[Head, list[_Candidate]]:
    table: dict[Head, list[_Candidate]] = {}
    for family in FAMILIES:
        for rule in family.rules:
            for candidate in _orientations(rule, family.domain):
                table.setdefault(_head(candidate.pattern), []).append(candidate)
    return table


def _orientations(rule: Rule, domain: Domain) -> Iterator[_Candidate]:
    for pattern in orders(rule.pattern):
        yield _Candidate(pattern, rule.replacement, rule.when, domain, _matcher(pattern, domain, set()))


@functools.cache
def _candidates(head: Head, operand_heads: tuple[Head, ...], domain: Domain) -> Sequence[_Candidate]:
    return tuple(
        candidate
        for candidate in _rules_by_head().get(head, ())
        if candidate.domain in (domain, "any")
        and all(map(_may_match, traverse.children(candidate.pattern), operand_heads))
    )


def _may_match(pattern: Expr, head: Head) -> bool:
    if not isinstance(pattern, Var):
        return _head(pattern) == head
    return pattern not in CONSTANTS or head[0] is Const


def _matcher(pattern: Expr, domain: Domain, bound: set[Var]) -> Matcher:
    """The matcher of a part of a pattern, before which the variables `bound` are met."""
    if isinstance(pattern, Var):
        return _matcher_of_variable(pattern, domain, bound)
    if isinstance(pattern, Const):
        return _matcher_of_literal(pattern)
    kind: Any = type(pattern)
    op: object = getattr(pattern, "op", None)
    parts = [_matcher(part, domain, bound) for part in traverse.children(pattern)]

    def match(expr: Any, bindings: Bindings, number: Number) -> bool:
        if type(expr) is not kind or (op is not None and expr.op != op):
            return False
        for part, operand in zip(parts, traverse.children(expr), strict=True):
            if not part(operand, bindings, number):
                return False
        return True

    return match


def _matcher_of_literal(literal: Const) -> Matcher:
    def match(expr: Expr, _bindings: Bindings, _number: Number) -> bool:
        expr = scalar_constant(expr)
        return isinstance(expr, Const) and _same_value(literal, expr)

    return match


def _matcher_of_variable(variable: Var, domain: Domain, bound: set[Var]) -> Matcher:
    """Where a variable is met first it takes what is there, later it must be the same again."""
    is_constant = variable in CONSTANTS
    wanted = _DOMAINS[variable.dtype.kind] if domain != "any" or variable.dtype.is_bool else None

    def match_again(expr: Expr, bindings: Bindings, number: Number) -> bool:
        known = bindings[variable]
        other = scalar_constant(expr) if is_constant else expr
        return known is other or number(known) == number(other)

    def match_first(expr: Expr, bindings: Bindings, _number: Number) -> bool:
        if is_constant:
            expr = scalar_constant(expr)
            if not isinstance(expr, Const):
                return False
        if wanted is not None and _DOMAINS[expr.dtype.kind] != wanted:
            return False
        bindings[variable] = expr
        return True

    if variable in bound:
        return match_again
    bound.add(variable)
    return match_first


def _same_value(literal: Const, constant: Const) -> bool:
    if constant.dtype.is_float:
        return repr(float(literal.value)) == repr(float(constant.value))  # tells 0.0 from -0.0
    return int(literal.value) == int(constant.value) and literal.dtype.is_bool == constant.dtype.is_bool


def _instantiate(pattern: Expr, bindings: Bindings, dtype: DType, lanes: int) -> Expr | None:
    """The replacement with what matched put in, constants folded; None when a constant cannot be folded or made."""
    made = _build(pattern, bindings, dtype)
    if made is None:
        return None
    return _widen(made, lanes)


def _build(pattern: Expr, bindings: Bindings, dtype: DType) -> Expr | None:
    """A scalar constant stays scalar until it meets a vector."""
    if isinstance(pattern, Var):
        return bindings[pattern]
    if isinstance(pattern, Const):
        return pattern if pattern.dtype.is_bool else Const(dtype, 1, _literal(pattern.value, dtype))
    operands: list[Expr] = []
    for part in traverse.children(pattern):
        operand = _build(part, bindings, dtype)
        if operand is None:
            return None
        operands.append(operand)
    lanes = max(o.lanes for o in operands)
    made = traverse.rebuild(pattern, [_widen(o, lanes) for o in operands])
    if all(isinstance(o, Const) for o in operands):
        return fold(made)
    return made


def _literal(value: int | float, dtype: DType) -> int | float:
    return float(value) if dtype.is_float else int(value)


def _widen(expr: Expr, lanes: int) -> Expr:
    return expr if expr.lanes == lanes else nodes.Broadcast(expr.dtype, lanes, expr)
