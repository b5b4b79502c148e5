"""The disk cache: what is kept comes back, and nothing bad ever does more than cost one warning."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lpx import knobs
from lpx.errors import CacheWarning
from lpx.runtime.cache import ObjectCache, default_cache, digest
from tests.support import ROOT, Child

KEY, OTHER = digest("a"), digest("b")
PATHS = os.pathsep.join(str(ROOT / part) for part in (".", "jit", "kernels"))


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "objects")


def only_file(cache: ObjectCache) -> Path:
    (path,) = cache.folder.glob("*/*")
    return path


def test_miss_then_hit(cache: ObjectCache) -> None:
    assert cache.load(KEY) is None
    cache.store(KEY, b"\0machine code", {"symbol": "add", "checks": ["a", "b"]})
    entry = cache.load(KEY)
    assert entry is not None
    assert entry.data == b"\0machine code"
    assert entry.metadata == {"symbol": "add", "checks": ["a", "b"]}
    assert cache.load(OTHER) is None


def test_another_process_sees_it(cache: ObjectCache) -> None:
    cache.store(KEY, b"code")
    entry = ObjectCache(cache.folder).load(KEY)
    assert entry is not None
    assert entry.data == b"code"


def test_last_store_wins(cache: ObjectCache) -> None:
    cache.store(KEY, b"first")
    cache.store(KEY, b"second")
    entry = cache.load(KEY)
    assert entry is not None
    assert entry.data == b"second"


def test_private(cache: ObjectCache) -> None:
    cache.store(KEY, b"code")
    for path in (cache.folder, only_file(cache).parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(cache).stat().st_mode) & 0o077 == 0


def _truncate(content: bytes) -> bytes:
    return content[:-1]


def _empty(_content: bytes) -> bytes:
    return b""


def _foreign(_content: bytes) -> bytes:
    return b"\x7fELF something else entirely, long enough to be an entry of the cache"


def _newer(content: bytes) -> bytes:
    return content[:7] + b"\x63" + content[8:]


def _flip(content: bytes) -> bytes:
    return content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (_truncate, "damaged"),
        (_empty, "not an lpx object"),
        (_foreign, "not an lpx object"),
        (_newer, "another version"),
        (_flip, "damaged"),
    ],
)
def test_bad_entry_is_a_miss_with_one_warning(cache: ObjectCache, damage: Callable[[bytes], bytes], what: str) -> None:
    cache.store(KEY, b"some machine code")
    path = only_file(cache)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(CacheWarning, match=what) as caught:
        assert cache.load(KEY) is None
    assert len(caught) == 1
    assert cache.load(KEY) is None  # and no second warning
    cache.store(KEY, b"again")
    entry = cache.load(KEY)
    assert entry is not None
    assert entry.data == b"again"


def test_entry_under_a_wrong_name(cache: ObjectCache) -> None:
    cache.store(KEY, b"code")
    target = cache.folder / OTHER[:2] / f"{OTHER}.lpxo"
    target.parent.mkdir(exist_ok=True)
    only_file(cache).rename(target)
    with pytest.warns(CacheWarning, match="another key"):
        assert cache.load(OTHER) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 10_000), value=st.integers(1, 255))
def test_any_changed_byte_is_noticed(cache: ObjectCache, position: int, value: int) -> None:
    cache.store(KEY, bytes(200), {"name": "k"})
    path = only_file(cache)
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= value
    path.write_bytes(content)
    with pytest.warns(CacheWarning):
        assert cache.load(KEY) is None


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = ObjectCache(tmp_path / "file" / "objects")
    with pytest.warns(CacheWarning, match="cannot make the cache folder") as caught:
        cache.store(KEY, b"code")
    assert len(caught) == 1
    assert cache.load(KEY) is None  # without a second warning, which would be an error
    cache.store(KEY, b"code")


def test_folder_that_cannot_be_written(cache: ObjectCache) -> None:
    cache.folder.mkdir(parents=True, mode=0o700)
    (cache.folder / KEY[:2]).write_text("in the way")
    with pytest.warns(CacheWarning, match="cannot write to the cache folder") as caught:
        cache.store(KEY, b"code")
    assert len(caught) == 1
    cache.store(OTHER, b"code")


def test_folder_that_others_can_write_to(cache: ObjectCache) -> None:
    cache.folder.mkdir(parents=True)
    cache.folder.chmod(0o777)
    with pytest.warns(CacheWarning, match="others can write"):
        cache.store(KEY, b"code")
    assert not list(cache.folder.iterdir())


def test_pruning_removes_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "objects", limit=5500)
    keys = [digest(str(i)) for i in range(8)]
    for age, key in enumerate(keys):
        cache.store(key, bytes(900))
        (path,) = cache.folder.glob(f"*/{key}*")
        os.utime(path, (1000 + age, 1000 + age))
    assert cache.load(keys[0]) is not None  # used just now
    cache.prune()
    kept = [key for key in keys if cache.load(key) is not None]
    assert kept == [keys[0], *keys[-4:]]


def test_digest_keeps_boundaries() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("ab") == digest(b"ab")


def test_default_folder_follows_the_knob(tmp_path: Path) -> None:
    with knobs.override(cache_dir=tmp_path):
        assert default_cache().folder == tmp_path / "objects"
        assert default_cache() is default_cache()


def test_many_processes_start_cold_together(child: Child, tmp_path: Path) -> None:
    """Sixteen processes find an empty folder, build the native library at once, and all get working code."""
    code = """
import subprocess, sys
work = '''
import numpy as np
from lpx.runtime.native import NativeFunction
from tests.runtime import kernels
add = NativeFunction(print)
add.add(kernels.add())
a = np.ones(16, np.float32)
assert add(a, a).sum() == 32
'''
started = [subprocess.Popen([sys.executable, "-W", "error", "-c", work]) for _ in range(16)]
print([process.wait() for process in started] == [0] * 16)
"""
    folder = tmp_path / "cold"
    assert child(code, PYTHONPATH=PATHS, LPX_CACHE_DIR=str(folder)).strip() == "True"
    assert len(list((folder / "objects").glob("*/*.lpxo"))) == 2
    assert not list((folder / "objects").glob("*/.*"))


def test_works_without_a_cache(child: Child, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    code = """
import warnings
import numpy as np
from lpx.errors import CacheWarning
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from lpx.runtime.native import NativeFunction
    from tests.runtime import kernels
    add = NativeFunction(print)
    add.add(kernels.add())
a = np.ones(16, np.float32)
print(add(a, a).sum(), [issubclass(w.category, CacheWarning) for w in caught])
"""
    assert child(code, PYTHONPATH=PATHS, LPX_CACHE_DIR=str(tmp_path / "file")).strip() == "32.0 [True]"
