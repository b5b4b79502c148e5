"""Generic traversal of expressions: children, rebuilding, substitution.

A rewriter that changes nothing returns the same object, and a node used twice is rewritten once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from lpx.expr import build, nodes
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr

Children = tuple[Expr, ...]

_CHILDREN: dict[type[Expr], Callable[[Any], Children]] = {
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
    nodes.HorizontalReduce: lambda e: (e.value,),
    nodes.Call: lambda e: e.args,
}


def children(expr: Expr) -> Children:
    """The direct operands of a node, in evaluation order."""
    get = _CHILDREN.get(type(expr))
    return _inherited(type(expr))(expr) if get is None else get(expr)


def _inherited(kind: type[Expr]) -> Callable[[Any], Children]:
    """The entry of the nearest base of `kind`, which gets one of its own."""
    _CHILDREN[kind] = next(_CHILDREN[base] for base in kind.__mro__ if base in _CHILDREN)
    return _CHILDREN[kind]


def rebuild(expr: Expr, new: Sequence[Expr]) -> Expr:
    """The node with other operands; the same node when they are the same objects.

    The operands may have other lanes than before (a scalar expression becomes a vector one): lanes follow the operands.
    """
    old = children(expr)
    if len(old) == len(new) and all(map(is_, old, new)):
        return expr
    match expr:
        case nodes.Unary(op=op):
            return build.unary(op, new[0])
        case nodes.Binary(op=op):
            return build.binary(op, new[0], new[1])
        case nodes.Compare(op=op):
            return build.compare(op, new[0], new[1])
        case nodes.Select():
            return build.select(new[0], new[1], new[2])
        case nodes.Cast(dtype=dtype):
            return build.cast(new[0], dtype)
        case nodes.Bitcast(dtype=dtype):
            return build.bitcast(new[0], dtype)
        case nodes.Ramp(lanes=lanes):
            return build.ramp(new[0], new[1], lanes)
        case nodes.Broadcast(lanes=lanes):
            return build.broadcast(new[0], lanes)
        case nodes.HorizontalReduce(op=op):
            return build.horizontal_reduce(op, new[0])
        case nodes.Load(buffer=buffer, mask=mask):
            indices, new_mask = (new, None) if mask is None else (new[:-1], new[-1])
            return build.load(buffer, indices, new_mask)
        case nodes.AddressOf(buffer=buffer):
            return build.address_of(buffer, new)
        case nodes.Shuffle(indices=indices):
            return build.shuffle(new, indices)
        case nodes.Call(op=op) if op.kind in ("math", "primitive"):
            return build.call(op, *new)
        case nodes.Call():
            return replace(expr, args=tuple(new))
        case _:
            return _extensions[type(expr)](expr, new)


Rebuild = Callable[[Any, Sequence[Expr]], Expr]
_extensions: dict[type[Expr], Rebuild] = {}


def register_node(kind: type[Expr], get: Callable[[Any], Children], put: Rebuild) -> None:
    """Teach the traversal an expression class of a higher layer (such as a reduction in a tensor expression)."""
    _CHILDREN[kind] = get
    _extensions[kind] = put


def transform(expr: Expr, visit: Callable[[Expr], Expr | None], memo: dict[Expr, Expr] | None = None) -> Expr:
    """Rewrite bottom up: operands first, then `visit` may replace the rebuilt node (None keeps it).

    `memo` may be shared between expressions of one statement so that common nodes stay common.
    """
    done: dict[Expr, Expr] = {} if memo is None else memo
    stack = [expr]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        operands = children(node)
        pending = [c for c in operands if c not in done]
        if pending:
            stack.extend(reversed(pending))
            continue
        stack.pop()
        rebuilt = rebuild(node, [done[c] for c in operands]) if operands else node
        replaced = visit(rebuilt)
        done[node] = rebuilt if replaced is None else replaced
    return done[expr]


def substitute(expr: Expr, values: Mapping[nodes.Var, Expr], memo: dict[Expr, Expr] | None = None) -> Expr:
    """`expr` with variables replaced; nodes without them are kept."""
    if not values:
        return expr
    return transform(expr, lambda e: values.get(e) if isinstance(e, nodes.Var) else None, memo)


def walk(expr: Expr) -> Iterator[Expr]:
    """Every distinct node once, operands before users."""
    seen: set[Expr] = set()
    stack = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((c, False) for c in reversed(children(node)))


def free_vars(expr: Expr) -> set[nodes.Var]:
    """The variables an expression mentions."""
    return {e for e in walk(expr) if isinstance(e, nodes.Var)}


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
        case nodes.Call(op=f), nodes.Call(op=g):
            return f == g
        case _:
            return getattr(x, "op", None) == getattr(y, "op", None)
