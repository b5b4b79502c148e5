"""Rules about dtypes and lanes of expressions, and of what statements do with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lpx import dtypes
from lpx.dtypes import DType
from lpx.expr import nodes as e
from lpx.expr import ops, traverse
from lpx.expr.foreign import foreign_function
from lpx.expr.nodes import Expr
from lpx.ir import nodes
from lpx.ir.hardware import is_per_warp
from lpx.ir.verify.sites import Access, FunctionSites, Rule, Site, Violation


def _operand_types(sites: FunctionSites) -> Iterator[Violation]:
    seen: set[Expr] = set()
    for site in sites.sites:
        for node in site.nodes:
            if node in seen:
                continue
            seen.add(node)
            check = _NODES.get(type(node))
            why = "is no expression of the loop-nest IR" if check is None else check(node)
            if why:
                yield Violation(site.stmt, f"a {type(node).__name__} {why}", node)


def _same(expr: Expr, *operands: Expr) -> str:
    if any(o.dtype != expr.dtype for o in operands):
        return f"of {expr.dtype} has operands of {_types(operands)}"
    if any(o.lanes != expr.lanes for o in operands):
        return f"of {expr.lanes} lane(s) has operands of {_lanes(operands)}"
    return ""


def _types(operands: tuple[Expr, ...]) -> str:
    return " and ".join(str(o.dtype) for o in operands)


def _lanes(operands: tuple[Expr, ...]) -> str:
    return " and ".join(str(o.lanes) for o in operands)


def _leaf(expr: e.Var | e.Const) -> str:
    if expr.lanes < 1:
        return "has no lanes"
    return "has lanes; broadcast a scalar one" if isinstance(expr, e.Const) and expr.lanes != 1 else ""


def _unary(expr: e.Unary) -> str:
    return _same(expr, expr.a)


def _binary(expr: e.Binary) -> str:
    return _same(expr, expr.a, expr.b)


def _compare(expr: e.Compare) -> str:
    if not expr.dtype.is_bool:
        return f"gives {expr.dtype}, not bool"
    if expr.a.dtype != expr.b.dtype:
        return f"has operands of {expr.a.dtype} and {expr.b.dtype}"
    return f"has operands of {_lanes((expr.a, expr.b))} lanes" if not expr.lanes == expr.a.lanes == expr.b.lanes else ""


def _select(expr: e.Select) -> str:
    if not expr.cond.dtype.is_bool or expr.cond.lanes != expr.lanes:
        return f"of {expr.lanes} lane(s) has a condition of {expr.cond.dtype} x {expr.cond.lanes}"
    return _same(expr, expr.a, expr.b)


def _cast(expr: e.Cast) -> str:
    if dtypes.handle in (expr.dtype, expr.value.dtype):
        return "converts an address"
    return "" if expr.value.lanes == expr.lanes else "changes the number of lanes"


def _bitcast(expr: e.Bitcast) -> str:
    if expr.value.dtype.bits != expr.dtype.bits:
        return f"views {expr.value.dtype} as {expr.dtype}, of another width"
    return "" if expr.value.lanes == expr.lanes else "changes the number of lanes"


def _load(expr: e.Load) -> str:
    return "" if expr.dtype == expr.buffer.dtype else f"of {expr.dtype} reads a buffer of {expr.buffer.dtype}"


def _address(expr: e.AddressOf) -> str:
    return "" if expr.dtype == dtypes.handle and expr.lanes == 1 else "is not one handle"


def _ramp(expr: e.Ramp) -> str:
    if expr.base.lanes != 1 or expr.stride.lanes != 1 or expr.lanes < 2:
        return "takes scalars and has at least two lanes"
    same = expr.base.dtype == expr.stride.dtype == expr.dtype and expr.dtype.is_integer
    return "" if same else f"of {expr.dtype} has operands of {_types((expr.base, expr.stride))}"


def _broadcast(expr: e.Broadcast) -> str:
    if expr.value.lanes != 1 or expr.lanes < 2:
        return "takes a scalar and has at least two lanes"
    return "" if expr.value.dtype == expr.dtype else f"of {expr.dtype} repeats a {expr.value.dtype}"


def _shuffle(expr: e.Shuffle) -> str:
    total = sum(v.lanes for v in expr.vectors)
    if len(expr.indices) != expr.lanes or not all(0 <= i < total for i in expr.indices):
        return f"picks lanes {list(expr.indices)} out of {total} for {expr.lanes}"
    return "" if all(v.dtype == expr.dtype for v in expr.vectors) else f"of {expr.dtype} has other vectors"


def _lookup(expr: e.Lookup) -> str:
    if not expr.index.dtype.is_integer or expr.index.lanes != expr.lanes:
        return f"of {expr.lanes} lane(s) is indexed by {expr.index.dtype} x {expr.index.lanes}"
    if expr.dtype not in (dtypes.float32, dtypes.float64):
        return f"picks a {expr.dtype}"
    return "" if len(expr.table).bit_count() == 1 else f"picks from {len(expr.table)} constants, no power of two"


def _reduce(expr: e.HorizontalReduce) -> str:
    return "" if expr.lanes == 1 and expr.value.dtype == expr.dtype else "is not one scalar of its operand's dtype"


def _call(expr: e.Call) -> str:
    op, args = expr.op, expr.args
    if len(args) != op.arity:
        return f"of {op.name} has {len(args)} operand(s), not {op.arity}"
    if op.kind in ("hardware", "extern"):
        return ""
    if op.kind == "foreign":
        return _foreign_call(expr)
    if not _in_domain(op.domain, args[0].dtype) or any(a.dtype != args[0].dtype for a in args):
        return f"of {op.name} has operands of {_types(args)}"
    if any(a.lanes != expr.lanes for a in args):
        return f"of {op.name} in {expr.lanes} lane(s) has operands of {_lanes(args)}"
    result = args[0].dtype if op.result == "same" else dtypes.parse(op.result)
    return "" if expr.dtype == result else f"of {op.name} gives {expr.dtype}, not {result}"


def _foreign_call(expr: e.Call) -> str:
    if not expr.args or any(a.lanes != expr.lanes for a in expr.args):
        return f"of {expr.op.name} in {expr.lanes} lane(s) has operands of {_lanes(expr.args)}"
    if tuple(a.dtype for a in expr.args) != foreign_function(expr.op).parameters:
        return f"of {expr.op.name} has operands of {_types(expr.args)}"
    return ""


def _in_domain(domain: ops.Domain, dtype: DType) -> bool:
    match domain:
        case "float":
            return dtype.is_float
        case "integer":
            return dtype.is_integer
        case "bool":
            return dtype.is_bool
        case "number":
            return dtype.is_float or dtype.is_integer
        case _:
            return True


_NODES: dict[type[Expr], Callable[[Any], str]] = {
    e.Var: _leaf,
    e.Const: _leaf,
    e.Unary: _unary,
    e.Binary: _binary,
    e.Compare: _compare,
    e.Select: _select,
    e.Cast: _cast,
    e.Bitcast: _bitcast,
    e.Load: _load,
    e.AddressOf: _address,
    e.Ramp: _ramp,
    e.Broadcast: _broadcast,
    e.Shuffle: _shuffle,
    e.Lookup: _lookup,
    e.HorizontalReduce: _reduce,
    e.Call: _call,
}


def _access_shape(sites: FunctionSites) -> Iterator[Violation]:
    for access in sites.accesses:
        yield from _access(access)


def _access(access: Access) -> Iterator[Violation]:
    stmt = access.site.stmt
    if len(access.indices) != access.buffer.rank:
        what = f"{access.buffer.name} has {access.buffer.rank} dimension(s), not {len(access.indices)}"
        yield Violation(stmt, what, access.expr)
    lanes = max((i.lanes for i in access.indices), default=1)
    for index in access.indices:
        if not index.dtype.is_integer:
            yield Violation(stmt, f"an index of {access.buffer.name} is {index.dtype}", index)
        if index.lanes not in (1, lanes):
            yield Violation(stmt, f"an index of {index.lanes} lanes beside one of {lanes}", index)
    if access.mask is not None and not (access.mask.dtype.is_bool and access.mask.lanes == lanes):
        yield Violation(stmt, f"the mask of {lanes} lane(s) is {access.mask.dtype} x {access.mask.lanes}", access.mask)
    if isinstance(access.expr, e.Load) and access.expr.lanes != lanes:
        yield Violation(stmt, f"a Load of {access.expr.lanes} lanes has indices of {lanes}", access.expr)


def _statement_types(sites: FunctionSites) -> Iterator[Violation]:
    for site in sites.sites:
        for expr, why in _statement(site.stmt):
            yield Violation(site.stmt, why, expr)


def _statement(stmt: nodes.Stmt) -> Iterator[tuple[Expr | None, str]]:
    match stmt:
        case nodes.For(var=var, start=start, extent=extent):
            for bound in (start, extent):
                if bound.dtype != var.dtype or bound.lanes != 1 or not var.dtype.is_integer:
                    yield bound, f"a bound of loop {var.name} ({var.dtype}) is {bound.dtype} x {bound.lanes}"
        case nodes.If(cond=cond) | nodes.While(cond=cond) if not (cond.dtype.is_bool and cond.lanes == 1):
            yield cond, f"the condition is {cond.dtype} x {cond.lanes}"
        case nodes.Check(cond=cond) if not cond.dtype.is_bool:
            yield cond, f"the condition is {cond.dtype}"
        case nodes.Let(var=var, value=value) if (var.dtype, var.lanes) != (value.dtype, value.lanes):
            yield value, f"{var.name} is {var.dtype} x {var.lanes}, its value {value.dtype} x {value.lanes}"
        case nodes.Store(buffer=buffer, indices=indices, value=value):
            yield from _stored(buffer.name, buffer.dtype, indices, value)
        case nodes.AtomicUpdate(buffer=buffer, indices=indices, value=value):
            yield from _stored(buffer.name, buffer.dtype, indices, value)
        case nodes.AsyncCopy(target=target, source=source) if target.dtype != source.dtype:
            yield None, f"{source.name} is {source.dtype}, {target.name} is {target.dtype}"
        case nodes.Block():
            yield from _block_types(stmt)
        case _:
            pass


def _stored(name: str, dtype: DType, indices: tuple[Expr, ...], value: Expr) -> Iterator[tuple[Expr | None, str]]:
    lanes = max((i.lanes for i in indices), default=1)
    if value.dtype != dtype:
        yield value, f"{name} holds {dtype}, not {value.dtype}"
    if value.lanes != lanes:
        yield value, f"{value.lanes} lane(s) are stored to {lanes} element(s)"


def _block_types(stmt: nodes.Block) -> Iterator[tuple[Expr | None, str]]:
    for axis, binding in zip(stmt.axes, stmt.bindings, strict=False):
        for expr in (axis.extent, binding):
            if expr.dtype != axis.var.dtype or expr.lanes != 1:
                yield expr, f"axis {axis.var.name} is {axis.var.dtype}, this {expr.dtype} x {expr.lanes}"
    predicate = stmt.predicate
    if predicate is not None and not (predicate.dtype.is_bool and predicate.lanes == 1):
        yield predicate, f"the predicate is {predicate.dtype} x {predicate.lanes}"


def _warp_operations(sites: FunctionSites) -> Iterator[Violation]:
    for site in sites.sites:
        whole = _whole_value(site)
        for node in site.nodes:
            if isinstance(node, e.Call) and is_per_warp(node.op) and node is not whole:
                yield Violation(site.stmt, f"{node.op.name} is an operand of something else", node)


def _whole_value(site: Site) -> Expr | None:
    match site.stmt:
        case nodes.Store(value=value) | nodes.Let(value=value) | nodes.Evaluate(value=value):
            return value
        case _:
            return None


def _addresses(sites: FunctionSites) -> Iterator[Violation]:
    for site in sites.sites:
        for node in site.nodes:
            takes_address = isinstance(node, e.Call) and node.op.kind in ("hardware", "extern")
            for child in traverse.children(node):
                if isinstance(child, e.AddressOf) and not takes_address:
                    yield Violation(site.stmt, "an address is an operand of something else", child)


RULES = (
    Rule("operand-types", "operands have the dtypes and lanes their operation takes", _operand_types),
    Rule("access-shape", "an access has one integer index per dimension and a bool mask of its lanes", _access_shape),
    Rule(
        "statement-types", "stored values, bounds and conditions have the dtype and lanes asked for", _statement_types
    ),
    Rule("warp-operations", "an operation of a whole warp is the whole value of a statement", _warp_operations),
    Rule("addresses", "addresses go to hardware operations and extern functions only", _addresses),
)
