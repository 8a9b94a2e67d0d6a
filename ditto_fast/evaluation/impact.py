"""Impact matrix by perturbed masking (Wu et al., 2020): how much hiding token j disturbs token i.

F_ij = || H(x without W(i))_i - H(x without W(i) and W(j))_i ||, where H are the last hidden states, x without W the
text with a word's pieces replaced by the mask token, and W(i) the pieces of the word that holds i, none for a special
token. So F_ij is 0 within a word and for a special j. The importance of j is the mean of its column over i != j: how
strongly it disturbs the others. (Ditto's own settings for it are not known; this is the natural choice.)
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from ditto_fast.evaluation.states import StateSource

_BATCH_SIZE = 64


def impact_matrix(source: StateSource, text: str) -> NDArray[np.float32]:
    """F (T, T) of a text of W words, from one run on each of its W (W + 1) / 2 + 1 masked forms.

    Masking W(i) and W(j) is one form for both F_ij and F_ji.

    Raises:
        DataError: The model has no mask token.
    """
    _, mask_id = source.encodings.mask_token()
    encoding = source.encodings(text)
    words = sorted(set(encoding.words[encoding.words >= 0].tolist()))
    forms = [(-1, -1), *combinations_with_replacement(words, 2)]
    masked = [np.where(np.isin(encoding.words, form) & (encoding.words >= 0), mask_id, encoding.ids) for form in forms]
    batches = [masked[start : start + _BATCH_SIZE] for start in range(0, len(masked), _BATCH_SIZE)]
    states = np.concatenate([source.run(batch)["last"] for batch in batches])  # (forms, T, H)
    number = {form: index for index, form in enumerate(forms)}
    tokens = len(encoding.ids)
    matrix = np.zeros((tokens, tokens), np.float32)
    for i, word_i in enumerate(encoding.words.tolist()):
        alone = states[number[(word_i, word_i)], i]
        for word_j in words:
            if word_j == word_i:
                continue
            pair = (word_j, word_j) if word_i < 0 else (min(word_i, word_j), max(word_i, word_j))
            matrix[i, encoding.words == word_j] = np.linalg.norm(alone - states[number[pair], i])
    return matrix


def importance(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """How strongly each token disturbs the others (T,): the mean of its column of F (T, T) over i != j.

    Example:
        >>> importance(np.array([[0, 4], [2, 0]], np.float32))
        array([2., 4.], dtype=float32)
    """
    others = max(1, len(matrix) - 1)
    total: NDArray[np.float32] = matrix.sum(axis=0) - matrix.diagonal()
    return total / np.float32(others)
