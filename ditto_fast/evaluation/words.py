"""From tokens to words: the words of an encoding and the mean of a score over each word's pieces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ditto_fast.evaluation.encodings import Encoding


def word_texts(encoding: Encoding) -> list[str]:
    """The W words of a text in lower case, without the marks of WordPiece and byte-level BPE."""
    pieces: dict[int, str] = {}
    for token, word in zip(encoding.tokens, encoding.words.tolist(), strict=True):
        if word >= 0:
            pieces[word] = pieces.get(word, "") + token.removeprefix("##").removeprefix("\u0120")
    return [pieces[word].lower() for word in sorted(pieces)]


def word_means(encoding: Encoding, scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """The mean of token scores (..., T) over the pieces of each word: (..., W)."""
    words = sorted(set(encoding.words[encoding.words >= 0].tolist()))
    columns = [scores[..., encoding.words == word].mean(axis=-1) for word in words]
    return np.stack(columns, axis=-1).astype(np.float64) if columns else np.zeros((*scores.shape[:-1], 0))
