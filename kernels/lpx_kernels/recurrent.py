"""Recurrent cells over a sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpx import nn
from lpx_kernels.registry import WIDE_FLOATS, Draw, case, register


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm(x: Any, w: Any, r: Any, bias: Any = 0, hidden: Any = None, cell: Any = None) -> tuple[Any, Any]:
    zero = np.zeros((x.shape[1], r.shape[1]))
    h, c = (zero if state is None else state for state in (hidden, cell))
    states, cells = np.zeros((2, len(x), *zero.shape))
    for t, step in enumerate(x):
        i, o, f, g = np.split(step @ w.T + h @ r.T + bias, 4, axis=1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        states[t], cells[t] = h, c
    return states, cells


def _gru(x: Any, w: Any, r: Any, bias: Any = 0, hidden: Any = None, hidden_bias: Any = None) -> Any:
    h = np.zeros((x.shape[1], r.shape[1])) if hidden is None else hidden
    of_update, of_reset, of_new = np.split(r, 3)
    states = np.zeros((len(x), *h.shape))
    for t, step in enumerate(x):
        update, reset, new = np.split(step @ w.T + bias, 3, axis=1)
        z, gate = _sigmoid(update + h @ of_update.T), _sigmoid(reset + h @ of_reset.T)
        own = (gate * h) @ of_new.T if hidden_bias is None else gate * (h @ of_new.T + hidden_bias)
        h = (1 - z) * np.tanh(new + own) + z * h
        states[t] = h
    return states


def _steps(x: Any, w: Any, r: Any, **_: Any) -> int:
    return int(len(x) * (w.shape[1] + r.shape[1]))


def _small(*shape: int) -> Draw:
    """Weights that keep the states of a long sequence away from the ends of their range."""
    return Draw(shape, "", -0.1, 0.1)


lstm = register(
    nn.lstm,
    "recurrent",
    _lstm,
    case((64, 1, 256), _small(1024, 256), _small(1024, 256), bias=_small(1024)),
    dtypes=WIDE_FLOATS,
    terms=_steps,
)
gru = register(
    nn.gru,
    "recurrent",
    _gru,
    case((64, 1, 256), _small(768, 256), _small(768, 256), bias=_small(768)),
    dtypes=WIDE_FLOATS,
    terms=_steps,
)
