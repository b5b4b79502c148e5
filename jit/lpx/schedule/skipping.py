"""skip_idle: a block does not run where it makes no difference, as in the half of a matrix that a triangle leaves out.

What is looked for are selects whose condition compares sums of axes. A condition is kept as a margin that is at least 0
where it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lpx import dtypes
from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Binary, Compare, Const, Expr, Load, Select, Var
from lpx.ir import traverse
from lpx.ir.nodes import Block, Function, Store
from lpx.records import record, replace
from lpx.schedule import blocks, queries, rewriting
from lpx.schedule.errors import BlockFormError, ConsumerError
from lpx.schedule.linear import Linear, linear
from lpx.schedule.primitive import primitive
from lpx.schedule.session import BlockLike, Edit

_TOGETHER = frozenset({"vectorized", "unrolled"})
"""Kinds of loops whose iterations run or are left out together, so that nothing is tested for each."""


@record
class _Need:
    """Elements of a buffer are needed where the sum of coefficients times indices, and `rest`, is at least 0."""

    coefficients: tuple[int, ...]
    rest: Expr

    def margin(self, indices: Sequence[Expr]) -> Expr:
        """The sum at some indices."""
        total = self.rest
        for coefficient, index in zip(self.coefficients, indices, strict=True):
            if coefficient:
                total = total + index * coefficient
        return total


@primitive
def skip_idle(edit: Edit, block: BlockLike) -> None:
    """Do not run a block where it makes no difference.

    It makes none where it accumulates a value that leaves every accumulator as it is, and where nobody reads what it
    makes but to select something else. The test is as coarse as the loops in vectors, and the unrolled ones, around the
    block: it is made before those.

    requires: the block updates a tensor as by `C = C + select(c, .., 0)`, after `decompose_reduction`, or all others
        read the tensor it makes, a temporary, on the side taken of `select(c, .., ..)`; c compares sums of axes.
    rewrite:
        for i { for j { block C { C[vi] = C[vi] + select(vj <= vi, A[vi, vj], 0) } } }
        ->
        for i { for j { block C where j <= i { C[vi] = C[vi] + select(vj <= vi, A[vi, vj], 0) } } }
    """
    node = edit.block(block)
    margins = list(_idle_margins(node))
    guarded = _guarded(edit.function, node, margins) if margins else _without_unread(edit.function, node)
    if guarded is edit.function:
        raise ConsumerError(
            f"every instance of {node.name} counts",
            hint="readers take what it makes by te.where(c, value, ..), or updates add te.where(c, value, 0);"
            " c compares indices, and readers are skipped first",
            mark=node,
        )
    edit.function = guarded


def _without_unread(function: Function, block: Block) -> Function:
    """`function` where what `block` makes, together with others perhaps, is made only where somebody reads it."""
    (buffer, *others) = blocks.outputs_of(block)
    blocks.check_temporaries(function, block, "all of which somebody may read")
    blocks.check_plain_access(function, buffer)
    needs = [] if others else _needs(function, buffer)
    for writer in queries.writers(function, buffer) if needs else ():
        indices = blocks.store_indices(writer, buffer)
        function = _guarded(function, writer, [need.margin(indices) for need in needs])
    return function


def _idle_margins(block: Block) -> Iterator[Expr]:
    """Margins, over the block's axes, without which an update leaves the accumulator alone."""
    body = block.body
    if not isinstance(body, Store) or not any(a.kind == "reduce" for a in block.axes):
        return
    value = body.value
    if not isinstance(value, Binary) or not isinstance(value.a, Load) or value.a.buffer is not body.buffer:
        return
    if not isinstance(value.b, Select) or not _is_identity(value, value.b.b):
        return
    if block.init is not None:
        raise BlockFormError(
            f"block {block.name} also starts its reduction", hint="decompose_reduction it first", mark=block
        )
    yield from _margins(value.b.cond)


def _is_identity(update: Binary, value: Expr) -> bool:
    """Whether an accumulator is the same after the update by `value`. A sum that starts from 0 is never -0."""
    if not isinstance(value, Const):
        return False
    match update.op:
        case "add":
            return value.value == 0
        case "max" if value.dtype.is_float:
            return value.value == float("-inf")
        case "min" if value.dtype.is_float:
            return value.value == float("inf")
        case _:
            return False


def _margins(condition: Expr) -> Iterator[Expr]:
    for part in rewriting.conjuncts(condition):
        if isinstance(part, Compare) and part.op in ("lt", "le") and part.a.dtype == dtypes.index and part.lanes == 1:
            yield part.b - part.a - (1 if part.op == "lt" else 0)


def _needs(function: Function, buffer: Buffer) -> list[_Need]:
    """Under which conditions, all of them, elements of a temporary are read at all."""
    found: list[_Need] | None = None
    for reader in queries.readers(function, buffer):
        if buffer in traverse.written_buffers(reader):
            continue
        for needs in _reads(function, reader, buffer):
            found = needs if found is None else [w for n in found for m in needs if (w := _either(n, m)) is not None]
    return found or []


def _either(one: _Need, other: _Need) -> _Need | None:
    """What holds where one of two does, as far as they can be compared: the weaker one."""
    further = queries.constant_value(Analyzer().simplify(other.rest - one.rest))
    if one.coefficients != other.coefficients or further is None:
        return None
    return other if further > 0 else one


def _reads(function: Function, reader: Block, buffer: Buffer) -> Iterator[list[_Need]]:
    """For each read of a buffer in a block, when it matters."""
    outer = _result_margins(function, reader)
    for stmt in traverse.walk(reader):
        for expr in traverse.expressions(stmt):
            for load, conditions in _loads(expr, buffer, ()):
                margins = [*outer, *(m for c in conditions for m in _margins(c))]
                yield [n for m in margins if (n := _over_indices(reader, load.indices, m)) is not None]


def _result_margins(function: Function, block: Block) -> list[Expr]:
    """Margins, over the axes of a block, without which it does not run, as nobody reads what it makes."""
    if not isinstance(block.body, Store) or any(a.kind == "reduce" for a in block.axes):
        return []
    target = block.body.buffer
    if any(p.buffer is target for p in function.params) or queries.has_address(function.body, target):
        return []
    conditions = rewriting.conjuncts(block.predicate)
    found: list[Expr] = []
    for need in _needs(function, target):
        margin = need.margin(block.body.indices)
        test = _Test.of(function, block, margin)
        if test is not None and any(expr_traverse.structural_equal(test.condition, c) for c in conditions):
            found.append(margin + test.slack)
    return found


def _loads(expr: Expr, buffer: Buffer, conditions: tuple[Expr, ...]) -> Iterator[tuple[Load, tuple[Expr, ...]]]:
    """The reads of a buffer in an expression, with the conditions of selects that take their side."""
    if isinstance(expr, Load) and expr.buffer is buffer:
        yield expr, conditions
    for child in expr_traverse.children(expr):
        taken = (expr.cond,) if isinstance(expr, Select) and child is expr.a and expr.a is not expr.b else ()
        yield from _loads(child, buffer, (*conditions, *taken))


def _over_indices(reader: Block, indices: Sequence[Expr], margin: Expr) -> _Need | None:
    """A margin over the axes of a block, as one over the indices it reads at; None where it depends on more."""
    analyzer = Analyzer()
    for axis in reader.axes:
        analyzer = analyzer.with_axis(axis)
    variables = [a.var for a in reader.axes]
    forms = [linear(analyzer, i, variables) for i in indices]
    coefficients: list[int] = []
    for position, form in enumerate(forms):
        coefficient = 0
        own = None if form is None else _own_atom(form, [f for k, f in enumerate(forms) if k != position])
        left = linear(analyzer, margin, variables)
        if own is not None and left is not None:
            atom, step = own
            term = left.term(atom)
            value = None if term is None else queries.constant_value(term.coefficient)
            coefficient = value // step if value is not None and value % step == 0 else 0
        coefficients.append(coefficient)
        margin = analyzer.simplify(margin - indices[position] * coefficient)
    rest = linear(analyzer, margin, variables)
    return None if rest is None or rest.terms else _Need(tuple(coefficients), rest.rest)


def _own_atom(form: Linear, others: Sequence[Linear | None]) -> tuple[Expr, int] | None:
    """A variable in one index and in no other, with its coefficient."""
    for term in form.terms:
        step = queries.constant_value(term.coefficient)
        if step and isinstance(term.atom, Var) and all(o is None or o.term(term.atom) is None for o in others):
            return term.atom, step
    return None


@record
class _Test:
    """What is tested before vectors and unrolled loops for a margin; where it holds, the margin is `-slack` or more."""

    condition: Expr
    slack: Expr

    @staticmethod
    def of(function: Function, block: Block, margin: Expr) -> _Test | None:
        """The test for a margin over the axes of a block; None where bounds are unknown."""
        loops = queries.loops_around(function, block)
        together = [f.var for f in loops if f.kind in _TOGETHER]
        analyzer = queries.analyzer_of(function, loops)
        bounds = analyzer.symbolic_bounds(expr_traverse.substitute(margin, queries.axis_values(block)), together)
        if bounds is None:
            return None
        low, high = bounds
        condition = build.compare("le", build.const(0), analyzer.simplify(high))
        return _Test(condition, analyzer.simplify(high - low))


def _guarded(function: Function, block: Block, margins: Sequence[Expr]) -> Function:
    """`block` where margins over its axes are 0 or more somewhere in the vector and unrolled loops around it."""
    analyzer = queries.analyzer_of(function, queries.loops_around(function, block))
    tests = [test for margin in margins if (test := _Test.of(function, block, margin)) is not None]
    added = [test.condition for test in tests if not analyzer.prove(test.condition)]
    if not added:
        return function
    predicate = rewriting.conjunction([*rewriting.conjuncts(block.predicate), *added])
    return rewriting.replace_statement(function, block, replace(block, predicate=predicate))
