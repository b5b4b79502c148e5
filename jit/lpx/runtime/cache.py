"""Disk cache of object files.

One file per key, written under a temporary name and renamed, so that a reader sees all of it or nothing and any number
of processes may share a folder:

    offset  0   magic        8 bytes, with the format's version
            8   checksum    32 bytes, SHA-256 of what follows
           40   length       8 bytes, little-endian, of the metadata
           48   metadata     JSON object: the entry's key, and what the caller adds
                object file

The folder holds machine code that will run, so it is private (0700), and one that others can write to is not used. An
entry that is truncated, damaged, of another version or of another key is a miss with one warning. A folder that cannot
be used costs one warning; everything works without it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lpx import knobs
from lpx.errors import CacheWarning
from lpx.records import record

LIMIT_BYTES = 1 << 30
"""Size above which the entries used longest ago are removed."""

_MAGIC = b"lpxobj\x00\x01"
_HEADER_BYTES = 48
_SUFFIX = ".lpxo"
_STORES_BETWEEN_PRUNES = 256


@record
class Entry:
    """What the cache holds for a key: an object file, and the caller's metadata (JSON values)."""

    data: bytes
    metadata: Mapping[str, Any]


class ObjectCache:
    """The entries in one folder; shared safely between threads and processes.

    Keys are hexadecimal digests (see `digest`). `limit` is the size in bytes that pruning keeps the folder under.
    """

    def __init__(self, folder: Path, *, limit: int = LIMIT_BYTES) -> None:
        self.folder = folder
        self.limit = limit
        self._lock = threading.Lock()
        self._stores = 0
        self._usable: bool | None = None

    def load(self, key: str) -> Entry | None:
        """The entry of `key`, or None. A bad entry is removed and warned of."""
        if not self._is_usable():
            return None
        path = self._path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"cannot read the cache entry {path}: {error.strerror}; compiling again")
            return None
        entry = _decode(content, key)
        if isinstance(entry, str):
            with contextlib.suppress(OSError):
                path.unlink()
            self._warn(f"the cache entry {path} is {entry}; compiling again")
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # pruning removes what was used longest ago
        return entry

    def store(self, key: str, data: bytes, metadata: Mapping[str, Any] | None = None) -> None:
        """Keeps an object file and JSON metadata under `key`; does nothing where the folder cannot be written."""
        if not self._is_usable():
            return
        path = self._path(key)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _write_whole(path, _encode(key, data, metadata or {}))
        except OSError as error:
            self._disable(f"cannot write to the cache folder {self.folder}: {error.strerror}")
            return
        with self._lock:
            due = self._stores % _STORES_BETWEEN_PRUNES == 0
            self._stores += 1
        if due:
            self.prune()

    def prune(self) -> None:
        """Removes the entries used longest ago until the folder is under its limit."""
        found: list[tuple[float, int, Path]] = []
        for path in self.folder.glob(f"*/*{_SUFFIX}"):
            with contextlib.suppress(OSError):  # another process may have removed it
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self.limit:
                return
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}{_SUFFIX}"

    def _is_usable(self) -> bool:
        if self._usable is None:
            with self._lock:
                if self._usable is None:
                    self._prepare()
        return bool(self._usable)

    def _prepare(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.folder.stat()
        except OSError as error:
            self._disable(f"cannot make the cache folder {self.folder}: {error.strerror}")
            return
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
            self._disable(f"others can write to the cache folder {self.folder}, which holds code to run")
            return
        self._usable = True

    def _disable(self, reason: str) -> None:
        self._usable = False
        self._warn(f"{reason}; going on without a cache (LPX_CACHE_DIR names another folder)")

    def _warn(self, message: str) -> None:
        warnings.warn(message, CacheWarning, stacklevel=2)


def default_cache() -> ObjectCache:
    """The cache in the folder that `LPX_CACHE_DIR` names, by default the user's cache folder."""
    return _cache_in(knobs.cache_dir() / "objects")


def digest(*parts: str | bytes) -> str:
    """A key made of `parts`: their SHA-256, with the boundaries between them."""
    state = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        state.update(len(content).to_bytes(8, "little"))
        state.update(content)
    return state.hexdigest()


@functools.cache
def _cache_in(folder: Path) -> ObjectCache:
    return ObjectCache(folder)


def _encode(key: str, data: bytes, metadata: Mapping[str, Any]) -> bytes:
    text = json.dumps({"key": key, "caller": metadata}, sort_keys=True).encode()
    body = len(text).to_bytes(8, "little") + text + data
    return _MAGIC + hashlib.sha256(body).digest() + body


def _decode(content: bytes, key: str) -> Entry | str:
    """The entry, or what is wrong with it."""
    if content[:6] != _MAGIC[:6]:
        return "not an lpx object"
    if content[:8] != _MAGIC:
        return "of another version of the format"
    body = memoryview(content)[40:]
    if len(body) < 8 or hashlib.sha256(body).digest() != content[8:40]:
        return "damaged"
    length = int.from_bytes(body[:8], "little")
    described = json.loads(bytes(body[8 : 8 + length]))
    if described["key"] != key:
        return "that of another key"
    return Entry(bytes(body[8 + length :]), described["caller"])


def _write_whole(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
