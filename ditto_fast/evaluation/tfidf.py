"""TF-IDF, where a document is a sentence: idf(t) = ln(D / df(t)), as in the classic definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ditto_fast.errors import DataError
from ditto_fast.evaluation.encodings import Encodings


def idf_table(encodings: Encodings, sentences: Sequence[str]) -> NDArray[np.float32]:
    """The inverse document frequency of each token id (V,).

    Special tokens get 0; a token that no sentence has counts as in one. Times the number of times that a token is in
    a sentence it is TF-IDF, which a sum over tokens does by itself.

    Raises:
        DataError: There are no sentences.
    """
    if not sentences:
        raise DataError("Document frequencies need sentences; got none.")
    seen: Counter[int] = Counter()
    special: set[int] = set()
    for text in sentences:
        encoding = encodings(text)
        seen.update(set(encoding.ids[encoding.words >= 0].tolist()))
        special.update(encoding.ids[encoding.words < 0].tolist())
    frequency = np.ones(encodings.vocab_size, np.float64)
    frequency[list(seen)] = list(seen.values())
    table = np.log(len(sentences) / frequency)
    table[list(special - seen.keys())] = 0
    return table.astype(np.float32)


class TfIdf:
    """TF-IDF of words, L2-normalised over each sentence.

    Args:
        sentences: Lists of words, the documents.
    """

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        documents = [set(words) for words in sentences]
        self._documents = len(documents)
        self._frequency = Counter(word for words in documents for word in words)

    def __call__(self, words: Sequence[str]) -> NDArray[np.float64]:
        """The score of each word of a sentence (W,).

        Example:
            >>> TfIdf([["a", "cat"], ["a", "dog"]])(["a", "cat"])
            array([0., 1.])
        """
        counts = Counter(words)
        scores = np.array([counts[w] * np.log(self._documents / max(self._frequency[w], 1)) for w in words])
        # the norm is that of the document's vector, in which each word is one coordinate
        norm = np.sqrt(sum((counts[w] * np.log(self._documents / max(self._frequency[w], 1))) ** 2 for w in counts))
        return scores / norm if norm > 0 else scores
