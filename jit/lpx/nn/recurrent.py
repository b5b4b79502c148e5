"""Recurrent cells over a sequence: LSTM (Hochreiter and Schmidhuber, 1997) and GRU (Cho et al., 2014)."""

from __future__ import annotations

from lpx.errors import ShapeError
from lpx.frontends.numpy.trace import TracedArray
from lpx.graph import shapes
from lpx.nn.primitive import Array, floats, primitive, same_dtype
from lpx.source import capture


@primitive
def lstm(
    x: Array,
    w: Array,
    r: Array,
    bias: Array | None = None,
    hidden: Array | None = None,
    cell: Array | None = None,
    *,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Hidden states and cells after each step, [t, b, h] both, of x[t, b, i] with w[4 h, i], r[4 h, h] and bias[4 h].

    With the gates i, o, f, g = x w.T + h r.T + bias, in this order: c = sigmoid(f) c + sigmoid(i) tanh(g), and
    h = sigmoid(o) tanh(c). `hidden` and `cell` [b, h] are the first states, 0 unless given. In float32 or float64.

    Raises: DTypeError, ShapeError.
    """
    shares, weights, lengths = _shares("lstm", x, w, r, bias, 4)
    starts = [_start("lstm", shares, weights, state) for state in (hidden, cell)]
    activations = ("sigmoid", "tanh", "tanh")
    states, cells = shares.owner.add_multi(
        "lstm", shares, weights, lengths, *starts, activations=activations, clip=None
    )
    return states, cells


@primitive
def gru(
    x: Array,
    w: Array,
    r: Array,
    bias: Array | None = None,
    hidden: Array | None = None,
    hidden_bias: Array | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """Hidden states after each step, [t, b, h], of x[t, b, i] with w[3 h, i], r[3 h, h] and bias[3 h].

    With the gates z, r, n = x w.T + bias, in this order, and z, r after a sigmoid with h r.T added:
    h = (1 - z) tanh(n + (r * h) r.T) + z h. With `hidden_bias[h]` the reset comes after the product, as in cuDNN:
    n + r * (h r.T + hidden_bias). `hidden` [b, h] is the first state, 0 unless given. In float32 or float64.

    Raises: DTypeError, ShapeError.
    """
    shares, weights, lengths = _shares("gru", x, w, r, bias, 3)
    operands = [shares, weights, lengths, _start("gru", shares, weights, hidden)]
    if hidden_bias is not None:
        operands.append(_like("gru", shares, hidden_bias, weights.shape[1:]))
    attrs = {"activations": ("sigmoid", "tanh"), "clip": None, "linear_before_reset": hidden_bias is not None}
    return shares.owner.add("gru", *operands, **attrs)


def _shares(
    name: str, x: Array, w: Array, r: Array, bias: Array | None, gates: int
) -> tuple[TracedArray, TracedArray, TracedArray]:
    """The input's share of all gates [t, b, gates * h], the weights of the state, and how long each sequence is."""
    array = floats(name, x)
    trace = array.owner
    of_input, of_state = trace.array(w), trace.array(r)
    same_dtype(name, array, of_input, of_state)
    fits = array.ndim == 3 and of_input.ndim == of_state.ndim == 2
    if (
        not fits
        or of_state.shape[0] != gates * of_state.shape[1]
        or of_input.shape != (of_state.shape[0], array.shape[2])
    ):
        found = ", ".join(shapes.shape_text(a.shape) for a in (array, of_input, of_state))
        raise ShapeError(f"{name} of {found}", hint=f"x[t, b, i], w[{gates} h, i], r[{gates} h, h]", span=capture())
    shares = trace.add("matmul", array, of_input.T)
    if bias is not None:
        shares = trace.add("add", shares, _like(name, shares, bias, of_state.shape[:1]))
    steps, batch = array.shape[:2]
    lengths = trace.add("broadcast", trace.extent(steps, "int64"), shape=(batch,))
    return shares, of_state, lengths


def _start(name: str, shares: TracedArray, weights: TracedArray, state: Array | None) -> TracedArray:
    """A first state [b, h]."""
    shape = (shares.shape[1], weights.shape[1])
    if state is not None:
        return _like(name, shares, state, shape)
    return shares.owner.add("broadcast", shares.owner.number(0, shares.dtype), shape=shape)


def _like(name: str, shares: TracedArray, operand: Array, shape: tuple[shapes.Dim, ...]) -> TracedArray:
    array = shares.owner.array(operand)
    same_dtype(name, shares, array)
    if not shapes.same_shape(array.shape, shape):
        raise ShapeError(
            f"{name} with a state or bias of shape {shapes.shape_text(array.shape)}",
            hint=f"its shape must be {shapes.shape_text(shape)}",
            span=capture(),
        )
    return array
