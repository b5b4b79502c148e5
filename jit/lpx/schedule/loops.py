"""Loop primitives: split, fuse, tile, reorder, add_unit_loop, partition.

They change which loops run a block and in which order, never what the block computes. Only `reorder` can change a
result: moving reduce loops past each other changes the order in which a reduction adds up (see `reorder`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from lpx.expr import build
from lpx.expr.nodes import Expr, Var
from lpx.ir import traverse as ir
from lpx.ir.nodes import Attr, Block, For, Function, Stmt
from lpx.records import replace
from lpx.schedule import kinds, nesting, queries, rewriting
from lpx.schedule.dependence import conflicts_within
from lpx.schedule.errors import OptionError
from lpx.schedule.handles import LoopHandle
from lpx.schedule.linear import ONE, ZERO
from lpx.schedule.primitive import primitive
from lpx.schedule.session import BlockLike, Edit

Tail = Literal["guard", "peel", "mask"]
_TAILS = ("guard", "peel", "mask")


@primitive
def loops(edit: Edit, block: BlockLike | None = None) -> tuple[LoopHandle, ...]:
    """The loops around a block, outermost first; without a block, every loop of the program in order.

    requires: nothing.
    rewrite: none.
    """
    if block is None:
        return edit.handles(queries.live_loops(edit.function))
    return edit.handles(f.var for f in queries.loops_around(edit.function, edit.block(block)))


@primitive
def split(
    edit: Edit,
    loop: LoopHandle,
    factor: int | Sequence[int] | None = None,
    *,
    nparts: int | None = None,
    tail: Tail = "guard",
) -> tuple[LoopHandle, ...]:
    """Cut a loop into an outer and an inner one, or with several factors into more; returns them outermost first.

    `factor` is the extent of the inner loop (a sequence: of the inner loops), `nparts` that of the outer. Where they do
    not divide the extent, `tail` says what becomes of the rest: "guard" adds a predicate to the blocks inside, "peel"
    runs it in a nest of its own after the main one (its blocks are named `C_tail`), "mask" is a guard that stays with
    the inner loop, to become the mask of its vector.

    requires: a serial loop; exactly one of `factor` and `nparts`, each at least 1.
    rewrite:
        for i in 0..n { block C(vi = i) }
        -> for i_o in 0..ceildiv(n, 4) { for i_i in 0..4 { block C(vi = i_o*4 + i_i) where i_o*4 + i_i < n } }
    """
    node = edit.loop(loop)
    nesting.check_serial(node)
    outer, inner = _parts(edit.function, node, factor, nparts, tail)
    edit.function, variables = split_loop(edit.function, node, outer, inner, tail)
    edit.ended(node.var, f"was split into {', '.join(v.name for v in variables)}")
    return edit.handles(variables)


def _parts(
    function: Function, loop: For, factor: int | Sequence[int] | None, nparts: int | None, tail: Tail
) -> tuple[Expr | None, tuple[Expr, ...]]:
    """The extents asked for: of the outer loop (None where it follows from the others), and of the inner ones."""
    if tail not in _TAILS:
        raise OptionError(f"tail={tail!r} is unknown", hint=f"tail is one of {', '.join(_TAILS)}")
    if (factor is None) == (nparts is None):
        raise OptionError("give either factor or nparts", hint="factor is the inner extent, nparts the outer")
    if nparts is not None:
        _check_factor("nparts", nparts)
        return build.const(int(nparts)), (_divide(loop.extent, build.const(int(nparts)), tail),)
    factors = tuple(factor) if isinstance(factor, Sequence) else (factor,)
    if not factors:
        raise OptionError("factor is empty", hint="give the extent of every inner loop")
    for f in factors:
        _check_factor("factor", f)
    return None, tuple(build.const(int(cast("int", f))) for f in factors)


def _check_factor(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(f"{what}={value!r} is not a positive integer", hint="give 1 or more")


def _divide(extent: Expr, count: Expr, tail: Tail) -> Expr:
    return extent // count if tail == "peel" else (extent + (count - 1)) // count


def split_loop(
    function: Function, loop: For, outer: Expr | None, inner: Sequence[Expr], tail: Tail
) -> tuple[Function, tuple[Var, ...]]:
    """`split` without its checks: the new function, and the new loops' variables, outermost first."""
    analyzer = queries.analyzer_of(function, queries.loops_around(function, loop))
    size = inner[0]
    for extent in inner[1:]:
        size = size * extent
    first = _divide(loop.extent, size, tail) if outer is None else outer
    extents = [analyzer.simplify(e) for e in (first, *inner)]
    variables = tuple(build.var(f"{loop.var.name}_{suffix}") for suffix in _suffixes(len(extents)))
    offset: Expr = variables[0]
    for var, extent in zip(variables[1:], extents[1:], strict=True):
        offset = offset * extent + var
    covered = extents[0] * size
    pragmas: Mapping[str, Attr] = {**loop.pragmas, "tail": "mask"} if tail == "mask" else loop.pragmas
    main = _in_place_of(loop, offset, loop.body)
    if tail != "peel" and not analyzer.equal(covered, loop.extent):
        main = rewriting.guard(main, offset < loop.extent)
    nest = _nest(loop, variables, extents, main, pragmas)
    if tail != "peel" or analyzer.equal(covered, loop.extent):
        return rewriting.replace_statement(function, loop, nest), variables
    nesting.check_starts_once(function, loop)
    rest = _rest(function, loop, analyzer.simplify(covered), analyzer.simplify(loop.extent - covered))
    return rewriting.replace_statement(function, loop, ir.sequence([nest, rest])), variables


def _suffixes(count: int) -> tuple[str, ...]:
    return ("o", "i") if count == 2 else tuple(str(k) for k in range(count))


def _in_place_of(loop: For, offset: Expr, body: Stmt) -> Stmt:
    value = offset if queries.constant_value(loop.start) == 0 else loop.start + offset
    return ir.substitute(body, {loop.var: value})


def _nest(
    loop: For, variables: Sequence[Var], extents: Sequence[Expr], body: Stmt, pragmas: Mapping[str, Attr]
) -> Stmt:
    """Serial loops over `variables` around `body`; the innermost carries the pragmas."""
    nest = body
    for position, (var, extent) in enumerate(reversed(list(zip(variables, extents, strict=True)))):
        nest = For(var, ZERO, extent, nest, pragmas=pragmas if position == 0 else {}, span=loop.span)
    return nest


def _rest(function: Function, loop: For, begin: Expr, extent: Expr) -> Stmt:
    """A copy of the nest of `loop` over [begin, begin + extent) of its iterations."""
    var = build.var(f"{loop.var.name}_t")
    copy = rewriting.clone(loop.body, rewriting.block_names(function), "tail", {})
    start = begin if queries.constant_value(loop.start) == 0 else loop.start + begin
    rest = For(var, ZERO, extent, ir.substitute(copy, {loop.var: start + var}), pragmas=loop.pragmas, span=loop.span)
    return _without_dead_inits(function, loop, rest)


def _without_dead_inits(function: Function, loop: For, rest: For) -> Stmt:
    """`rest`, which follows `loop`'s first part, without starts of reductions that certainly began in that part."""
    outside = queries.loops_around(function, loop)

    def edit(block: Block) -> Stmt | None:
        loops = queries.loops_of(next(p for p in queries.walk_paths(rest) if p[-1] is block))
        analyzer = queries.analyzer_of(function, (*outside, *loops))
        started = any(
            axis.kind == "reduce" and analyzer.prove(value > 0)
            for axis, value in zip(block.axes, block.bindings, strict=True)
        )
        return replace(block, init=None) if started and block.init is not None else None

    dead = {b.name: edit(b) for b in queries.blocks_within(rest)}
    return rewriting.map_blocks(rest, lambda b: dead.get(b.name))


@primitive
def fuse(edit: Edit, *handles: LoopHandle) -> LoopHandle:
    """Make one loop of two or more that are directly inside each other; returns it.

    requires: serial loops, each the whole body of the one before; inner bounds do not depend on outer loops.
    rewrite:
        for i in 0..m { for j in 0..n { block C(vi = i, vj = j) } }
        -> for i_j in 0..m*n { block C(vi = i_j // n, vj = i_j % n) }
    """
    if len(handles) < 2:
        raise OptionError("fuse takes two loops or more")
    chain = [edit.loop(h) for h in handles]
    nesting.check_directly_nested(chain)
    for node in chain:
        nesting.check_serial(node)
    nesting.check_rectangular(chain)
    nesting.check_starts_kept(edit.function, chain)
    analyzer = queries.analyzer_of(edit.function, queries.loops_around(edit.function, chain[0]))
    var = build.var("_".join(f.var.name for f in chain))
    values: dict[Var, Expr] = {}
    rest: Expr = var
    for node in reversed(chain[1:]):
        values[node.var] = _shifted(node, rest % node.extent)
        rest = rest // node.extent
    values[chain[0].var] = _shifted(chain[0], rest)
    total = chain[0].extent
    for node in chain[1:]:
        total = total * node.extent
    fused = For(var, ZERO, analyzer.simplify(total), ir.substitute(chain[-1].body, values), span=chain[0].span)
    edit.function = rewriting.replace_statement(edit.function, chain[0], fused)
    for node in chain:
        edit.ended(node.var, f"was fused into {var.name}")
    return edit.handle(var)


def _shifted(loop: For, offset: Expr) -> Expr:
    return offset if queries.constant_value(loop.start) == 0 else loop.start + offset


@primitive
def tile(
    edit: Edit, rows: LoopHandle, columns: LoopHandle, row_factor: int, column_factor: int, *, tail: Tail = "guard"
) -> tuple[LoopHandle, LoopHandle, LoopHandle, LoopHandle]:
    """Split two nested loops and move both inner loops inside: returns rows_o, columns_o, rows_i, columns_i.

    requires: what `split` and `reorder` require; tail is "guard" or "mask".
    rewrite:
        for i in 0..m { for j in 0..n { ... } }
        -> for i_o { for j_o { for i_i in 0..4 { for j_i in 0..8 { ... } } } }
    """
    if tail == "peel":
        raise OptionError("tile cannot peel tails", hint="split both loops with tail='peel', then reorder")
    variables: list[Var] = []
    for handle, factor in ((rows, row_factor), (columns, column_factor)):
        node = edit.loop(handle)
        nesting.check_serial(node)
        _check_factor("factor", factor)
        edit.function, pair = split_loop(edit.function, node, None, (build.const(int(factor)),), tail)
        edit.ended(node.var, f"was split into {', '.join(v.name for v in pair)}")
        variables.extend(pair)
    row_o, row_i, column_o, column_i = variables
    edit.function = reorder_loops(edit.function, (row_o, column_o, row_i, column_i))
    return edit.handle(row_o), edit.handle(column_o), edit.handle(row_i), edit.handle(column_i)


@primitive
def reorder(edit: Edit, *handles: LoopHandle) -> None:
    """Put the given loops, which stand inside each other, in the given order; others between them stay in place.

    The order in which one reduction's own loops run may change, which changes how its result rounds: a floating-point
    sum is then another sum of the same terms. Every other order in which elements are read and written is kept.

    requires: nothing but loops between the outermost and the innermost; bounds of a loop do not depend on a loop moved
        inside it; no element written in one iteration and touched in another, unless the loops keep their order.
    rewrite:
        for i { for j { S } }  with (j, i)  ->  for j { for i { S } }
    """
    if len(handles) < 2:
        raise OptionError("reorder takes two loops or more", hint="give loops that stand inside each other")
    nodes = [edit.loop(h) for h in handles]
    if len({n.var for n in nodes}) != len(nodes):
        raise OptionError("a loop is given twice")
    edit.function = reorder_loops(edit.function, tuple(n.var for n in nodes))


def reorder_loops(function: Function, order: Sequence[Var]) -> Function:
    """`reorder` by variables, with its legality checks."""
    live = queries.live_loops(function)
    chain = nesting.chain_of(function, [live[v] for v in order])
    wanted = iter([live[v] for v in order])
    named = set(order)
    permuted = [next(wanted) if f.var in named else f for f in chain]
    if all(a is b for a, b in zip(chain, permuted, strict=True)):
        return function
    nesting.check_bounds_follow(permuted)
    nesting.check_order_kept(chain, permuted, conflicts_within(function, chain[0]))
    body = chain[-1].body
    for node in reversed(permuted):
        body = replace(node, body=body)
    reordered = rewriting.replace_statement(function, chain[0], body)
    kinds.recheck(reordered, [f.var for f in permuted])
    return reordered


@primitive
def add_unit_loop(edit: Edit, target: LoopHandle | BlockLike) -> LoopHandle:
    """Put a loop of one iteration around a loop or block; returns it.

    requires: nothing.
    rewrite: block C() -> for u in 0..1 { block C() }
    """
    inside = edit.loop(target) if isinstance(target, LoopHandle) else edit.block(target)
    var = build.var("u")
    edit.function = rewriting.replace_statement(edit.function, inside, For(var, ZERO, ONE, inside))
    return edit.handle(var)


@primitive
def partition(edit: Edit, loop: LoopHandle, at: int | Expr) -> tuple[LoopHandle, LoopHandle]:
    """Cut a loop's range in two nests, of the iterations before and from iteration `at` on; returns both loops.

    `at` counts iterations, and is clamped to the extent. The first nest keeps the loops and blocks inside; the second
    has copies, its blocks named `C_rest`.

    requires: a serial loop; `at` an integer or an expression over symbolic extents.
    rewrite:
        for i in 0..n { block C(vi = i) }
        -> for i_0 in 0..4 { block C(vi = i_0) }; for i_1 in 4..n { block C_rest(vi = i_1) }
    """
    node = edit.loop(loop)
    nesting.check_serial(node)
    analyzer = queries.analyzer_of(edit.function, queries.loops_around(edit.function, node))
    nesting.check_starts_once(edit.function, node)
    point = build.as_expr(at)
    nesting.check_over_symbols(edit.function, point, node)
    point = analyzer.simplify(build.minimum(build.maximum(point, 0), node.extent))
    first, second = (build.var(f"{node.var.name}_{k}") for k in range(2))
    copy = rewriting.clone(node.body, rewriting.block_names(edit.function), "rest", {node.var: second})
    begin, left = analyzer.simplify(node.start + point), analyzer.simplify(node.extent - point)
    before = replace(node, var=first, extent=point, body=ir.substitute(node.body, {node.var: first}))
    rest = _without_dead_inits(edit.function, node, replace(node, var=second, start=begin, extent=left, body=copy))
    edit.function = rewriting.replace_statement(edit.function, node, ir.sequence([before, rest]))
    edit.ended(node.var, f"was partitioned into {first.name} and {second.name}")
    return edit.handle(first), edit.handle(second)
