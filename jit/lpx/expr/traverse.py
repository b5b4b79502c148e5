"""Generic traversal of expressions: children, rebuilding, substitution.

A rewriter that changes nothing returns the same object, and a node used twice is rewritten once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, TypeVar, cast

from lpx.expr import build, nodes
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr
from lpx.records import replace

Children = tuple[Expr, ...]
Rebuild = Callable[[Any, Sequence[Expr]], Expr]
Summary = tuple[frozenset[nodes.Var], bool]

_NOTHING: Summary = (frozenset(), False)


_Function = TypeVar("_Function", bound=Callable[..., Any])


class ByKind(dict[type[Expr], _Function]):
    """A function per node class; a class without an entry gets that of its nearest base."""

    def __missing__(self, kind: type[Expr]) -> _Function:
        self[kind] = next(self[base] for base in kind.__mro__ if base in self)
        return self[kind]


_CHILDREN = ByKind[Callable[[Any], Children]](
    {
        nodes.Var: lambda _: (),
        nodes.Const: lambda _: (),
        nodes.Unary: lambda e: (e.a,),
        nodes.Binary: lambda e: (e.a, e.b),
        nodes.Compare: lambda e: (e.a, e.b),
        nodes.Select: lambda e: (e.cond, e.a, e.b),
        nodes.Cast: lambda e: (e.value,),
        nodes.Bitcast: lambda e: (e.value,),
        nodes.Load: lambda e: e.indices if e.mask is None else (*e.indices, e.mask),
        nodes.AddressOf: lambda e: e.indices,
        nodes.Ramp: lambda e: (e.base, e.stride),
        nodes.Broadcast: lambda e: (e.value,),
        nodes.Shuffle: lambda e: e.vectors,
        nodes.Lookup: lambda e: (e.index,),
        nodes.HorizontalReduce: lambda e: (e.value,),
        nodes.Call: lambda e: e.args,
    }
)


def _rebuild_load(expr: nodes.Load, new: Sequence[Expr]) -> Expr:
    indices, mask = (new, None) if expr.mask is None else (new[:-1], new[-1])
    return build.load(expr.buffer, indices, mask)


def _rebuild_call(expr: nodes.Call, new: Sequence[Expr]) -> Expr:
    if expr.op.kind in ("math", "primitive", "foreign"):
        return build.call(expr.op, *new)
    return replace(expr, args=tuple(new))


_REBUILD = ByKind[Rebuild](
    {
        nodes.Unary: lambda e, new: build.unary(e.op, new[0]),
        nodes.Binary: lambda e, new: build.binary(e.op, new[0], new[1]),
        nodes.Compare: lambda e, new: build.compare(e.op, new[0], new[1]),
        nodes.Select: lambda _, new: build.select(new[0], new[1], new[2]),
        nodes.Cast: lambda e, new: build.cast(new[0], e.dtype),
        nodes.Bitcast: lambda e, new: build.bitcast(new[0], e.dtype),
        nodes.Load: _rebuild_load,
        nodes.AddressOf: lambda e, new: build.address_of(e.buffer, new),
        nodes.Ramp: lambda e, new: build.ramp(new[0], new[1], e.lanes),
        nodes.Broadcast: lambda e, new: build.broadcast(new[0], e.lanes),
        nodes.Shuffle: lambda e, new: build.shuffle(new, e.indices),
        nodes.Lookup: lambda e, new: build.lookup(e.table, new[0], e.dtype),
        nodes.HorizontalReduce: lambda e, new: build.horizontal_reduce(e.op, new[0]),
        nodes.Call: _rebuild_call,
    }
)


def children(expr: Expr) -> Children:
    """The direct operands of a node, in evaluation order."""
    return _CHILDREN[type(expr)](expr)


def rebuild(expr: Expr, new: Sequence[Expr]) -> Expr:
    """The node with other operands; the same node when they are the same objects.

    The operands may have other lanes than before (a scalar expression becomes a vector one): lanes follow the operands.
    """
    kind = type(expr)
    old = _CHILDREN[kind](expr)
    if len(old) == len(new) and all(map(is_, old, new)):
        return expr
    return _REBUILD[kind](expr, new)


def register_node(kind: type[Expr], get: Callable[[Any], Children], put: Rebuild) -> None:
    """Teach the traversal an expression class of a higher layer (such as a reduction in a tensor expression)."""
    _CHILDREN[kind] = get
    _REBUILD[kind] = put


def transform(
    expr: Expr,
    visit: Callable[[Expr], Expr | None],
    memo: dict[Expr, Expr] | None = None,
    within: Callable[[Expr], bool] | None = None,
) -> Expr:
    """Rewrite bottom up: operands first, then `visit` may replace the rebuilt node (None keeps it).

    `memo` may be shared between expressions of one statement so that common nodes stay common. Expressions for which
    `within` is false are kept without a look inside: `touches_memory` where only reads and addresses change.
    """
    done: dict[Expr, Expr] = {} if memo is None else memo
    stack: list[Expr | None] = [expr]
    while stack:
        node = stack.pop()
        if node is None:  # the operands of the node below are done
            node = cast("Expr", stack.pop())
            rebuilt = rebuild(node, [done[c] for c in _CHILDREN[type(node)](node)])
        elif node in done:
            continue
        elif within is not None and not within(node):
            done[node] = node
            continue
        elif operands := _CHILDREN[type(node)](node):
            stack += (node, None)
            stack += operands[::-1]
            continue
        else:
            rebuilt = node
        replaced = visit(rebuilt)
        done[node] = rebuilt if replaced is None else replaced
    return done[expr]


def substitute(expr: Expr, values: Mapping[nodes.Var, Expr], memo: dict[Expr, Expr] | None = None) -> Expr:
    """`expr` with variables replaced; nodes without them are kept."""
    done: dict[Expr, Expr] = {} if memo is None else memo
    done.update(values.items())
    return transform(expr, _keep, done, lambda e: not free_vars(e).isdisjoint(values))


def _keep(_: Expr) -> None:
    """The `visit` of a rewriting that replaces only what its memo holds."""


def walk(expr: Expr) -> Iterator[Expr]:
    """Every distinct node once, operands before users."""
    seen: set[Expr] = set()
    stack: list[Expr | None] = [expr]
    while stack:
        node = stack.pop()
        if node is None:  # the operands of the node below have been walked
            yield cast("Expr", stack.pop())
        elif node not in seen:
            seen.add(node)
            operands = _CHILDREN[type(node)](node)
            if operands:
                stack += (node, None)
                stack += operands[::-1]
            else:
                yield node


def free_vars(expr: Expr) -> frozenset[nodes.Var]:
    """The variables an expression mentions."""
    try:
        return expr.summary[0]
    except AttributeError:
        return _summarise(expr)[0]


def touches_memory(expr: Expr) -> bool:
    """Whether an expression reads memory or takes an address."""
    try:
        return expr.summary[1]
    except AttributeError:
        return _summarise(expr)[1]


def accesses(expr: Expr) -> tuple[nodes.Load | nodes.AddressOf, ...]:
    """The distinct reads and addresses of buffers in an expression, operands before users."""
    if not touches_memory(expr):
        return ()
    if not hasattr(expr, "found"):
        found = tuple([e for e in walk(expr) if isinstance(e, nodes.Load | nodes.AddressOf)])
        object.__setattr__(expr, "found", found)
    return expr.found


def _summarise(expr: Expr) -> Summary:
    """The summary of a node, after those of its operands."""
    stack = [expr]
    while stack:
        node = stack[-1]
        operands = _CHILDREN[type(node)](node)
        pending = [c for c in operands if not hasattr(c, "summary")]
        if pending:
            stack += pending
            continue
        stack.pop()
        variables, touches = _join([c.summary for c in operands])
        if isinstance(node, nodes.Var):
            variables = frozenset((node,))
        touches = touches or isinstance(node, nodes.Load | nodes.AddressOf)
        object.__setattr__(node, "summary", (variables, touches))
    return expr.summary


def _join(summaries: Sequence[Summary]) -> Summary:
    """The summary of several expressions; often that of one of them, whose set they then share."""
    variables, touches = summaries[0] if summaries else _NOTHING
    for others, more in summaries[1:]:
        if not others <= variables:
            variables = variables | others
        touches = touches or more
    return variables, touches


def structural_equal(
    a: Expr,
    b: Expr,
    variables: Mapping[nodes.Var, nodes.Var] | None = None,
    buffers: Mapping[Buffer, Buffer] | None = None,
) -> bool:
    """Whether two expressions are the same tree, variables and buffers of `a` standing for those of `b` as mapped.

    Those not in the mappings must be identical objects.
    """
    mapping: dict[Any, Any] = {**(variables or {}), **(buffers or {})}
    stack = [(a, b)]
    proved: set[tuple[int, int]] = set()
    while stack:
        x, y = stack.pop()
        if (x is y and not mapping) or (id(x), id(y)) in proved:
            continue
        proved.add((id(x), id(y)))
        if not _same_head(x, y, mapping):
            return False
        stack.extend(zip(children(x), children(y), strict=True))
    return True


def _same_head(x: Expr, y: Expr, mapping: Mapping[Any, Any]) -> bool:
    if type(x) is not type(y) or x.dtype != y.dtype or x.lanes != y.lanes or len(children(x)) != len(children(y)):
        return False
    match x, y:
        case nodes.Var(), nodes.Var():
            return mapping.get(x, x) is y
        case nodes.Const(value=v), nodes.Const(value=w):
            return repr(v) == repr(w)  # tells -0.0 from 0.0, and NaN equals NaN
        case (nodes.Load(buffer=p), nodes.Load(buffer=q)) | (nodes.AddressOf(buffer=p), nodes.AddressOf(buffer=q)):
            return mapping.get(p, p) is q
        case nodes.Shuffle(indices=i), nodes.Shuffle(indices=j):
            return i == j
        case nodes.Lookup(table=s), nodes.Lookup(table=t):
            return repr(s) == repr(t)
        case nodes.Call(op=f), nodes.Call(op=g):
            return f == g
        case _:
            return getattr(x, "op", None) == getattr(y, "op", None)
