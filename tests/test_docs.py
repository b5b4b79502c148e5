"""Examples in the documentation run: every fenced `python` block of README.md and docs/, one file after another.

The blocks of a file share their names, in order. A block whose first line is `# not run` is skipped. Text in a fenced
block that directly follows a `python` block and is marked `text` must be what the block printed.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import ROOT, Child

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
NEEDS = {"docs/interop.md": "numba"}
"""Pages about a package that need not be there."""
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "----- end of block -----"


def blocks_of(text: str) -> list[tuple[str, str | None]]:
    """Each `python` block with the `text` block that directly follows it, or None."""
    found = list(_FENCE.finditer(text))
    pairs: list[tuple[str, str | None]] = []
    for position, match in enumerate(found):
        if match[1] != "python" or match[2].startswith("# not run"):
            continue
        follower = found[position + 1] if position + 1 < len(found) else None
        adjacent = follower is not None and follower[1] == "text" and not text[match.end() : follower.start()].strip()
        pairs.append((match[2], follower[2] if follower is not None and adjacent else None))
    return pairs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_run(page: Path, child: Child) -> None:
    needed = NEEDS.get(page.relative_to(ROOT).as_posix())
    if needed is not None and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    pairs = blocks_of(page.read_text(encoding="utf-8"))
    program = f"\nprint({_MARK!r})\n".join(code for code, _ in pairs)
    printed = child(program, timeout=120).split(_MARK + "\n")
    for (code, expected), got in zip(pairs, printed, strict=False):
        if expected is not None:
            assert got.strip() == expected.strip(), code


def test_blocks_are_found() -> None:
    fence = "```"
    parts = [("python", "a = 1"), ("text", "1"), ("python", "# not run"), ("python", "b")]
    page = "\n\n".join(f"{fence}{language}\n{body}\n{fence}" for language, body in parts)
    page += f"\n\nand then\n\n{fence}text\n2\n{fence}\n"
    assert blocks_of(page) == [("a = 1\n", "1\n"), ("b\n", None)]
