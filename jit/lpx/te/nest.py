"""The loop nest of one definition: loops around a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lpx.expr import build, traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, Expr, Var
from lpx.ir import nodes as ir
from lpx.ir.traverse import sequence
from lpx.source import Span
from lpx.te.definition import Compute, is_component
from lpx.te.reduction import Reduce
from lpx.te.tensor import AxisVar


@dataclass(frozen=True, slots=True)
class TimeLoop:
    """The loop of a scan around the nests of its step: `loop` counts the steps up, whatever way the time runs."""

    time: AxisVar
    loop: Var
    reverse: bool


def block_nest(op: Compute, name: str, around: Sequence[TimeLoop] = ()) -> ir.Stmt:
    """Loops over the axes of `op` around the block that computes it; the `init` of a reduction starts it.

    The block's axes are those of the scans `around` it, then its own.
    """
    axes = (*op.axes, *op.reduce_axes)
    loops = [build.var(axis.name) for axis in axes]
    times = [build.var(f"v{scan.loop.name}") for scan in around]
    inner = [build.var(f"v{axis.name}") for axis in axes]
    values: dict[Var, Expr] = dict(zip(axes, inner, strict=True))
    for scan, step in zip(around, times, strict=True):
        values[scan.time] = scan.time.extent - 1 - step if scan.reverse else step
    init, body = _statements(op, tuple(inner[: len(op.axes)]), _Renaming(values, {}))
    block = ir.Block(
        name,
        (
            *(Axis(step, scan.time.extent, "sequential") for step, scan in zip(times, around, strict=True)),
            *(Axis(v, axis.extent, axis.kind) for v, axis in zip(inner, axes, strict=True)),
        ),
        (*(scan.loop for scan in around), *loops),
        None,
        init,
        body,
        span=op.span,
    )
    nest: ir.Stmt = block
    for loop, axis in zip(reversed(loops), reversed(axes), strict=True):
        nest = ir.For(loop, build.const(0), axis.extent, nest, span=op.span)
    return nest


@dataclass(frozen=True, slots=True)
class _Renaming:
    """Puts the block's axes in place of the definition's, keeping common nodes common."""

    values: dict[Var, Expr]
    memo: dict[Expr, Expr]

    def __call__(self, expr: Expr) -> Expr:
        return traverse.substitute(expr, self.values, self.memo)


def _statements(op: Compute, indices: tuple[Expr, ...], here: _Renaming) -> tuple[ir.Stmt | None, ir.Stmt]:
    targets = [tensor.buffer for tensor in op.outputs]
    reductions = [value for value in op.values if isinstance(value, Reduce)]
    if not reductions:
        return None, _store_all(targets, indices, [here(value) for value in op.values], op.span)
    starts = [here(reduction.start[reduction.position]) for reduction in reductions]
    return _store_all(targets, indices, starts, op.span), _accumulate(targets, indices, reductions, here, op.span)


def _store_all(
    targets: Sequence[Buffer], indices: tuple[Expr, ...], values: Sequence[Expr], span: Span | None
) -> ir.Stmt:
    """All values, then all stores: a value may read what a store overwrites."""
    if len(targets) == 1:
        return ir.Store(targets[0], indices, values[0], span=span)
    held = [build.var(f"{target.name}_new", value.dtype) for target, value in zip(targets, values, strict=True)]
    stores = [ir.Store(target, indices, value, span=span) for target, value in zip(targets, held, strict=True)]
    return _bind(held, values, sequence(stores), span)


def _accumulate(
    targets: Sequence[Buffer],
    indices: tuple[Expr, ...],
    reductions: Sequence[Reduce],
    here: Callable[[Expr], Expr],
    span: Span | None,
) -> ir.Stmt:
    """`C[i] = combine(C[i], x)`. Several components: first bind what comes in, then what is combined, then store."""
    if len(targets) == 1:
        (reduction,) = reductions
        old = build.load(targets[0], indices)
        return ir.Store(targets[0], indices, _combined(reduction, [old], [here(reduction.values[0])])[0], span=span)
    incoming = [here(reduction.values[reduction.position]) for reduction in reductions]
    held = [build.var(f"{target.name}_in", value.dtype) for target, value in zip(targets, incoming, strict=True)]
    old = [build.load(target, indices) for target in targets]
    combined: list[Expr] = []
    for reduction in reductions:
        parts = [
            next(k for k, other in enumerate(reductions) if is_component(other, reduction, position))
            for position in range(len(reduction.values))
        ]
        results = _combined(reduction, [old[k] for k in parts], [held[k] for k in parts])
        combined.append(results[reduction.position])
    return _bind(held, incoming, _store_all(targets, indices, combined, span), span)


def _combined(reduction: Reduce, old: Sequence[Expr], new: Sequence[Expr]) -> tuple[Expr, ...]:
    return reduction.reducer.combined(old, new, reduction.span)


def _bind(held: Sequence[Var], values: Sequence[Expr], body: ir.Stmt, span: Span | None) -> ir.Stmt:
    for variable, value in zip(reversed(held), reversed(values), strict=True):
        body = ir.Let(variable, value, body, span=span)
    return body
