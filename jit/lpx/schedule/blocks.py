"""Checks and questions about single blocks, shared by the primitives that move, inline or duplicate them."""

from __future__ import annotations

from lpx.arith.analyzer import Analyzer
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Binary, Expr, Var
from lpx.ir import traverse
from lpx.ir.nodes import Alloc, AsyncCopy, Block, Function, Stmt, Store
from lpx.schedule import queries, rewriting
from lpx.schedule.errors import AccessError, BlockFormError, OutputError, ProducerError
from lpx.schedule.queries import Path


def outputs_of(block: Block) -> list[Buffer]:
    """What a block writes, in order of first write."""
    written = traverse.written_buffers(block)
    stores = [s.buffer for s in traverse.walk(block) if isinstance(s, Store)]
    return [b for b in dict.fromkeys(stores) if b in written]


def inputs_of(block: Block) -> set[Buffer]:
    """What a block reads and does not write itself."""
    return traverse.read_buffers(block) - traverse.written_buffers(block)


def check_temporaries(function: Function, block: Block, why: str) -> None:
    """Refuses a block that writes a tensor of the caller's."""
    params = queries.param_buffers(function)
    for buffer in outputs_of(block):
        if buffer in params:
            raise OutputError(
                f"{buffer.name} is an output of the program, {why}",
                hint="move its producers or consumers instead",
                mark=block,
            )


def check_only_writer(function: Function, block: Block) -> None:
    """Refuses a block whose tensors another statement writes as well."""
    for buffer in outputs_of(block):
        for path in queries.walk_paths(function.body):
            if _writes(path[-1], buffer) and block not in path:
                other = next((s.name for s in reversed(path) if isinstance(s, Block)), "another statement")
                raise BlockFormError(
                    f"{buffer.name} is also written by {other}",
                    hint="a tensor computed in parts (by tail='peel' or partition) stays where it is",
                    mark=path[-1],
                )


def _writes(stmt: Stmt, buffer: Buffer) -> bool:
    return not traverse.substatements(stmt) and buffer in traverse.written_buffers(stmt)


def check_plain_domain(function: Function, block: Block) -> None:
    """Refuses a block that does not run once for each value in its axes' domains, which is what new loops would do.

    Such are one whose predicate leaves out more than values outside the domains, and one that starts copies of rows.
    """
    if any(isinstance(s, AsyncCopy) for s in traverse.walk(block)):
        raise BlockFormError(
            f"block {block.name} copies several elements at once", mark=block, hint="move it before async_copy"
        )
    loops = queries.loops_around(function, block)
    analyzer = queries.analyzer_of(function, loops)
    for axis, value in zip(block.axes, block.bindings, strict=True):
        for fact in domain_facts(value, axis.extent):
            analyzer = analyzer.with_fact(fact)
    for condition in rewriting.conjuncts(block.predicate):
        if not analyzer.prove(condition):
            raise BlockFormError(
                f"the predicate of block {block.name} says more than that its axes are in range", mark=block
            )


def domain_facts(value: Expr, extent: Expr) -> list[Expr]:
    """What 0 <= value < extent says, also about the dividend of a quotient: x // n < m says x < m * n."""
    facts = [value >= 0, value < extent]
    if isinstance(value, Binary) and value.op == "floordiv":
        facts += domain_facts(value.a, extent * value.b)
    return facts


def check_in_scope(function: Function, block: Block, where: Path) -> None:
    """Refuses a place (a path) at which a temporary that the block reads does not exist."""
    at_hand = {s.buffer for s in where if isinstance(s, Alloc)}
    everywhere = set(queries.param_buffers(function)) | set(function.constants)
    for buffer in inputs_of(block):
        if buffer not in at_hand and buffer not in everywhere:
            raise ProducerError(
                f"{block.name} reads {buffer.name}, which exists only inside another loop",
                hint="move the consumer before its producer",
                mark=block,
            )


def store_indices(block: Block, buffer: Buffer) -> tuple[Expr, ...]:
    """The one tuple of indices at which a block writes `buffer`. Refuses several different ones."""
    found = [s.indices for s in traverse.walk(block) if isinstance(s, Store) and s.buffer is buffer]
    for other in found[1:]:
        if not all(expr_traverse.structural_equal(a, b) for a, b in zip(found[0], other, strict=True)):
            raise AccessError(f"block {block.name} writes {buffer.name} at several places", mark=block)
    return found[0]


def check_plain_access(function: Function, buffer: Buffer) -> None:
    """Refuses a tensor of which an address is taken, or that is handed to another function as a whole."""
    for access in queries.accesses(function.body):
        if access.buffer is buffer and access.indices is None:
            raise AccessError(f"{buffer.name} is not only read and written by index", mark=access.path[-1])


def changing_vars(analyzer: Analyzer, expr: Expr, variables: set[Var]) -> frozenset[Var]:
    """Those of `variables` that a simplified expression mentions."""
    return expr_traverse.free_vars(analyzer.simplify(expr)) & variables
