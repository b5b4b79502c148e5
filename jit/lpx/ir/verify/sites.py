"""A function laid out for checking: every statement with its place, its expressions, and what is declared where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lpx.expr import traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Expr, Load, Var
from lpx.ir import nodes
from lpx.ir.nodes import Function, Stage, Stmt
from lpx.ir.printer import type_exprs
from lpx.ir.traverse import expressions, substatements
from lpx.records import record


@record
class Violation:
    """A statement that breaks a rule (None: the function's head does), how, and which of its expressions does."""

    stmt: Stmt | None
    why: str
    expr: Expr | None = None


@dataclass(slots=True, eq=False)
class Site:
    """A statement in its place. Sites are numbered in program order; those inside have numbers up to `last`."""

    stmt: Stmt
    parent: Site | None
    number: int
    roots: tuple[Expr, ...]
    last: int = 0
    nodes: tuple[Expr, ...] = field(default=())

    def contains(self, other: Site) -> bool:
        """Whether `other` is inside this statement (not itself)."""
        return self.number < other.number <= self.last

    def enclosing(self) -> Iterator[Site]:
        """The statements around this one, innermost first."""
        site = self.parent
        while site is not None:
            yield site
            site = site.parent

    def block(self) -> Site | None:
        """The innermost block around this statement."""
        return next((s for s in self.enclosing() if isinstance(s.stmt, nodes.Block)), None)


@record
class Access:
    """One access to a buffer, by a Load or AddressOf, or by the statement itself (`expr` is None)."""

    site: Site
    expr: Load | AddressOf | None
    buffer: Buffer
    indices: tuple[Expr, ...]
    mask: Expr | None
    writes: bool


class FunctionSites:
    """All sites of a function. A declaration maps to its site, or to None when the function declares it."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.sites = list(_layout(function.body))
        self.variables: dict[Var, Site | None] = dict.fromkeys(function.symbols)
        self.buffers: dict[Buffer, Site | None] = dict.fromkeys(p.buffer for p in function.params)
        self.buffers.update(dict.fromkeys(function.constants))
        for site in self.sites:
            self.variables.update(dict.fromkeys(declared_variables(site.stmt), site))
            if isinstance(site.stmt, nodes.Alloc):
                self.buffers[site.stmt.buffer] = site
        self.accesses = [access for site in self.sites for access in _accesses(site)]


Check = Callable[[FunctionSites], Iterator[Violation]]


@record
class Rule:
    """A rule of the IR: where it holds, what is legal (for the error), and what finds violations."""

    name: str
    legal: str
    check: Check
    stages: tuple[Stage, ...] = ("scheduled", "lowered", "flat")


def declared_variables(stmt: Stmt) -> tuple[Var, ...]:
    """The variables a statement declares for what is inside it."""
    match stmt:
        case nodes.For(var=var) | nodes.Let(var=var):
            return (var,)
        case nodes.Block(axes=axes):
            return tuple(axis.var for axis in axes)
        case nodes.Alloc(buffer=buffer) if buffer.layout is not None:
            return buffer.layout.variables
        case _:
            return ()


def _layout(body: Stmt) -> Iterator[Site]:
    sites: list[Site] = []
    stack: list[tuple[Stmt, Site | None]] = [(body, None)]
    while stack:
        stmt, parent = stack.pop()
        roots = _roots(stmt)
        site = Site(stmt, parent, len(sites), roots, len(sites), _distinct(roots))
        sites.append(site)
        stack.extend((child, site) for child in reversed(substatements(stmt)))
    for site in reversed(sites):
        if site.parent is not None:
            site.parent.last = max(site.parent.last, site.last)
    return iter(sites)


def _roots(stmt: Stmt) -> tuple[Expr, ...]:
    match stmt:
        case nodes.Block(axes=axes):
            return (*(axis.extent for axis in axes), *expressions(stmt))
        case nodes.Alloc(buffer=buffer):
            return type_exprs(buffer)
        case _:
            return expressions(stmt)


def _distinct(roots: Sequence[Expr]) -> tuple[Expr, ...]:
    return tuple(dict.fromkeys(node for root in roots for node in traverse.walk(root)))


def _accesses(site: Site) -> Iterator[Access]:
    for node in site.nodes:
        match node:
            case Load(buffer=buffer, indices=indices, mask=mask):
                yield Access(site, node, buffer, indices, mask, False)
            case AddressOf(buffer=buffer, indices=indices):
                yield Access(site, node, buffer, indices, None, False)
            case _:
                pass
    stmt = site.stmt
    match stmt:
        case nodes.Store(buffer=buffer, indices=indices, mask=mask):
            yield Access(site, None, buffer, indices, mask, True)
        case nodes.AtomicUpdate(buffer=buffer, indices=indices):
            yield Access(site, None, buffer, indices, None, True)
        case nodes.AsyncCopy():
            yield Access(site, None, stmt.target, stmt.target_indices, None, True)
            yield Access(site, None, stmt.source, stmt.source_indices, None, False)
        case _:
            pass
