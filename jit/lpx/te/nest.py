"""The loop nest of one definition: loops around a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from lpx.expr import build, traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, Const, Expr, Load, Var
from lpx.ir import nodes as ir
from lpx.ir.traverse import sequence
from lpx.records import record, replace
from lpx.source import Span
from lpx.te.bounds import IndexCheck
from lpx.te.definition import is_component
from lpx.te.reduction import Reduce
from lpx.te.tensor import AxisVar


@record
class TimeLoop:
    """The loop of a scan around the nests of its step: `loop` counts the steps up, whatever way the time runs."""

    time: AxisVar
    loop: Var
    reverse: bool


@record
class Nest:
    """A definition over `axes`: each of `values` is stored to its buffer of `targets`, all at `indices`.

    Everything is in terms of the definition's own axes and tensors; `storage` says where tensors live.
    """

    name: str
    axes: tuple[AxisVar, ...]
    reduce_axes: tuple[AxisVar, ...]
    targets: tuple[Buffer, ...]
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    span: Span | None
    checks: tuple[IndexCheck, ...] = ()
    start_checks: tuple[IndexCheck, ...] = ()


def block_nest(nest: Nest, around: Sequence[TimeLoop], storage: Mapping[Buffer, Buffer]) -> ir.Stmt:
    """Loops over the axes around one block, whose axes are those of the scans `around` it and then its own."""
    if any(isinstance(axis.extent, Const) and axis.extent.value == 0 for axis in nest.reduce_axes):
        nest = _started(nest)
    axes = (*nest.axes, *nest.reduce_axes)
    loops = [build.var(axis.name) for axis in axes]
    steps = [build.var(f"v{scan.loop.name}") for scan in around]
    inner = [build.var(f"v{axis.name}") for axis in axes]
    values: dict[Var, Expr] = dict(zip(axes, inner, strict=True))
    for scan, step in zip(around, steps, strict=True):
        values[scan.time] = scan.time.extent - 1 - step if scan.reverse else step
    init, body = _Body(nest, values, storage).statements()
    stmt: ir.Stmt = ir.Block(
        nest.name,
        (
            *(Axis(step, scan.time.extent, "sequential") for step, scan in zip(steps, around, strict=True)),
            *(Axis(v, axis.extent, axis.kind) for v, axis in zip(inner, axes, strict=True)),
        ),
        (*(scan.loop for scan in around), *loops),
        None,
        init,
        body,
        span=nest.span,
    )
    for loop, axis in zip(reversed(loops), reversed(axes), strict=True):
        stmt = ir.For(loop, build.const(0), axis.extent, stmt, span=nest.span)
    return stmt


def _started(nest: Nest) -> Nest:
    """A reduction over no elements: what it starts from, stored by a loop nest that runs."""
    starts = tuple(value.start[value.position] for value in nest.values if isinstance(value, Reduce))
    return replace(nest, reduce_axes=(), values=starts, checks=nest.start_checks)


@record
class _Body:
    """Writes the statements of a block, in terms of the block's axes and of storage."""

    nest: Nest
    values: Mapping[Var, Expr]
    storage: Mapping[Buffer, Buffer]
    memo: dict[Expr, Expr] = field(default_factory=dict["Expr", "Expr"])

    def statements(self) -> tuple[ir.Stmt | None, ir.Stmt]:
        """The `init` and the body of the block."""
        reductions = [value for value in self.nest.values if isinstance(value, Reduce)]
        if not reductions:
            return None, self._checked(self.nest.checks, self._store([self._here(v) for v in self.nest.values]))
        starts = [self._here(reduction.start[reduction.position]) for reduction in reductions]
        init = self._checked(self.nest.start_checks, self._store(starts))
        return init, self._checked(self.nest.checks, self._accumulate(reductions))

    def _here(self, expr: Expr) -> Expr:
        return traverse.transform(expr, self._rename, self.memo)

    def _rename(self, node: Expr) -> Expr | None:
        if isinstance(node, Var):
            return self.values.get(node)
        if isinstance(node, Load) and node.buffer in self.storage:
            return replace(node, buffer=self.storage[node.buffer])
        return None

    def _checked(self, checks: Sequence[IndexCheck], stmt: ir.Stmt) -> ir.Stmt:
        made = [ir.Check(self._here(check.cond), check.message, span=check.span) for check in checks]
        return sequence([*made, stmt])

    def _store(self, values: Sequence[Expr]) -> ir.Stmt:
        """All values that read memory, then all stores: a value may read what a store overwrites."""
        if len(values) == 1 or not any(isinstance(node, Load) for value in values for node in traverse.walk(value)):
            return self._stores(values)
        held = [build.var(f"{target.name}_new", target.dtype) for target in self.nest.targets]
        return self._bind(held, values, self._stores(held))

    def _stores(self, values: Sequence[Expr]) -> ir.Stmt:
        nest = self.nest
        indices = tuple(self._here(index) for index in nest.indices)
        return sequence([ir.Store(t, indices, v, span=nest.span) for t, v in zip(nest.targets, values, strict=True)])

    def _accumulate(self, reductions: Sequence[Reduce]) -> ir.Stmt:
        """`C[i] = combine(C[i], x)`. Of several components, first what comes in, then what is combined, then stores."""
        indices = tuple(self._here(index) for index in self.nest.indices)
        old: list[Expr] = [build.load(target, indices) for target in self.nest.targets]
        incoming = [self._here(reduction.values[reduction.position]) for reduction in reductions]
        if len(reductions) == 1:
            return self._store(_combined(reductions[0], old, incoming))
        held = [build.var(f"{target.name}_in", target.dtype) for target in self.nest.targets]
        combined: dict[tuple[int, ...], tuple[Expr, ...]] = {}
        values: list[Expr] = []
        for reduction in reductions:
            parts = tuple(_component_of(reduction, k, reductions) for k in range(len(reduction.values)))
            if parts not in combined:
                combined[parts] = _combined(reduction, [old[k] for k in parts], [held[k] for k in parts])
            values.append(combined[parts][reduction.position])
        return self._bind(held, incoming, self._store(values))

    def _bind(self, held: Sequence[Var], values: Sequence[Expr], body: ir.Stmt) -> ir.Stmt:
        for variable, value in zip(reversed(held), reversed(values), strict=True):
            body = ir.Let(variable, value, body, span=self.nest.span)
        return body


def _component_of(reduction: Reduce, position: int, reductions: Sequence[Reduce]) -> int:
    return next(k for k, other in enumerate(reductions) if is_component(other, reduction, position))


def _combined(reduction: Reduce, old: Sequence[Expr], new: Sequence[Expr]) -> tuple[Expr, ...]:
    return reduction.reducer.combined(old, new, reduction.span)
