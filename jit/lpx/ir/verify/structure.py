"""Rules about loops, blocks and the forms of each stage."""

from __future__ import annotations

from collections.abc import Iterator

from lpx.expr import traverse
from lpx.expr.nodes import AddressOf, Broadcast, Const, Expr, Ramp
from lpx.ir import nodes
from lpx.ir.nodes import Stage
from lpx.ir.verify.sites import FunctionSites, Rule, Violation

_AFTER_LOWERING: tuple[Stage, ...] = ("lowered", "flat")


def _loop_form(sites: FunctionSites) -> Iterator[Violation]:
    for site in sites.sites:
        stmt = site.stmt
        if not isinstance(stmt, nodes.For):
            continue
        name = stmt.var.name
        if stmt.kind in ("vectorized", "unrolled") and not isinstance(stmt.extent, Const):
            yield Violation(stmt, f"the extent of {stmt.kind} loop {name} is not constant", stmt.extent)
        if (stmt.kind == "bound") != (stmt.thread is not None):
            yield Violation(stmt, f"loop {name} is {stmt.kind} with thread axis {stmt.thread}")
        if stmt.stages is not None and len(stmt.stages) != _length(stmt.body):
            yield Violation(stmt, f"loop {name} has {len(stmt.stages)} stages for {_length(stmt.body)} statements")


def _length(stmt: nodes.Stmt) -> int:
    return len(stmt.stmts) if isinstance(stmt, nodes.Seq) else 1


def _block_form(sites: FunctionSites) -> Iterator[Violation]:
    names: set[str] = set()
    for site in sites.sites:
        stmt = site.stmt
        if not isinstance(stmt, nodes.Block):
            continue
        if stmt.name in names:
            yield Violation(stmt, f"a second block {stmt.name}")
        names.add(stmt.name)
        if len(stmt.bindings) != len(stmt.axes):
            yield Violation(stmt, f"block {stmt.name} has {len(stmt.axes)} axes and {len(stmt.bindings)} bindings")


def _block_init(sites: FunctionSites) -> Iterator[Violation]:
    for site in sites.sites:
        stmt = site.stmt
        if not isinstance(stmt, nodes.Block) or stmt.init is None:
            continue
        reduce = {axis.var for axis in stmt.axes if axis.kind == "reduce"}
        if not reduce:
            yield Violation(stmt, f"block {stmt.name} has an init but no reduce axis")
        init = sites.sites[site.number + 1]  # children stand in order, the init first
        for inner in sites.sites[init.number : init.last + 1]:
            for var in reduce.intersection(inner.nodes):
                yield Violation(inner.stmt, f"the init of block {stmt.name} uses its reduce axis {var.name}", var)


def _lowered_form(sites: FunctionSites) -> Iterator[Violation]:
    for site in sites.sites:
        match site.stmt:
            case nodes.Block(name=name):
                yield Violation(site.stmt, f"block {name} is still there")
            case nodes.For(kind="vectorized" | "unrolled" as kind, var=var):
                yield Violation(site.stmt, f"loop {var.name} is still {kind}")
            case _:
                pass


def _register_indices(sites: FunctionSites) -> Iterator[Violation]:
    for access in sites.accesses:
        if access.buffer.scope != "register":
            continue
        if isinstance(access.expr, AddressOf):
            yield Violation(
                access.site.stmt, f"the address of register buffer {access.buffer.name} is taken", access.expr
            )
        for index in access.indices:
            if not _is_constant(index):
                what = f"an index of register buffer {access.buffer.name} is not constant"
                yield Violation(access.site.stmt, what, index)


def _is_constant(index: Expr) -> bool:
    if isinstance(index, Ramp | Broadcast):
        return all(isinstance(c, Const) for c in traverse.children(index))
    return isinstance(index, Const)


def _flat_buffers(sites: FunctionSites) -> Iterator[Violation]:
    for access in sites.accesses:
        buffer = access.buffer
        if buffer.rank != 1 or buffer.strides is not None or buffer.layout is not None:
            yield Violation(
                access.site.stmt, f"{buffer.name} still has a shape, strides or a layout of its own", access.expr
            )


def _copies(sites: FunctionSites) -> Iterator[Violation]:
    for site in sites.sites:
        match site.stmt:
            case nodes.AsyncCopy(count=count) if count < 1:
                yield Violation(site.stmt, f"{count} elements are copied")
            case nodes.AsyncCopy(target=target, source=source) if not (target.rank and source.rank):
                yield Violation(site.stmt, "a buffer without dimensions has no consecutive elements")
            case nodes.AsyncWait(pending=pending) if pending < 0:
                yield Violation(site.stmt, f"{pending} groups cannot be pending")
            case _:
                pass


def _buffer_form(sites: FunctionSites) -> Iterator[Violation]:
    for buffer, site in sites.buffers.items():
        stmt = None if site is None else site.stmt
        if buffer.alignment < 1 or buffer.alignment & (buffer.alignment - 1):
            yield Violation(stmt, f"{buffer.name} is aligned to {buffer.alignment} bytes")
        if buffer.dtype.kind == "handle":
            yield Violation(stmt, f"{buffer.name} holds addresses")
        if buffer.strides is not None and buffer.layout is None and len(buffer.strides) != buffer.rank:
            yield Violation(stmt, f"{buffer.name} has {buffer.rank} dimension(s) and {len(buffer.strides)} strides")
        if site is None and buffer.scope != "global":
            yield Violation(stmt, f"{buffer.name} comes from outside and is {buffer.scope}")


def _constant_values(sites: FunctionSites) -> Iterator[Violation]:
    for buffer, array in sites.function.constants.items():
        shape = [d.value if isinstance(d, Const) else None for d in buffer.shape]
        if array.dtype != buffer.dtype.to_numpy() or shape != list(array.shape):
            what = f"constant {buffer.name} is {buffer.dtype}{shape}, its elements {array.dtype}{list(array.shape)}"
            yield Violation(None, what)


RULES = (
    Rule("loop-form", "vectorized and unrolled loops have constant extents, bound ones a thread axis", _loop_form),
    Rule("block-form", "names of blocks are unique, and each axis has one binding", _block_form, ("scheduled",)),
    Rule("block-init", "an init starts a reduction: it needs reduce axes and does not use them", _block_init),
    Rule("lowered-form", "no blocks, vectorized or unrolled loops after lowering", _lowered_form, _AFTER_LOWERING),
    Rule(
        "register-indices",
        "indices of register buffers are constant after lowering",
        _register_indices,
        _AFTER_LOWERING,
    ),
    Rule("flat-buffers", "buffers of a flat function are compact and of one dimension", _flat_buffers, ("flat",)),
    Rule("async-copies", "copies and waits have sensible counts", _copies),
    Rule("buffer-form", "alignment is a power of two, strides match the shape, parameters are global", _buffer_form),
    Rule("constant-values", "a constant's elements have its dtype and constant shape", _constant_values),
)
