"""The ways to the same vectors: each built once, each checked on the sentences that are timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ditto_fast import FastEncoder, Head
from ditto_fast.export.checkpoint import load_checkpoint
from ditto_fast.export.reference import eager_outputs
from ditto_fast.pooling import normalize

Vectors = NDArray[np.float32]
Encode = Callable[[list[str]], Vectors]


@dataclass(frozen=True)
class Setting:
    """What every contender gets: the same checkpoint, head and threads, and our export of it."""

    checkpoint: Path
    export: Path
    head: Head
    threads: int


@dataclass(frozen=True)
class Contender:
    """One way.

    Args:
        name: As printed.
        how: Its batching and settings, in words.
        build: Makes the function that is timed, text in, vectors out.
        expected: Makes the function whose vectors it must give, by independent code.
    """

    name: str
    how: str
    build: Callable[[Setting], Encode]
    expected: Callable[[Setting], Encode]


def eager(setting: Setting) -> Encode:
    """The authors' way: every layer's attentions materialised, batches of 128 in input order."""
    torch.set_num_threads(setting.threads)
    checkpoint = load_checkpoint(str(setting.checkpoint))

    def encode(sentences: list[str]) -> Vectors:
        rows = []
        for start in range(0, len(sentences), 128):
            batch = checkpoint.tokenizer(sentences[start : start + 128], padding=True, return_tensors="np")
            rows.append(eager_outputs(checkpoint.model, batch, setting.head)["sentence_embedding"])
        return np.concatenate(rows)

    return encode


def sentence_transformers(setting: Setting) -> Encode:
    """sentence-transformers on torch, its defaults (batches of 32, sorted by length)."""
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(setting.threads)
    model = SentenceTransformer(str(setting.checkpoint), device="cpu")
    return lambda sentences: np.asarray(model.encode(sentences), dtype=np.float32)


def ours(setting: Setting) -> Encode:
    """FastEncoder with its defaults."""
    return FastEncoder(setting.export, num_threads=setting.threads).encode


def ours_mean(setting: Setting) -> Encode:
    """Our tokens graph, mean-pooled and normalised: what sentence-transformers computes on this model."""
    encoder = FastEncoder(setting.export, pooling="mean-last", num_threads=setting.threads)
    return lambda sentences: normalize(encoder.encode(sentences))


CONTENDERS = (
    Contender("authors' eager path", "torch, output_attentions, batches of 128, input order", eager, ours),
    Contender(
        "sentence-transformers",
        "torch, batches of 32, sorted; mean pooling: other pooling, same encoder work",
        sentence_transformers,
        ours_mean,
    ),
    Contender("ditto_fast", "FastEncoder, its defaults", ours, eager),
)
BASELINE = CONTENDERS[0].name
