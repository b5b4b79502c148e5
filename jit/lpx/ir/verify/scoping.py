"""Rules about names: what is declared, once, and visible where it is used."""

from __future__ import annotations

from collections.abc import Iterator

from lpx.expr import traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr, Var
from lpx.ir import nodes
from lpx.ir.printer import type_exprs
from lpx.ir.verify.sites import FunctionSites, Rule, Site, Violation, declared_variables


def _declared_once(sites: FunctionSites) -> Iterator[Violation]:
    seen: set[Var | Buffer] = set()
    function = sites.function
    own: list[Var | Buffer] = [*function.symbols, *(p.buffer for p in function.params), *function.constants]
    for item in own:
        if item in seen:
            yield Violation(None, f"{item.name} is declared twice by the function")
        seen.add(item)
    for site in sites.sites:
        declared: list[Var | Buffer] = [*declared_variables(site.stmt)]
        if isinstance(site.stmt, nodes.Alloc):
            declared.append(site.stmt.buffer)
        for item in declared:
            if item in seen:
                yield Violation(site.stmt, f"{item.name} is declared a second time")
            seen.add(item)


def _variable_in_scope(sites: FunctionSites) -> Iterator[Violation]:
    for param in sites.function.params:
        yield from _unknown_in_type(sites, param.buffer)
    for site in sites.sites:
        for var in _used(site):
            if var not in sites.variables:
                yield Violation(site.stmt, f"{var.name} is declared nowhere", var)
                continue
            place = sites.variables[var]
            if place is not None and not place.contains(site):
                yield Violation(site.stmt, f"{var.name} is used outside the statement that declares it", var)


def _unknown_in_type(sites: FunctionSites, buffer: Buffer) -> Iterator[Violation]:
    known = {*sites.function.symbols, *(buffer.layout.variables if buffer.layout is not None else ())}
    for expr in type_exprs(buffer):
        for var in traverse.free_vars(expr) - known:
            yield Violation(None, f"the type of parameter {buffer.name} mentions {var.name}, no symbol")


def _used(site: Site) -> Iterator[Var]:
    own = set(declared_variables(site.stmt)) if isinstance(site.stmt, nodes.Alloc) else set[Var]()
    return (node for node in site.nodes if isinstance(node, Var) and node not in own)


def _block_sees_axes_only(sites: FunctionSites) -> Iterator[Violation]:
    for site in sites.sites:
        block = site.block()
        if block is None:
            continue
        for var in _used(site):
            place = sites.variables.get(var)
            if place is not None and place is not block and not block.contains(place):
                yield Violation(site.stmt, f"{_block_name(block)} uses {var.name} of a loop outside", var)


def _block_name(site: Site) -> str:
    return f"block {site.stmt.name}" if isinstance(site.stmt, nodes.Block) else "the block"


def _buffer_in_scope(sites: FunctionSites) -> Iterator[Violation]:
    for site, expr, buffer in _buffer_uses(sites):
        if buffer not in sites.buffers:
            yield Violation(site.stmt, f"{buffer.name} is neither a parameter, a constant nor allocated", expr)
            continue
        place = sites.buffers[buffer]
        if place is not None and not place.contains(site):
            yield Violation(site.stmt, f"{buffer.name} is used outside its alloc", expr)


def _buffer_uses(sites: FunctionSites) -> Iterator[tuple[Site, Expr | None, Buffer]]:
    for access in sites.accesses:
        yield access.site, access.expr, access.buffer
    for site in sites.sites:
        if isinstance(site.stmt, nodes.CallFunction):
            for buffer in site.stmt.buffers:
                yield site, None, buffer


def _inputs_are_read_only(sites: FunctionSites) -> Iterator[Violation]:
    inputs = {p.buffer for p in sites.function.params if p.is_input}
    for access in sites.accesses:
        if access.writes and access.buffer in inputs:
            yield Violation(access.site.stmt, f"{access.buffer.name} is an in parameter")
        if access.writes and access.buffer in sites.function.constants:
            yield Violation(access.site.stmt, f"{access.buffer.name} is a constant")


RULES = (
    Rule("declared-once", "a variable or buffer is declared in one place", _declared_once),
    Rule("variable-in-scope", "a variable is used inside the loop, let or block that declares it", _variable_in_scope),
    Rule("buffer-in-scope", "a buffer is a parameter, a constant, or used inside its alloc", _buffer_in_scope),
    Rule("block-axes", "a block sees loops around it only through its axes", _block_sees_axes_only, ("scheduled",)),
    Rule("read-only", "in parameters and constants are not written", _inputs_are_read_only),
)
