"""Recurrent operators: directions, lengths of sequences, layouts, peepholes, first states."""

from __future__ import annotations

import numpy as np
import pytest

from lpx.errors import UnsupportedError
from tests.frontends.onnx.support import Array, Case, case, check, floats, onnxruntime, run_case

STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
LENGTHS = np.array([5, 2, 4], np.int32)


def weights(op: str, directions: int, bias: bool = True) -> list[Array | None]:
    """x, w, r and (maybe) the biases."""
    size = GATES[op] * HIDDEN
    return [
        floats(STEPS, BATCH, INPUT),
        floats(directions, size, INPUT, seed=1),
        floats(directions, size, HIDDEN, seed=2),
        floats(directions, 2 * size, seed=3) if bias else None,
    ]


def states(op: str, directions: int) -> list[Array]:
    """First states."""
    return [floats(directions, BATCH, HIDDEN, seed=s) for s in ((4, 5) if op == "LSTM" else (4,))]


def outputs(op: str) -> int:
    return 3 if op == "LSTM" else 2


@pytest.mark.parametrize(
    ("op", "direction"), [("GRU", "reverse"), *((op, "bidirectional") for op in ("RNN", "GRU", "LSTM"))]
)
def test_directions(op: str, direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    operands = [*weights(op, count), LENGTHS, *states(op, count)]
    c = case(op, *operands, hidden_size=HIDDEN, direction=direction, outputs=outputs(op))
    check(c, rtol=1e-4, atol=1e-5, oracle=onnxruntime)


MORE = [
    case("GRU", *weights("GRU", 1), hidden_size=HIDDEN, linear_before_reset=1, outputs=2),
    case("GRU", *weights("GRU", 1, bias=False)[:3], hidden_size=HIDDEN, linear_before_reset=1, outputs=2),
    case("RNN", *weights("RNN", 1), hidden_size=HIDDEN, activations=["Relu"], outputs=2),
    case("RNN", *weights("RNN", 1), hidden_size=HIDDEN, clip=0.5, outputs=2),
    case(
        "LSTM",
        *weights("LSTM", 1),
        None,
        *states("LSTM", 1),
        floats(1, 3 * HIDDEN, seed=6),
        hidden_size=HIDDEN,
        outputs=3,
    ),
]


@pytest.mark.parametrize("c", MORE, ids=str)
def test_options(c: Case) -> None:
    check(c, rtol=1e-4, atol=1e-5, oracle=onnxruntime)


def test_batch_first() -> None:
    x, w, r, b = weights("GRU", 1)
    plain = run_case(case("GRU", x, w, r, b, hidden_size=HIDDEN, outputs=2))
    assert x is not None
    swapped = run_case(case("GRU", x.transpose(1, 0, 2), w, r, b, hidden_size=HIDDEN, layout=1, outputs=2))
    np.testing.assert_array_equal(swapped[0], plain[0].transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(swapped[1], plain[1].transpose(1, 0, 2))


def test_activations_that_are_not_there() -> None:
    with pytest.raises(UnsupportedError, match="supported are sigmoid, tanh, relu"):
        run_case(case("RNN", *weights("RNN", 1), hidden_size=HIDDEN, activations=["Elu"], outputs=2))


def test_constant_weights() -> None:
    """Weights and biases as initializers, as models have them."""
    c = case("LSTM", *weights("LSTM", 1), None, *states("LSTM", 1), hidden_size=HIDDEN, outputs=3, static=[1, 2, 3])
    check(c, rtol=1e-4, atol=1e-5, oracle=onnxruntime)
