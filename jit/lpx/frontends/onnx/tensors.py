"""Tensors stored in a model, as NumPy arrays."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import ModelError, UnsupportedError
from lpx.frontends.onnx import external

_DTYPES: dict[int, DType] = {
    TensorProto.FLOAT: dtypes.float32,
    TensorProto.UINT8: dtypes.uint8,
    TensorProto.INT8: dtypes.int8,
    TensorProto.UINT16: dtypes.uint16,
    TensorProto.INT16: dtypes.int16,
    TensorProto.INT32: dtypes.int32,
    TensorProto.INT64: dtypes.int64,
    TensorProto.BOOL: dtypes.bool_,
    TensorProto.FLOAT16: dtypes.float16,
    TensorProto.DOUBLE: dtypes.float64,
    TensorProto.UINT32: dtypes.uint32,
    TensorProto.UINT64: dtypes.uint64,
    TensorProto.BFLOAT16: dtypes.bfloat16,
    TensorProto.FLOAT8E4M3FN: dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E5M2: dtypes.float8_e5m2,
    TensorProto.UINT4: dtypes.uint4,
    TensorProto.INT4: dtypes.int4,
}
_FIELDS: dict[DType, str] = {  # the typed field that holds elements of a dtype; int32_data unless named here
    dtypes.float32: "float_data",
    dtypes.float64: "double_data",
    dtypes.int64: "int64_data",
    dtypes.uint32: "uint64_data",
    dtypes.uint64: "uint64_data",
}


def dtype_of(code: int, what: str) -> DType:
    """The dtype with the number `code` in ONNX.

    Raises: UnsupportedError naming `what` for one that lpx does not have, ModelError for one that ONNX does not have.
    """
    found = _DTYPES.get(code)
    if found is not None:
        return found
    if code not in TensorProto.DataType.values() or code == TensorProto.UNDEFINED:
        raise ModelError(f"{what} has the element type {code}, which ONNX does not define")
    raise UnsupportedError(f"{what} has elements of {TensorProto.DataType.Name(code)}", hint="lpx has no such dtype")


def code_of(dtype: DType) -> int:
    """The number of a dtype in ONNX."""
    return next(code for code, known in _DTYPES.items() if known == dtype)


def name_of(dtype: DType) -> str:
    """The name of a dtype in ONNX."""
    names: dict[int, str] = {code: name for name, code in TensorProto.DataType.items()}
    return names[code_of(dtype)]


def code_named(name: str) -> int:
    """The number of the element type called `name` in ONNX.

    Raises: ModelError when there is none.
    """
    codes: dict[str, int] = dict(TensorProto.DataType.items())
    if name not in codes:
        raise ModelError(f"there is no element type {name!r}")
    return codes[name]


def finite_range(dtype: DType) -> tuple[float, float]:
    """The least and the greatest finite number of an integer dtype or an 8-bit float."""
    if not dtype.is_float:
        return dtype.min_value, dtype.max_value
    largest = {dtypes.float8_e4m3fn: 448.0, dtypes.float8_e5m2: 57344.0}[dtype]
    return -largest, largest


def to_array(tensor: onnx.TensorProto, folder: Path | None, what: str) -> NDArray[Any]:
    """The elements of a stored tensor. `folder` is where its external data may lie.

    Raises: ModelError when the data do not fit the shape or must not be read; UnsupportedError for its element type.
    """
    dtype = dtype_of(tensor.data_type, what)
    shape = tuple(tensor.dims)
    if any(d < 0 for d in shape):
        raise ModelError(f"{what} has the shape {shape}, which has a negative extent")
    if tensor.HasField("segment"):
        raise UnsupportedError(f"{what} is stored in segments", hint="store it whole")
    count = prod(shape)
    if tensor.data_location == TensorProto.EXTERNAL:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        data = external.read(external.parse_reference(entries, what), folder, _stored_bytes(dtype, count), what)
        return _from_bytes(data, dtype, shape)
    if tensor.HasField("raw_data"):
        if len(tensor.raw_data) != _stored_bytes(dtype, count):
            raise ModelError(
                f"{what} is {dtype}{list(shape)}, which takes {_stored_bytes(dtype, count)} bytes, "
                f"but holds {len(tensor.raw_data)}"
            )
        return _from_bytes(tensor.raw_data, dtype, shape)
    return _from_field(tensor, dtype, shape, what)


def _stored_bytes(dtype: DType, count: int) -> int:
    return (count + 1) // 2 if dtype.bits == 4 else count * dtype.itemsize


def _from_bytes(data: bytes, dtype: DType, shape: tuple[int, ...]) -> NDArray[Any]:
    if dtype.bits == 4:
        return _unpack(np.frombuffer(data, np.uint8), dtype, shape)
    if dtype.is_bool:
        return np.asarray(np.frombuffer(data, np.uint8) != 0).reshape(shape)
    native = dtype.to_numpy()
    stored = np.frombuffer(data, f"<u{dtype.itemsize}").astype(f"=u{dtype.itemsize}")
    return stored.view(native).reshape(shape)


def _unpack(packed: NDArray[np.uint8], dtype: DType, shape: tuple[int, ...]) -> NDArray[Any]:
    """4-bit elements, two in a byte, the first one in its low half."""
    halves = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)[: prod(shape)].astype(np.int16)
    values = np.where(halves > dtype.max_value, halves - 16, halves) if dtype.is_signed else halves
    return values.astype(np.int8).astype(dtype.to_numpy()).reshape(shape)


def _from_field(tensor: onnx.TensorProto, dtype: DType, shape: tuple[int, ...], what: str) -> NDArray[Any]:
    name = _FIELDS.get(dtype, "int32_data")
    wide = {"float_data": np.float32, "double_data": np.float64, "int64_data": np.int64, "uint64_data": np.uint64}
    stored: NDArray[Any] = np.array(getattr(tensor, name), wide.get(name, np.int32))
    count = _stored_bytes(dtype, prod(shape)) if dtype.bits == 4 else prod(shape)
    if stored.size != count:
        raise ModelError(f"{what} is {dtype}{list(shape)} but holds {stored.size} element(s)")
    if dtype.bits == 4:
        return _unpack(stored.astype(np.uint8), dtype, shape)
    if dtype.is_bool:
        return np.asarray(stored != 0).reshape(shape)
    if dtype.is_float and dtype.bits < 32:  # the bits of each element are in the low bits of an int32
        return stored.astype(f"u{dtype.itemsize}").view(dtype.to_numpy()).reshape(shape)
    return stored.astype(dtype.to_numpy()).reshape(shape)
