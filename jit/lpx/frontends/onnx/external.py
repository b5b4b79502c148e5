"""External data: tensors whose elements lie in files beside the model.

A model names those files, so the names are not to be trusted: a file must lie in the model's own folder, after links
are followed, and the range read must lie in the file and hold exactly the tensor.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from lpx.errors import ModelError
from lpx.records import record

_NUMBER = re.compile(r"\d{1,19}")
_KNOWN_KEYS = frozenset({"location", "offset", "length", "checksum"})


@record
class Reference:
    """Where a tensor's bytes lie: a path relative to the model's folder, and a range.

    `length` is None when not stated.
    """

    location: str
    offset: int
    length: int | None


def parse_reference(entries: Mapping[str, str], tensor: str) -> Reference:
    """The `external_data` entries of a tensor.

    Raises: ModelError for an unknown key, or a value that is not what the key holds.
    """
    unknown = sorted(entries.keys() - _KNOWN_KEYS)
    if unknown:
        raise ModelError(f"tensor {tensor} has the external data key {unknown[0]!r}, which ONNX does not define")
    if "location" not in entries:
        raise ModelError(f"tensor {tensor} has external data without a location")
    length = _number(entries.get("length", "0"), "length", tensor)
    return Reference(entries["location"], _number(entries.get("offset", "0"), "offset", tensor), length or None)


def _number(text: str, key: str, tensor: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ModelError(f"tensor {tensor} has external data with {key}={text!r}", hint="it must be a number of bytes")
    return int(text)


def read(reference: Reference, folder: Path | None, size: int, tensor: str) -> bytes:
    """The `size` bytes of a tensor.

    Raises: ModelError when the file lies outside `folder`, is no plain file, or its range does not hold `size` bytes.
    """
    if folder is None:
        raise ModelError(
            f"tensor {tensor} lies in {reference.location!r}, but the model was not loaded from a file",
            hint="load it by its path",
        )
    if reference.length is not None and reference.length != size:
        raise ModelError(f"tensor {tensor} takes {size} bytes, but its external data has length {reference.length}")
    path = resolve(reference.location, folder, tensor)
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ModelError(f"tensor {tensor} lies in {reference.location!r}, which is no plain file")
            if reference.offset + size > status.st_size:
                raise ModelError(
                    f"tensor {tensor} takes bytes {reference.offset} to {reference.offset + size} of "
                    f"{reference.location!r}, which has {status.st_size}"
                )
            file.seek(reference.offset)
            data = file.read(size)
    except OSError as error:
        raise ModelError(f"tensor {tensor}: cannot read {reference.location!r}: {error.strerror}") from error
    if len(data) != size:
        raise ModelError(f"tensor {tensor}: {reference.location!r} ended after {len(data)} of {size} bytes")
    return data


def resolve(location: str, folder: Path, tensor: str) -> Path:
    """The file that `location` names, with links followed.

    Raises: ModelError unless it lies inside `folder`.
    """
    parts = location.split("/")
    if not location or "\0" in location or "\\" in location or ":" in parts[0] or parts[0] == "" or ".." in parts:
        raise ModelError(
            f"tensor {tensor} has its data at {location!r}, which is not a path inside the model's folder",
            hint="external data must lie beside the model or below, named by a relative path with forward slashes",
        )
    root = folder.resolve()
    try:
        path = (root / location).resolve()
    except (OSError, RuntimeError) as error:
        raise ModelError(f"tensor {tensor}: {location!r} cannot be resolved: {error}") from error
    if not path.is_relative_to(root):
        raise ModelError(f"tensor {tensor} has its data at {location!r}, which leads out of the model's folder")
    return path
