"""Preparation: what a scheduled function computes from constants alone runs once, when the kernel is linked.

    func f(x: in, w: constant, y: out)             func f_prepare(w: constant, p: out)    # once
      alloc p                                 ->     for ...: p[...] = w[...]
      for ...: p[...] = w[...]                     func f(x: in, y: out, p: constant)      # at every call
      for ...: y[...] = x[...] * p[...]              for ...: y[...] = x[...] * p[...]

So a schedule packs weights the same way whether they are constants or arguments. A nest is moved when it stands outside
of all loops, and what it makes is not much larger than what it reads: making it again may then be cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Const
from lpx.ir import traverse
from lpx.ir.nodes import Alloc, Check, Function, Param, Seq, Stmt
from lpx.records import record, replace

GROWTH = 4
"""How many times larger than the constants it is made from a prepared buffer may be."""


@record
class Separated:
    """`main` runs at every call. `preparation` runs once before; its outputs are the last parameters of `main`.

    `main` takes the parameters of the original function at the positions `kept`, and the constant ones at `sources` are
    what `preparation` takes.
    """

    main: Function
    preparation: Function | None = None
    kept: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()


def separate(function: Function) -> Separated:
    """`function` without what it computes from constants alone, and that as a function of its own."""
    allocated, statements = _root(function)
    constant = {p.buffer for p in function.params if p.role == "constant"}
    moved = _movable(statements, constant, set(allocated))
    rest = [s for s in statements if s not in moved]
    everywhere = tuple(range(len(function.params)))
    if not moved or not rest:
        return Separated(function, None, everywhere)
    made = {b for s in moved for b in traverse.written_buffers(s)}
    read = {b for s in rest for b in traverse.read_buffers(s)}
    prepared = [b for b in allocated if b in made and b in read]
    used = {b for s in moved for b in traverse.read_buffers(s)}
    sources = tuple(k for k in everywhere if function.params[k].buffer in used)
    kept = tuple(k for k in everywhere if function.params[k].role != "constant" or function.params[k].buffer in read)
    preparation = Function(
        f"{function.name}_prepare",
        (*(function.params[k] for k in sources), *(Param(b, "out") for b in prepared)),
        (),
        _allocating([b for b in allocated if b in made and b not in read], moved),
        function.attrs,
    )
    main = replace(
        function,
        params=(*(function.params[k] for k in kept), *(Param(b, "constant") for b in prepared)),
        body=_allocating([b for b in allocated if b not in made], rest),
    )
    return Separated(main, preparation, kept, sources)


def _root(function: Function) -> tuple[list[Buffer], list[Stmt]]:
    """The buffers allocated for the whole function, and the statements it runs one after another."""
    allocated: list[Buffer] = []
    body = function.body
    while isinstance(body, Alloc):
        allocated.append(body.buffer)
        body = body.body
    return allocated, list(body.stmts) if isinstance(body, Seq) else [body]


def _allocating(buffers: Sequence[Buffer], statements: Sequence[Stmt]) -> Stmt:
    body = traverse.sequence(statements)
    for buffer in reversed(buffers):
        body = Alloc(buffer, body)
    return body


def _movable(statements: Sequence[Stmt], constant: set[Buffer], allocated: set[Buffer]) -> list[Stmt]:
    """The statements that read nothing but constants and what such statements made, in order."""
    written = [traverse.written_buffers(s) for s in statements]
    found: list[Stmt] = []
    known = set(constant)
    for statement, made in zip(statements, written, strict=True):
        reads = traverse.read_buffers(statement) - made
        alone = all(sum(b in w for w in written) == 1 for b in made)
        if made and reads <= known and made <= allocated and alone and _pays(reads, made) and not _checks(statement):
            found.append(statement)
            known |= made
    return found


def _checks(statement: Stmt) -> bool:
    return any(isinstance(s, Check) for s in traverse.walk(statement))


def _pays(reads: set[Buffer], made: set[Buffer]) -> bool:
    """Whether buffers are plain memory of known size, not much more of it than what they are made from."""
    plain = all(b.scope == "global" and b.layout is None and b.strides is None for b in made)
    if not plain or not all(isinstance(e, Const) for b in (*reads, *made) for e in b.shape):
        return False
    return sum(map(_size, made)) <= GROWTH * sum(map(_size, reads))


def _size(buffer: Buffer) -> int:
    return prod(int(e.value) for e in buffer.shape if isinstance(e, Const))
