"""Workers that die once: at the first text that says so, they leave a mark and kill themselves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

from ditto_fast import FastEncoder
from ditto_fast.corpora import ray_engine
from ditto_fast.distributed import _Embedder
from ditto_fast.errors import NonFiniteError

LAST_WORDS = "die, leaving "


def last_words(mark: Path) -> str:
    """A text that kills the worker which meets it, the first time."""
    return f"{LAST_WORDS}{mark}"


def _die_once(texts: list[str]) -> None:
    for text in texts:
        mark = Path(text.removeprefix(LAST_WORDS))
        if text.startswith(LAST_WORDS) and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class MortalEmbedder(_Embedder):
    def __call__(self, batch):
        _die_once(batch.column("text").to_pylist())
        return super().__call__(batch)


def encode(encoder: FastEncoder, texts: list[str], scale: float = 1.0) -> np.ndarray:
    _die_once(texts)
    return encoder.encode(texts) * np.float32(scale)


def embed_block(encoder: FastEncoder, texts: list[str]) -> tuple:
    _die_once(texts)
    return ray_engine.embed_block(encoder, texts)


def refuse(encoder: FastEncoder, texts: list[str], calls: Path) -> np.ndarray:
    with calls.open("a") as file:
        file.write("called\n")
    raise NonFiniteError("row 3 has NaN", [3])
