"""Attributes of one node, read by name and type. What is read decides what is supported: an attribute that no getter
asked for is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import onnx
from numpy.typing import NDArray
from onnx import AttributeProto

from lpx.errors import ModelError, UnsupportedError
from lpx.frontends.onnx import tensors

T = TypeVar("T")


class Attributes:
    """Getters return the default where the attribute is absent, and raise ModelError when there is none."""

    def __init__(self, node: str, protos: Mapping[str, AttributeProto], folder: Path | None = None) -> None:
        self._node = node
        self._protos = protos
        self._folder = folder
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._protos

    @property
    def protos(self) -> Mapping[str, AttributeProto]:
        """All attributes as stored; whoever asks takes care of every one."""
        self._read.update(self._protos)
        return self._protos

    def integer(self, name: str, default: int | None = None) -> int:
        """An INT."""
        found = self._find(name, AttributeProto.INT)
        return int(found.i) if found is not None else self._default(name, default)

    def flag(self, name: str, default: bool = False) -> bool:
        """An INT that is 0 or 1."""
        value = self.integer(name, int(default))
        if value not in (0, 1):
            raise ModelError(f"{self._node}: {name} is {value}", hint="it must be 0 or 1")
        return bool(value)

    def number(self, name: str, default: float | None = None) -> float:
        """A FLOAT, which is stored as float32."""
        found = self._find(name, AttributeProto.FLOAT)
        return float(found.f) if found is not None else self._default(name, default)

    def text(self, name: str, default: str | None = None, legal: Sequence[str] = ()) -> str:
        """A STRING, one of `legal`."""
        found = self._find(name, AttributeProto.STRING)
        value = found.s.decode("utf-8", "replace") if found is not None else self._default(name, default)
        if legal and value not in legal:
            raise UnsupportedError(f"{self._node}: {name}={value!r}", hint=f"supported are {', '.join(legal)}")
        return value

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """An INTS."""
        found = self._find(name, AttributeProto.INTS)
        return tuple(found.ints) if found is not None else tuple(self._default(name, default))

    def numbers(self, name: str, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """A FLOATS."""
        found = self._find(name, AttributeProto.FLOATS)
        return tuple(found.floats) if found is not None else tuple(self._default(name, default))

    def texts(self, name: str) -> tuple[str, ...]:
        """A STRINGS."""
        found = self._find(name, AttributeProto.STRINGS)
        if found is None:
            raise self._missing(name)
        return tuple(s.decode("utf-8", "replace") for s in found.strings)

    def tensor(self, name: str) -> NDArray[Any]:
        """A TENSOR."""
        found = self._find(name, AttributeProto.TENSOR)
        if found is None:
            raise self._missing(name)
        return tensors.to_array(found.t, self._folder, f"{self._node}: attribute {name}")

    def graph(self, name: str) -> onnx.GraphProto:
        """A GRAPH."""
        found = self._find(name, AttributeProto.GRAPH)
        if found is None:
            raise self._missing(name)
        return found.g

    def ignore(self, *names: str) -> None:
        """Mark attributes that do not change what inference computes."""
        self._read.update(names)

    def check_all_read(self) -> None:
        """Raises: UnsupportedError naming the attributes that nothing asked for."""
        unread = sorted(self._protos.keys() - self._read)
        if unread:
            raise UnsupportedError(f"{self._node}: attribute {', '.join(unread)} is not supported")

    def _find(self, name: str, kind: int) -> AttributeProto | None:
        self._read.add(name)
        found = self._protos.get(name)
        if found is not None and found.type != kind:
            wanted, got = (AttributeProto.AttributeType.Name(t) for t in (kind, found.type))
            raise ModelError(f"{self._node}: attribute {name} is {got}, not {wanted}")
        return found

    def _default(self, name: str, default: T | None) -> T:
        if default is None:
            raise self._missing(name)
        return default

    def _missing(self, name: str) -> ModelError:
        return ModelError(f"{self._node}: attribute {name} is missing")
