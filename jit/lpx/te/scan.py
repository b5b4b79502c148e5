"""Recurrences: `te.scan` carries states from step to step along a time axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, cast, overload

from lpx import dtypes
from lpx.errors import DefinitionError, DTypeError, ShapeError
from lpx.expr.nodes import Expr
from lpx.records import record
from lpx.source import Span, capture
from lpx.te.definition import Compute, compute, parameter_names
from lpx.te.functions import Scalar
from lpx.te.shapes import parse_extent, same_shape, tensor_argument
from lpx.te.signatures import Positional, Step
from lpx.te.tensor import AxisVar, Frame, Operation, Tensor, check_open, open_frames, shape_text
from lpx.te.update import version_root

Keep = Literal["last", "all"]
Init = Tensor | tuple[object, Positional[Scalar, Expr]]
"""The value of a state before the first step: a tensor, or a shape and a function that define one."""


@record(eq=False, kw_only=True)
class ScanState(Operation):
    """A state as the step finds it."""


@record
class State:
    """One state of a scan: its value before the first step, before a step, and after a step.

    `after` is computed within the step, and is the value after the step of this state only.
    """

    init: Tensor
    before: Tensor
    after: Tensor
    keep: Keep


@record(eq=False, kw_only=True)
class Scan(Operation):
    """The outputs are, for each state, its last value or (with a leading axis for the time) all its values."""

    frame: Frame
    reverse: bool
    states: tuple[State, ...]


@overload
def scan(
    extent: object,
    init: Init,
    step: Step[Tensor],
    *,
    keep: Keep = "last",
    reverse: bool = False,
    name: str | Sequence[str] | None = None,
) -> Tensor: ...
@overload
def scan(
    extent: object,
    init: Sequence[Init],
    step: Step[Sequence[Tensor]],
    *,
    keep: Keep | Sequence[Keep] = "last",
    reverse: bool = False,
    name: str | Sequence[str] | None = None,
) -> tuple[Tensor, ...]: ...
def scan(
    extent: object,
    init: Init | Sequence[Init],
    step: Step[Tensor] | Step[Sequence[Tensor]],
    *,
    keep: Keep | Sequence[Keep] = "last",
    reverse: bool = False,
    name: str | Sequence[str] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """States carried through `extent` steps: `step(t, *states)` gives their new values, as tensors defined in it.

    `t` runs from 0 up, or with `reverse` from `extent - 1` down. States start as `init` (one tensor or definition, or
    a sequence of them) and keep shape and dtype. The result per state is its value after the last step (`init` when
    there is none), or with `keep="all"` a tensor of shape `(extent, *shape)` whose element t is its value after the
    step at t. A kept last state is updated in place where the step allows it. `step` is called once; what it defines
    may read tensors from outside, and lives in it only. `name` defaults to the names of its parameters.

        total = te.scan(n, ((m,), lambda i: 0.0), lambda t, s: te.compute((m,), lambda i: s[i] + X[t, i]), keep="all")

    Raises: DefinitionError, ShapeError, DTypeError.
    """
    span = capture()
    single = isinstance(init, Tensor) or _is_definition(init)
    inits = cast("list[Init]", [init] if single else list(cast("Sequence[Init]", init)))
    if not inits:
        raise DefinitionError("a scan has at least one state", span=span)
    parameters = parameter_names(
        step, 1 + len(inits), f"the step takes the time and one tensor per state (1 + {len(inits)})", span
    )
    names = _state_names(name, parameters[1:], span)
    keeps = _parse_keep(keep, len(inits), span)
    time = AxisVar(dtypes.index, 1, parameters[0], parse_extent(extent, "a scan", span), "sequential")
    frame = Frame(names[0], time)
    starts = [_parse_init(entry, label, span) for entry, label in zip(inits, names, strict=True)]
    outer = open_frames.get()
    befores = [_define_state(start, label, (*outer, frame), span) for start, label in zip(starts, names, strict=True)]
    afters = _run_step(step, frame, befores, single, span)
    states = tuple(State(*parts) for parts in zip(starts, befores, afters, keeps, strict=True))
    outputs = tuple(_output(state, label, time.extent) for state, label in zip(states, names, strict=True))
    op = Scan(outputs=outputs, scope=outer, span=span, frame=frame, reverse=reverse, states=states)
    for tensor in outputs:
        tensor.define(op)
    return outputs[0] if single else outputs


def _is_definition(init: object) -> bool:
    return (
        isinstance(init, tuple)
        and len(cast("tuple[object, ...]", init)) == 2
        and callable(cast("tuple[object, ...]", init)[1])
    )


def _parse_init(init: object, label: str, span: Span | None) -> Tensor:
    if _is_definition(init):
        shape, body = cast("tuple[object, Positional[Scalar, Expr]]", init)
        return compute(shape, body, name=f"{label}_init")
    tensor = tensor_argument(init, f"the start of state {label}", span)
    check_open(tensor, span)
    return tensor


def _define_state(init: Tensor, label: str, scope: tuple[Frame, ...], span: Span | None) -> Tensor:
    tensor = Tensor(label, init.dtype, init.buffer.shape)
    tensor.define(ScanState(outputs=(tensor,), scope=scope, span=span))
    return tensor


def _output(state: State, label: str, extent: Expr) -> Tensor:
    lead = (extent,) if state.keep == "all" else ()
    return Tensor(label, state.before.dtype, (*lead, *state.before.buffer.shape))


def _run_step(
    step: Callable[..., object], frame: Frame, befores: Sequence[Tensor], single: bool, span: Span | None
) -> list[Tensor]:
    """The new states, each made an own tensor of the step."""
    token = open_frames.set((*open_frames.get(), frame))
    try:
        made = step(frame.time, *befores)
        news = [made] if single or not isinstance(made, tuple | list) else list(cast("Sequence[object]", made))
        if len(news) != len(befores):
            raise DefinitionError(
                f"the step gives {len(news)} tensor(s) for {len(befores)} state(s)",
                hint="return the new value of each state, in order",
                span=span,
            )
        afters: list[Tensor] = []
        for new, before in zip(news, befores, strict=True):
            after = _check_new(new, before, span)
            afters.append(after if _is_own(after, before, frame, afters) else _copied(after))
        return afters
    finally:
        open_frames.reset(token)


def _check_new(value: object, before: Tensor, span: Span | None) -> Tensor:
    new = tensor_argument(value, f"the new value of state {before.name}", span)
    check_open(new, span)
    if new.dtype != before.dtype:
        raise DTypeError(
            f"state {before.name} holds {before.dtype}, but its new value {new.name} is {new.dtype}",
            hint=f'te.cast(..., "{before.dtype}"), or start the state with {new.dtype}',
            span=span,
        )
    if not same_shape(new.buffer.shape, before.buffer.shape):
        raise ShapeError(
            f"state {before.name} has shape {shape_text(before)}, but its new value {new.name} has {shape_text(new)}",
            hint="a state keeps its shape",
            span=span,
        )
    return new


def _is_own(new: Tensor, before: Tensor, frame: Frame, taken: Sequence[Tensor]) -> bool:
    """Whether `new` is computed by this step, in memory that no other state has."""
    root = version_root(new)
    if any(version_root(other) is root for other in taken):
        return False
    if root is before:
        return True
    return isinstance(root.op, Compute) and root.op.scope[-1:] == (frame,)


def _copied(tensor: Tensor) -> Tensor:
    def element(*axes: Expr) -> Expr:
        return tensor[axes]

    return compute(tensor.buffer.shape, element, name=tensor.name)


def _state_names(name: str | Sequence[str] | None, parameters: list[str], span: Span | None) -> list[str]:
    if name is None:
        return parameters
    if isinstance(name, str):
        return [name] if len(parameters) == 1 else [f"{name}_{parameter}" for parameter in parameters]
    if len(name) != len(parameters):
        raise DefinitionError(f"{len(name)} name(s) for {len(parameters)} state(s)", span=span)
    return list(name)


def _parse_keep(keep: object, count: int, span: Span | None) -> list[Keep]:
    keeps = (
        [keep] * count
        if isinstance(keep, str) or not isinstance(keep, Sequence)
        else list(cast("Sequence[object]", keep))
    )
    if len(keeps) != count or any(k not in ("last", "all") for k in keeps):
        raise DefinitionError(
            f"keep is {keep!r}", hint='give "last" or "all", for all states or one for each', span=span
        )
    return cast("list[Keep]", keeps)
