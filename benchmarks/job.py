"""What every suite gets, and what it gives: rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.heads import Head

Vectors = NDArray[np.float32]
Encode = Callable[[list[str]], Vectors]
# JSON values by name: "case" and "contender"; then "seconds" (one a round), or "error", or "missing"
Row = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """What every contender gets: the same checkpoint, head and threads, and our export of it.

    Args:
        checkpoint: Folder of the checkpoint.
        export: Our export of it.
        head: The head.
        threads: Threads to use.
        max_seq_length: Length in tokens that texts are cut to; the checkpoint's own by default.
    """

    checkpoint: Path
    export: Path
    head: Head
    threads: int
    max_seq_length: int | None = None


@dataclass(frozen=True)
class Job:
    """One run of suites.

    Args:
        setting: What every contender gets.
        texts: The distinct sentences of the suites that take them.
        rounds: Timed rounds, interleaved.
        quick: Whether a suite takes its small sizes.
        peers: Keys of the contenders to meet besides the baseline and ours; all by default.
        senteval: Folder that holds downstream/.
    """

    setting: Setting
    texts: list[str]
    rounds: int
    quick: bool = False
    peers: tuple[str, ...] | None = None
    senteval: Path | None = None


Suite = Callable[[Job], Iterator[Row]]


def failure(case: str, contender: str, error: Exception) -> Row:
    """The row of a contender that failed."""
    return {"case": case, "contender": contender, "error": f"{type(error).__name__}: {error}"[:500]}


def parts(texts: list[str], size: int) -> list[list[str]]:
    """The texts, so many at a time."""
    return [texts[start : start + size] for start in range(0, len(texts), size)]
