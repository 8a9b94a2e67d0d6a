"""What the tests of corpora share."""

from __future__ import annotations

from pathlib import Path

TEXTS = [f"Row {i % 21} of the corpus{' and on' * (i % 7)}." for i in range(26)]  # the last five are the first


def content(folder: Path) -> dict[str, bytes]:
    """The bytes of each shard."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}
