"""Recurrent cells as scans over time: plain RNN, GRU, LSTM.

All take `pre[t, b, gates * hidden]`, the input's share of each gate with its biases, `r[gates * hidden, hidden]`, the
weights of the state before, int64 `lengths[b]` (a sequence keeps its state from its length on), and the first states
`[b, hidden]`. They give the state after each step, `[t, b, hidden]`. `activations` name scalar functions, in the order
of the ONNX specification; `clip` bounds what they are applied to, None does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from lpx import te
from lpx.errors import DTypeError
from lpx.expr import build
from lpx.expr.nodes import Expr, Var
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, flag, operands

Activation = Callable[[Expr], Expr]
Element = Callable[[Expr, Expr], Expr]


def _function(name: str) -> Activation:
    def apply(x: Expr) -> Expr:
        return build.maximum(x, 0.0) if name == "relu" else build.call(name, x)

    return apply


class _Cell:
    """What the cells share: shapes, the state's share of the gates, and sequences that have ended."""

    def __init__(self, pre: te.Tensor, r: te.Tensor, lengths: te.Tensor, attrs: Attrs) -> None:
        if not pre.dtype.is_float or pre.dtype.bits < 32:
            raise DTypeError(f"recurrent cells compute in float32 or float64, not {pre.dtype}", hint="cast first")
        self.steps, self.batch = pre.shape[0], pre.shape[1]
        self.hidden = r.shape[1]
        self.activations = [_function(name) for name in cast("tuple[str, ...]", attrs["activations"])]
        self._pre, self._r, self._lengths = pre, r, lengths
        self._clip = cast("float | None", attrs["clip"])

    def compute(self, element: Element, name: str) -> te.Tensor:
        """A tensor [batch, hidden]."""
        return te.compute((self.batch, self.hidden), element, name=name)

    def clipped(self, x: Expr) -> Expr:
        """`x` within the bounds of `clip`."""
        return x if self._clip is None else te.clip(x, -self._clip, self._clip)

    def pre(self, t: Expr, gate: int) -> Element:
        """The input's share of a gate at step `t`."""

        def element(b: Expr, j: Expr) -> Expr:
            return self._pre[t, b, j + self.hidden * gate]

        return element

    def state_share(self, state: te.Tensor, gate: int, name: str) -> te.Tensor:
        """The state's share of a gate."""
        k: Var = te.reduce_axis(self.hidden, name="k")

        def element(b: Expr, j: Expr) -> Expr:
            return te.sum(state[b, k] * self._r[j + self.hidden * gate, k], [k])

        return self.compute(element, name)

    def kept(self, t: Expr, new: te.Tensor, old: te.Tensor, name: str) -> te.Tensor:
        """`new` for sequences that go on at step `t`, `old` for those that have ended."""

        def element(b: Expr, j: Expr) -> Expr:
            return build.select(t < self._lengths[b], new[b, j], old[b, j])

        return self.compute(element, name)


def _define_rnn(inputs: Inputs, attrs: Attrs) -> Outputs:
    """h = f(pre + r h)."""
    pre, r, lengths, start = operands(inputs)
    cell = _Cell(pre, r, lengths, attrs)

    def step(t: Expr, h: te.Tensor) -> te.Tensor:
        share, x = cell.state_share(h, 0, "share"), cell.pre(t, 0)

        def state(b: Expr, j: Expr) -> Expr:
            return cell.activations[0](cell.clipped(x(b, j) + share[b, j]))

        return cell.kept(t, cell.compute(state, "state"), h, "next")

    return (te.scan(cell.steps, start, step, keep="all"),)


def _define_gru(inputs: Inputs, attrs: Attrs) -> Outputs:
    """z, r = f(pre + r h); n = g(pre + r (r * h)); h = (1 - z) * n + z * h.

    With `linear_before_reset`, n = g(pre + r * (r h + bias)), and there is a fifth operand, `bias[hidden]`.
    """
    pre, r, lengths, start, *bias = operands(inputs)
    cell, linear = _Cell(pre, r, lengths, attrs), flag(attrs, "linear_before_reset")
    f, g = cell.activations

    def gate(t: Expr, h: te.Tensor, number: int, name: str) -> te.Tensor:
        share, x = cell.state_share(h, number, f"{name}_share"), cell.pre(t, number)

        def element(b: Expr, j: Expr) -> Expr:
            return f(cell.clipped(x(b, j) + share[b, j]))

        return cell.compute(element, name)

    def step(t: Expr, h: te.Tensor) -> te.Tensor:
        update, reset = gate(t, h, 0, "update"), gate(t, h, 1, "reset")

        def reset_state(b: Expr, j: Expr) -> Expr:
            return reset[b, j] * h[b, j]

        share = cell.state_share(h if linear else cell.compute(reset_state, "reset_state"), 2, "share")
        x = cell.pre(t, 2)

        def candidate(b: Expr, j: Expr) -> Expr:
            own = reset[b, j] * (share[b, j] + bias[0][j]) if linear else share[b, j]
            return g(cell.clipped(x(b, j) + own))

        new = cell.compute(candidate, "candidate")

        def state(b: Expr, j: Expr) -> Expr:
            return (1.0 - update[b, j]) * new[b, j] + update[b, j] * h[b, j]

        return cell.kept(t, cell.compute(state, "state"), h, "next")

    return (te.scan(cell.steps, start, step, keep="all"),)


def _define_lstm(inputs: Inputs, attrs: Attrs) -> Outputs:
    """i, f = s(pre + r h + p c); c = f * c + i * g(pre + r h); o = s(pre + r h + p c); h = o * k(c).

    Gates stand in the order i, o, f, c. The operands after the first states h and c are `peepholes[3 * hidden]`, in the
    order i, o, f, if there are any. Gives the states h, and the states c.
    """
    pre, r, lengths, h_start, c_start, *peepholes = operands(inputs)
    cell = _Cell(pre, r, lengths, attrs)
    squash, squash_input, squash_state = cell.activations

    def gate(t: Expr, h: te.Tensor, c: te.Tensor, number: int, name: str) -> te.Tensor:
        share, x = cell.state_share(h, number, f"{name}_share"), cell.pre(t, number)

        def element(b: Expr, j: Expr) -> Expr:
            total = x(b, j) + share[b, j]
            if peepholes and number < 3:
                total = total + peepholes[0][j + cell.hidden * number] * c[b, j]
            return (squash_input if number == 3 else squash)(cell.clipped(total))

        return cell.compute(element, name)

    def step(t: Expr, h: te.Tensor, c: te.Tensor) -> Sequence[te.Tensor]:
        into, forget, new = (gate(t, h, c, k, name) for k, name in ((0, "input"), (2, "forget"), (3, "candidate")))

        def memory(b: Expr, j: Expr) -> Expr:
            return forget[b, j] * c[b, j] + into[b, j] * new[b, j]

        held = cell.compute(memory, "memory")
        out = gate(t, h, held, 1, "output")

        def state(b: Expr, j: Expr) -> Expr:
            return out[b, j] * squash_state(held[b, j])

        return cell.kept(t, cell.compute(state, "state"), h, "next_h"), cell.kept(t, held, c, "next_c")

    return te.scan(cell.steps, [h_start, c_start], step, keep="all")


for _name, _define in {"rnn": _define_rnn, "gru": _define_gru, "lstm": _define_lstm}.items():
    register(Operator(_name, "opaque", _define))
