"""The average of word vectors from a file, such as GloVe's: lines of a word and its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ditto_fast.errors import DataError

FloatArray = NDArray[np.float32]

_WORD = re.compile(r"\w+|[^\w\s]+")


def words_of(text: str) -> list[str]:
    """Runs of letters and digits, and runs of punctuation, in the order of the text.

    Example:
        >>> words_of("It rains, doesn't it?")
        ['It', 'rains', ',', 'doesn', "'", 't', 'it', '?']
    """
    return _WORD.findall(text)


def read_vectors(path: Path, wanted: Iterable[str]) -> dict[str, FloatArray]:
    """The vectors (H,) of the wanted words that a file has; a word2vec header is skipped.

    Raises:
        DataError: The file is missing, a line is malformed, or it has none of the words.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing; a vectors file has lines of a word and its numbers, as GloVe's.")
    words, vectors, width = set(wanted), {}, 0
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            word, *numbers = line.rstrip("\n").split(" ")
            if number == 1 and len(numbers) == 1:
                continue
            width = width or len(numbers)
            if word not in words:
                continue
            try:
                vectors[word] = np.array(numbers, dtype=np.float32)
            except ValueError:
                vectors[word] = np.empty(0, np.float32)
            if vectors[word].shape != (width,) or not np.isfinite(vectors[word]).all():
                raise DataError(f"{path}, line {number}: {width} numbers are wanted after the word {word!r}.")
    if not vectors:
        raise DataError(f"{path} has no vector for any word of the sentences. Check its language and its case.")
    return vectors


def average_vectors(texts: Sequence[str], path: Path) -> FloatArray:
    """The mean vector (n, H) of each text's words that the file has, as written or else in lower case.

    A text without any gets zeros, whose cosine with everything is 0.
    """
    split = [words_of(text) for text in texts]
    vectors = read_vectors(path, {form for words in split for word in words for form in (word, word.lower())})
    width = len(next(iter(vectors.values())))
    rows = np.zeros((len(texts), width), np.float32)
    for row, words in zip(rows, split, strict=True):
        known = [vectors[word if word in vectors else word.lower()] for word in words if _has(vectors, word)]
        if known:
            row[:] = np.mean(known, axis=0)
    return rows


def _has(vectors: dict[str, FloatArray], word: str) -> bool:
    return word in vectors or word.lower() in vectors
