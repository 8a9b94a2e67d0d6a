"""What is encoded: STS-B's sentences where SentEval's data is at hand, else seeded synthetic ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

_ROOT = Path(__file__).resolve().parents[1]
_WORDS = (
    "the a of and to in is was for on that with as it at by from river stone window garden music engine "
    "market teacher winter signal paper bridge doctor island number question carries finds builds leaves "
    "opens watches follows green quiet early broken narrow several modern heavy quickly often never nearly"
).split()


def senteval_folder(option: Path | None = None) -> Path | None:
    """The folder that holds downstream/: the option, DITTO_SENTEVAL, or shared/senteval beside the checkout."""
    if option is not None:
        return option
    if "DITTO_SENTEVAL" in os.environ:
        return Path(os.environ["DITTO_SENTEVAL"])
    beside = _ROOT.parent / "shared" / "senteval"
    return beside if beside.is_dir() else None


def load_sentences(count: int, senteval: Path | None) -> tuple[str, list[str]]:
    """Returns where the sentences are from, in words, and `count` distinct ones in their own order.

    Distinct, since FastEncoder computes each text once: a repeated one would flatter it.
    """
    if senteval is not None:
        path = senteval / "downstream" / "STS" / "STSBenchmark" / "sts-test.csv"
        rows = [line.rstrip("\n").split("\t") for line in path.open(encoding="utf-8")]
        sentences = list(dict.fromkeys(row[column] for row in rows for column in (5, 6)))
        return "STS-B test, file order, distinct", sentences[:count]
    return "synthetic, seed 0", synthetic_sentences(count)


def synthetic_sentences(count: int, longest: int = 60, spread: float = 0.5) -> list[str]:
    """Seeded distinct sentences of about a dozen words, lengths like those of STS-B: a tail of long ones.

    Args:
        count: How many.
        longest: Words of the longest.
        spread: Of the logarithm of a length.
    """
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(2.3, spread, count).astype(int), 3, longest)
    sentences: dict[str, None] = {}
    for number, length in enumerate(lengths, 1):
        while len(sentences) < number:  # draws again what was there before
            sentences[" ".join(rng.choice(_WORDS, length))] = None
    return list(sentences)


def text_of(words: int, seed: int) -> str:
    """A seeded text of so many words, each at least one token."""
    return " ".join(np.random.default_rng(seed).choice(_WORDS, words))
