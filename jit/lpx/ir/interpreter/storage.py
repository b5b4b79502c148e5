"""Memory of the interpreter: one Python value per element, `None` where nothing was written yet."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx.dtypes import DType
from lpx.errors import MemoryAccessError
from lpx.ir.scalars import Value
from lpx.records import record


@record
class Storage:
    """The elements of one buffer, in row-major order of its logical shape."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    values: list[Value]

    def position(self, indices: Sequence[int]) -> int:
        """Where an element is; raises MemoryAccessError when the indices leave the shape."""
        found = 0
        for index, extent in zip(indices, self.shape, strict=True):
            if not 0 <= index < extent:
                raise MemoryAccessError(f"{self.element(indices)} is out of bounds: {self}")
            found = found * extent + index
        return found

    def read(self, indices: Sequence[int]) -> Value:
        """An element; raises MemoryAccessError when it is out of bounds or holds nothing."""
        value = self.values[self.position(indices)]
        if value is None:
            raise MemoryAccessError(f"{self.element(indices)} is read before it is written")
        return value

    def write(self, indices: Sequence[int], value: Value) -> None:
        """Set an element; raises MemoryAccessError when it is out of bounds."""
        self.values[self.position(indices)] = value

    def element(self, indices: Sequence[int]) -> str:
        """The text of an access."""
        return f"{self.name}[{', '.join(map(str, indices))}]"

    def reshaped(self, name: str, shape: tuple[int, ...]) -> Storage:
        """The same memory under another name and shape of as many elements."""
        return Storage(name, self.dtype, shape, self.values)

    def __str__(self) -> str:
        return f"{self.name} is {self.dtype}[{', '.join(map(str, self.shape))}]"


@record
class Address:
    """The address of an element; it need not exist until it is used."""

    storage: Storage
    indices: tuple[int, ...]

    def read(self, offset: int = 0) -> Value:
        """The element `offset` places further along the last axis."""
        return self.storage.read(self._moved(offset))

    def write(self, value: Value, offset: int = 0) -> None:
        """Set the element `offset` places further along the last axis."""
        self.storage.write(self._moved(offset), value)

    def _moved(self, offset: int) -> tuple[int, ...]:
        return (*self.indices[:-1], self.indices[-1] + offset) if self.indices else self.indices


def fresh(name: str, dtype: DType, shape: tuple[int, ...], fill: Value = None) -> Storage:
    """New memory, uninitialised unless `fill` is given."""
    return Storage(name, dtype, shape, [fill] * math.prod(shape))


def values_of(array: NDArray[Any], dtype: DType) -> list[Value]:
    """The elements of an array in row-major order."""
    if dtype.is_float and dtype.bits < 32:
        array = array.astype(np.float32)
    elif dtype.bits == 4:
        array = array.astype(np.int8)
    values: list[Value] = array.ravel().tolist()
    return values


def write_elements(array: NDArray[Any], elements: Sequence[int], values: Sequence[Value]) -> None:
    """Set elements of `array`, given by row-major position; a value of None leaves one as it was."""
    written = [(e, v) for e, v in zip(elements, values, strict=True) if v is not None]
    flat = array.flatten()
    flat[[e for e, _ in written]] = np.array([v for _, v in written], array.dtype)
    array[...] = flat.reshape(array.shape)


def memory_positions(array: NDArray[Any]) -> list[int]:
    """Where each element, in row-major order, lies in memory, in elements from the first one."""
    strides = [s // array.itemsize for s in array.strides]
    steps = [[k * s for k in range(n)] for n, s in zip(array.shape, strides, strict=True)]
    return [sum(parts) for parts in itertools.product(*steps)]
