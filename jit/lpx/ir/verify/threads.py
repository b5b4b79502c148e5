"""Rules about parallel code: regions, barriers, private memory."""

from __future__ import annotations

from collections.abc import Iterator

from lpx.expr.nodes import Expr, Load, Var
from lpx.expr.traverse import walk
from lpx.ir import nodes
from lpx.ir.verify.sites import FunctionSites, Rule, Site, Violation, declared_variables


def _is_thread_loop(stmt: nodes.Stmt) -> bool:
    return isinstance(stmt, nodes.For) and stmt.thread is not None and not stmt.thread.startswith("blockIdx")


def _is_parallel_loop(stmt: nodes.Stmt) -> bool:
    return isinstance(stmt, nodes.For) and stmt.kind == "parallel"


def _splits_threads(stmt: nodes.Stmt) -> bool:
    return _is_thread_loop(stmt) or _is_parallel_loop(stmt)


def _regions(sites: FunctionSites) -> Iterator[Violation]:
    for site in sites.sites:
        if not isinstance(site.stmt, nodes.ParallelRegion):
            continue
        for around in site.enclosing():
            if isinstance(around.stmt, nodes.ParallelRegion) or _is_parallel_loop(around.stmt):
                yield Violation(site.stmt, "a parallel region inside parallel code")
            if _is_thread_loop(around.stmt):
                yield Violation(site.stmt, "a parallel region inside a thread-bound loop")


def _barrier_place(sites: FunctionSites) -> Iterator[Violation]:
    for site in sites.sites:
        if not isinstance(site.stmt, nodes.Barrier):
            continue
        around = [s.stmt for s in site.enclosing()]
        if site.stmt.scope == "region":
            if not any(isinstance(s, nodes.ParallelRegion) for s in around):
                yield Violation(site.stmt, "a region barrier outside any parallel region")
        elif not any(_is_thread_loop(s) for s in around):
            yield Violation(site.stmt, f"a {site.stmt.scope} barrier outside any thread-bound loop")
        if any(_is_parallel_loop(s) for s in around):
            yield Violation(site.stmt, "a barrier inside a parallel loop")


def _uniform_barriers(sites: FunctionSites) -> Iterator[Violation]:
    divergent = _divergent_variables(sites)
    for site in sites.sites:
        if not isinstance(site.stmt, nodes.Barrier):
            continue
        for around in site.enclosing():
            for expr in _control(around.stmt):
                if _is_divergent(expr, divergent):
                    yield Violation(
                        site.stmt, f"a barrier under `{_head(around.stmt)}`, which threads may decide apart"
                    )


def _control(stmt: nodes.Stmt) -> tuple[Expr, ...]:
    """What decides whether, or how often, the inside of a statement runs."""
    match stmt:
        case nodes.If(cond=cond) | nodes.While(cond=cond):
            return (cond,)
        case nodes.For(kind="serial" | "unrolled", start=start, extent=extent):
            return (start, extent)
        case nodes.Block(predicate=predicate) if predicate is not None:
            return (predicate,)
        case _:
            return ()


def _head(stmt: nodes.Stmt) -> str:
    return next(line for line in str(stmt).splitlines() if not line.startswith("$")).removesuffix(" {")


def _divergent_variables(sites: FunctionSites) -> set[Var]:
    """Variables that may differ between threads: their positions, and what is computed from those or from memory."""
    found: set[Var] = set()
    for site in sites.sites:  # program order: declarations come before uses
        if _splits_threads(site.stmt) or any(_is_divergent(root, found) for root in _sources(site)):
            found.update(declared_variables(site.stmt))
    return found


def _sources(site: Site) -> tuple[Expr, ...]:
    match site.stmt:
        case nodes.For(start=start, extent=extent):
            return (start, extent)
        case nodes.Let(value=value):
            return (value,)
        case nodes.Block(bindings=bindings):
            return bindings
        case _:
            return ()


def _is_divergent(expr: Expr, divergent: set[Var]) -> bool:
    return any(isinstance(node, Load) or node in divergent for node in walk(expr))


def _private_memory(sites: FunctionSites) -> Iterator[Violation]:
    for access in sites.accesses:
        alloc = sites.buffers.get(access.buffer)
        if alloc is None or access.buffer.scope not in ("local", "register"):
            continue
        for around in access.site.enclosing():
            if around is alloc:
                break
            if _splits_threads(around.stmt) or isinstance(around.stmt, nodes.ParallelRegion):
                shared = f"the threads of `{_head(around.stmt)}` share it"
                yield Violation(
                    access.site.stmt, f"{access.buffer.name} is {access.buffer.scope}, but {shared}", access.expr
                )


RULES = (
    Rule("regions", "parallel regions do not nest", _regions),
    Rule("barrier-place", "a barrier stands where the threads of its scope run together", _barrier_place),
    Rule(
        "uniform-barriers", "all threads reach a barrier: nothing that differs between them decides", _uniform_barriers
    ),
    Rule(
        "private-memory",
        "local and register memory is allocated inside the threads that use it",
        _private_memory,
        ("lowered", "flat"),
    ),
)
