"""Softmax, and normalisation by means and deviations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lpx import nn
from lpx_kernels.registry import Draw, case, register


def _log_softmax(x: Any, axis: int = -1) -> Any:
    if not x.size:
        return x
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _softmax(x: Any, axis: int = -1) -> Any:
    return np.exp(_log_softmax(x, axis))


def _normal(x: Any, axes: Any, eps: float) -> Any:
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(axes, keepdims=True) + eps)


def _affine(x: Any, gamma: Any, beta: Any) -> Any:
    scaled = x if gamma is None else x * gamma
    return scaled if beta is None else scaled + beta


def _along_channels(x: Any, values: Any) -> Any:
    return None if values is None else values.reshape(-1, *(1,) * (x.ndim - 2))


def _layer_norm(x: Any, gamma: Any = None, beta: Any = None, eps: float = 1e-5, axis: Any = -1) -> Any:
    return _affine(_normal(x, axis, eps), gamma, beta)


def _rms_norm(x: Any, gamma: Any = None, eps: float = 1e-6, axis: Any = -1) -> Any:
    return _affine(x / np.sqrt(np.square(x).mean(axis, keepdims=True) + eps), gamma, None)


def _group_norm(x: Any, groups: int, gamma: Any = None, beta: Any = None, eps: float = 1e-5) -> Any:
    rows = x.reshape(len(x), groups, -1)
    return _affine(_normal(rows, -1, eps).reshape(x.shape), _along_channels(x, gamma), _along_channels(x, beta))


def _instance_norm(x: Any, gamma: Any = None, beta: Any = None, eps: float = 1e-5) -> Any:
    return _group_norm(x, x.shape[1], gamma, beta, eps)


def _batch_norm(x: Any, mean: Any, variance: Any, gamma: Any = None, beta: Any = None, eps: float = 1e-5) -> Any:
    mean, variance, gamma, beta = (_along_channels(x, v) for v in (mean, variance, gamma, beta))
    return _affine((x - mean) / np.sqrt(variance + eps), gamma, beta)


def _row(x: Any, *_: Any, axis: int | tuple[int, ...] = -1, **__: Any) -> int:
    return math.prod(int(x.shape[a]) for a in ((axis,) if isinstance(axis, int) else axis))


def _pixels(x: Any, *_: Any, **__: Any) -> int:
    return math.prod(map(int, x.shape[2:]))


_ROWS = [(1536, 128), (512, 1024), (128, 768), (32, 32000)]
_IMAGE, _CHANNELS = (8, 32, 56, 56), Draw((32,))
_AFFINE = {"gamma": _CHANNELS, "beta": _CHANNELS}

softmax = register(nn.softmax, "normalization", _softmax, *map(case, _ROWS), case((1024, 512), axis=0), terms=_row)
log_softmax = register(nn.log_softmax, "normalization", _log_softmax, *map(case, _ROWS), terms=_row)
layer_norm = register(
    nn.layer_norm, "normalization", _layer_norm, *(case((m, n), (n,), (n,)) for m, n in _ROWS), terms=_row
)
rms_norm = register(nn.rms_norm, "normalization", _rms_norm, *(case((m, n), (n,)) for m, n in _ROWS), terms=_row)
group_norm = register(nn.group_norm, "normalization", _group_norm, case(_IMAGE, 8, **_AFFINE), terms=_pixels)
instance_norm = register(nn.instance_norm, "normalization", _instance_norm, case(_IMAGE, **_AFFINE), terms=_pixels)
batch_norm = register(
    nn.batch_norm, "normalization", _batch_norm, case(_IMAGE, _CHANNELS, Draw((32,), "", 0.5, 2.0), **_AFFINE)
)
