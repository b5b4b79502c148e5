"""Texts on the command line that stand for shapes, arrays and things in Python files."""

from __future__ import annotations

import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from lpx import dtypes
from lpx.errors import LpxError

_SHAPE = re.compile(r"(?P<name>[^=]+)=(?P<dims>\d+(,\d+)*)?")
_ARRAY = re.compile(r"(?P<dtype>\w+)\[(?P<dims>(\d+(\s*,\s*\d+)*)?)\]")


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """`["x=1,3,224,224"]` as shapes by name; `x=` is rank 0."""
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise typer.BadParameter(f"{text!r} is no shape; write NAME=1,3,224,224", param_hint="--shape")
        found[match["name"]] = tuple(int(d) for d in (match["dims"] or "").split(",") if d)
    return found


def parse_sizes(text: str, names: Sequence[str]) -> dict[str, int]:
    """`M=128,K=768`, or `128x768` in the order of `names`, as sizes by name; case does not matter."""
    if not text:
        return {}
    if "=" not in text:
        sizes = text.split("x")
        if len(sizes) > len(names):
            raise typer.BadParameter(f"{text!r} has more sizes than {', '.join(names)}", param_hint="--shape")
        pairs = list(zip(names, sizes, strict=False))
    else:
        pairs = [(name.strip().lower(), size) for name, _, size in (part.partition("=") for part in text.split(","))]
    for name, size in pairs:
        if name not in names:
            raise typer.BadParameter(f"there is no size {name!r}; there are {', '.join(names)}", param_hint="--shape")
        if not size.isdecimal():
            raise typer.BadParameter(f"{size!r} is no size; write {names[0]}=128 or 128x64", param_hint="--shape")
    return {name: int(size) for name, size in pairs}


def parse_array(text: str, position: int) -> NDArray[Any]:
    """`float32[64,128]` as an array of that type, with random elements."""
    match = _ARRAY.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no array; write float32[64,128]", param_hint="--arg")
    try:
        dtype = dtypes.parse(match["dtype"])
    except LpxError as error:
        raise typer.BadParameter(error.message, param_hint="--arg") from None
    shape = tuple(int(d) for d in match["dims"].split(",") if d.strip())
    rng = np.random.default_rng(position)
    if dtype.is_float:
        return rng.standard_normal(shape, np.float32).astype(dtype.to_numpy())
    return rng.integers(0, 2, shape).astype(dtype.to_numpy())


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file by name; nothing in it is executed."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path} cannot be read as .npz: {error}", param_hint="NPZ") from None


def load_object(text: str) -> Any:
    """What `FILE.py:NAME` names: the file is run, and the name looked up in it."""
    file, _, name = text.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise typer.BadParameter(f"there is no file {file!r}", param_hint="PROGRAM")
    namespace = runpy.run_path(str(path), run_name="__lpx__")
    if name not in namespace:
        public = ", ".join(sorted(n for n in namespace if not n.startswith("_")))
        raise typer.BadParameter(f"{file} has no {name!r}; it has {public}", param_hint="PROGRAM")
    return namespace[name]
