"""Prefetches: cache lines asked for before they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr, Var
from lpx.ir import hardware, traverse
from lpx.ir.nodes import Evaluate, For, Stmt
from lpx.records import replace
from lpx.schedule import queries, rewriting
from lpx.schedule.errors import AccessError, ExtentError, NestingError
from lpx.schedule.handles import LoopHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.queries import Access
from lpx.schedule.regions import Strip, strip_of, union
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.staging import BufferLike, buffer_name, check_open_place, resolve_buffer

_LINE = 64
"""Bytes of a cache line, as `prefetch` counts them."""


@primitive
def prefetch(
    edit: Edit,
    block: BlockLike,
    buffer: BufferLike,
    loop: LoopHandle,
    distance: int = 1,
    *,
    over: LoopHandle | None = None,
) -> None:
    """Ask, in each iteration of `loop`, for what `block` touches of the buffer in the iteration `distance` later.

    Without `over`, one cache line is asked for per read of the buffer, the one read first, as the iteration begins.
    With `over`, which is `loop` or a loop inside it, every line that is read or written is asked for, and the requests
    are spread over the iterations of `over`: the lines come from memory while something else is computed. The last
    iterations ask again for what the last one of all touches: requests beyond the end of a buffer are slow where no
    memory is mapped. Without `over`, a place that is asked for need not exist. Results stay the same.

    requires: `block` stands in `loop` and touches the buffer, at places that are known without reading memory; with
        `over`, how many lines there are, and how many iterations to ask for them, is constant.
    rewrite (distance = 2):
        for i { block C { C[vi] = A[vi] } }
        ->
        for i { prefetch(address of A[i + 2]); block C { C[vi] = A[vi] } }
    rewrite (loop = i, over = r, 16 elements to a line):
        for i { for r in 0..8 { for j in 0..32 { block C { C[vi, vj] = C[vi, vj] + .. } } } }
        ->
        for i in 0..n {
          for r in 0..8 { prefetch(address of C[min(i + 1, n - 1), min(r, 1) * 16]); for j in 0..32 { block C .. } }
        }
    """
    node, outer = edit.block(block), edit.loop(loop)
    place = outer if over is None else edit.loop(over)
    edit.canonical["buffer"] = buffer_name(buffer)
    read, written = traverse.read_buffers(node), traverse.written_buffers(node)
    source = resolve_buffer(edit, buffer, read if over is None else read | written)
    path, around = queries.path_to(edit.function, node), queries.path_to(edit.function, place)
    if source in queries.allocated_within(outer):
        raise AccessError(f"{source.name} exists in one iteration of {outer.var.name} only", mark=outer)
    if outer not in path:
        raise NestingError(f"{outer.var.name} is not a loop around {node.name}", mark=outer)
    if outer not in around:
        raise NestingError(f"{place.var.name} is not a loop inside {outer.var.name}", mark=place)
    check_open_place(around)
    found = [a for a in queries.accesses(node, path[:-1]) if a.buffer is source and a.indices is not None]
    if over is None:
        requests = [_request(_first(a, outer, distance)) for a in found if not a.is_write]
    else:
        box = _lines(queries.analyzer_of(edit.function, queries.loops_of(path)), found, outer)
        analyzer = queries.analyzer_of(edit.function, queries.loops_of(around))
        last = outer.start + outer.extent - 1
        ahead: dict[Var, Expr] = {outer.var: build.minimum(outer.var + distance, last)}
        requests = [_shared_out(analyzer, source, box, ahead, queries.loops_of(around[around.index(outer) + 1 :]))]
    body = traverse.sequence([*requests, place.body])
    edit.function = rewriting.replace_statement(edit.function, place, replace(place, body=body))


def _request(address: Expr) -> Stmt:
    return Evaluate(build.hardware_call(hardware.PREFETCH, [address]))


def _first(access: Access, outer: For, distance: int) -> Expr:
    """The address of what an access reads first in the iteration `distance` later."""
    indices = _known(access)
    inner = queries.loops_of(access.path[access.path.index(outer) + 1 :])
    ahead: dict[Var, Expr] = {**{f.var: f.start for f in inner}, outer.var: outer.var + distance}
    return build.address_of(access.buffer, [expr_traverse.substitute(i, ahead) for i in indices])


def _known(access: Access) -> Sequence[Expr]:
    """The indices of an access; refuses those that cannot be computed ahead."""
    indices, name = access.indices or (), access.block.name if access.block else "a statement"
    touches = f"{name} {'writes' if access.is_write else 'reads'} {access.buffer.name}"
    if any(i.lanes > 1 for i in indices):
        raise AccessError(f"{touches} in vectors", mark=access.block, hint="prefetch before that")
    if any(rewriting.mentions_memory(i) for i in indices):
        raise AccessError(f"where {touches} is itself read from memory", mark=access.block)
    return indices


def _lines(analyzer: Analyzer, found: Sequence[Access], outer: For) -> Sequence[Strip]:
    """The box that accesses touch in an iteration of `outer`, as strips; the last one goes from line to line."""
    buffer = found[0].buffer
    box: list[Strip] = []
    for position in range(len(buffer.shape)):
        strips = [_strip(analyzer, access, position, outer) for access in found]
        box.append(reduce(lambda a, b: union(analyzer, a, b), strips))
    if not box:
        return box
    box = _folded(box, buffer)
    last, per_line = box[-1], max(1, _LINE // buffer.dtype.itemsize)
    if last.step < per_line:
        lines = (_count(last) - 1) * last.step // per_line + 1
        box[-1] = Strip(last.low, build.const(lines), per_line, is_exact=False)
    return box


def _folded(box: Sequence[Strip], buffer: Buffer) -> list[Strip]:
    """The box with dimensions it covers from end to end counted along the last one, which then runs past its end.

    [0..4, 0..8] of a 16 x 8 buffer is [0, 0..32]: lines one after another, found without dividing.
    """
    plain = buffer.layout is None and buffer.strides is None
    kept, run = list(box), 1
    last = box[-1]
    for position in reversed(range(1, len(box) if plain else 1)):
        strip, extent = box[position], queries.constant_value(buffer.shape[position])
        dense = strip.step == 1 and _count(strip) == extent and queries.constant_value(strip.low) == 0
        outer = box[position - 1]
        if not dense or outer.step != 1:
            break
        run *= extent or 1
        kept[position - 1] = Strip(outer.low, build.const(1), 1, outer.is_exact)
        kept[-1] = Strip(last.low, build.const(run * _count(outer)), 1, last.is_exact)
    return kept


def _strip(analyzer: Analyzer, access: Access, position: int, outer: For) -> Strip:
    """The values of one index of an access in an iteration of `outer`."""
    inner = queries.loops_of(access.path[access.path.index(outer) + 1 :])
    strip = strip_of(analyzer, _known(access)[position], inner)
    if strip is None or queries.constant_value(strip.count) is None:
        raise ExtentError(f"how much of {access.buffer.name} an iteration touches is not a constant", mark=outer)
    return strip


def _count(strip: Strip) -> int:
    return max(1, queries.constant_value(strip.count) or 0)


def _shared_out(
    analyzer: Analyzer, source: Buffer, box: Sequence[Strip], ahead: dict[Var, Expr], turns: Sequence[For]
) -> Stmt:
    """The requests of one iteration of the innermost of `turns`, which share the lines of a box among them."""
    iterations = 1
    turn: Expr = build.const(0)
    for loop in turns:
        extent = queries.constant_value(loop.extent)
        if extent is None:
            raise ExtentError(f"the extent of {loop.var.name} is not a constant", mark=loop)
        iterations, turn = iterations * max(extent, 1), turn * extent + (loop.var - loop.start)
    total = prod(_count(strip) for strip in box)
    each, request = -(-total // iterations), build.var("line")
    line = turn * each + request
    if each * iterations > total:
        line = build.minimum(line, total - 1)  # requests to spare are for the last line
    if each == 1:
        line = expr_traverse.substitute(line, {request: build.const(0)})
    analyzer = analyzer.with_range(request, 0, each)
    indices = [expr_traverse.substitute(i, ahead) for i in _indices(box, line)]
    asked = _request(build.address_of(source, [analyzer.simplify(i) for i in indices]))
    return asked if each == 1 else For(request, build.const(0), build.const(each), asked, "unrolled")


def _indices(box: Sequence[Strip], line: Expr) -> Sequence[Expr]:
    """Where the line with a number begins, lines counted along the last dimension first."""
    indices: list[Expr] = []
    for strip in reversed(box):
        indices.append(strip.low + line % _count(strip) * strip.step)
        line = line // _count(strip)
    return indices[::-1]
