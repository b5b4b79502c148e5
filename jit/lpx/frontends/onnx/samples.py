"""Inputs to try a model with, where nobody gives any: sizes for open dimensions, random elements."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx.errors import ArgumentError
from lpx.frontends.onnx.model import Model, TensorType

IMAGE, SEQUENCE = 224, 128


def sample_inputs(
    model: Model, shapes: Mapping[str, Sequence[int]] | None = None, seed: int = 0
) -> dict[str, NDArray[Any]]:
    """Random arrays for all inputs of a model; `shapes` gives shapes by input name.

    Floats are normal, integers 0 or 1 (so that they are legal as tokens, masks and flags), bools either. An input's
    elements depend on its name, shape and the seed only.

    Raises: ArgumentError for a shape that does not fit, or of an unknown input.
    """
    given = dict(shapes or {})
    unknown = sorted(given.keys() - {t.name for t in model.inputs})
    if unknown:
        known = ", ".join(map(str, model.inputs))
        raise ArgumentError(f"there is no input {unknown[0]!r} to give a shape", hint=f"inputs are {known}")
    named: dict[str, int] = {}
    for declared in model.inputs:
        sizes = zip(declared.shape or (), given.get(declared.name, ()), strict=False)
        named.update({dim: size for dim, size in sizes if isinstance(dim, str)})
    return {t.name: _random(t, sample_shape(t, given.get(t.name), named), seed) for t in model.inputs}


def sample_shape(declared: TensorType, given: Sequence[int] | None, named: dict[str, int]) -> tuple[int, ...]:
    """The shape of an input: as given, else with a guess for each open dimension.

    `named` holds the sizes of named dimensions and gets those chosen here.

    Raises: ArgumentError when `given` does not fit.
    """
    fixed = declared.shape
    if given is not None:
        fits = fixed is None or (
            len(given) == len(fixed)
            and all(not isinstance(d, int) or d == g for d, g in zip(fixed, given, strict=True))
        )
        if not fits or any(g < 0 for g in given):
            raise ArgumentError(f"shape {tuple(given)} does not fit input {declared}")
        return tuple(given)
    if fixed is None:
        raise ArgumentError(f"input {declared} has no shape", hint="give one")
    return tuple(_size(d, axis, len(fixed), named) for axis, d in enumerate(fixed))


def _size(dim: int | str | None, axis: int, rank: int, named: dict[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    guess = _guess(axis, rank)
    return guess if dim is None or dim == "?" else named.setdefault(dim, guess)


def _guess(axis: int, rank: int) -> int:
    """1 for the batch, 3 channels and a square image at rank 4, else a sequence."""
    if axis == 0:
        return 1
    if rank == 4:
        return 3 if axis == 1 else IMAGE
    return SEQUENCE if axis == 1 else 16


def _random(declared: TensorType, shape: tuple[int, ...], seed: int) -> NDArray[Any]:
    rng = np.random.default_rng([seed, zlib.crc32(declared.name.encode())])
    dtype = declared.dtype.to_numpy()
    if declared.dtype.is_float:
        return rng.standard_normal(shape, np.float32).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)
