"""Heads chosen without labels: what can be measured of a head on plain sentences.

Each criterion gives every head a number, larger for a head that it takes for better:

idf          mean over sentences of the Spearman correlation of the diagonal with inverse document frequency
cosine       how far the mean cosine of two sentences falls below the plain average's (less anisotropy)
uniformity   minus log mean exp(-2 ||x - y||^2) of the unit embeddings (Wang and Isola, 2020)
impact       mean over sentences of the Spearman correlation of the diagonal with the impact matrix's importance
combined     minus the mean of a head's ranks under the four

None of them is the paper's: it leaves heads without labels as future work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from tqdm import tqdm

from ditto_fast.errors import DataError
from ditto_fast.evaluation.geometry import mean_cosine, uniformity
from ditto_fast.evaluation.head_scores import head_embeddings
from ditto_fast.evaluation.impact import impact_matrix, importance
from ditto_fast.evaluation.protocol import spearman
from ditto_fast.evaluation.states import States, StateSource
from ditto_fast.evaluation.tfidf import idf_table
from ditto_fast.pooling import normalize

FloatArray = NDArray[np.float32]
Scores = NDArray[np.float64]

CRITERIA = ("idf", "cosine", "uniformity", "impact", "combined")
SENTENCES, IMPACT_SENTENCES = 500, 40  # read at most: embeddings of all heads are held; impact costs W^2 / 2 runs
_FEWEST_SENTENCES = 10
_FEWEST_TOKENS = 3


def head_criteria(source: StateSource, sentences: Sequence[str], progress: bool = False) -> dict[str, Scores]:
    """What each criterion says of each head (L N,), layer first.

    Args:
        source: A checkpoint's states.
        sentences: Plain sentences; document frequencies are counted on all of them, the rest is measured on the
            first `SENTENCES` and `IMPACT_SENTENCES` that are distinct.
        progress: Show bars on stderr.

    Raises:
        DataError: There are fewer than 10 distinct sentences, or the model has no mask token.
    """
    distinct = list(dict.fromkeys(sentences))
    if len(distinct) < _FEWEST_SENTENCES:
        raise DataError(
            f"{len(distinct)} distinct sentences tell too little of a head; at least {_FEWEST_SENTENCES} are wanted, "
            "and a few hundred are better."
        )
    idf = idf_table(source.encodings, distinct)
    texts = distinct[:SENTENCES]
    heads = source.sizes.num_layers * source.sizes.num_heads
    vectors = np.zeros((heads + 1, len(texts), source.sizes.hidden_size), np.float32)
    by_idf: list[Scores] = []

    def measure(states: States) -> tuple[FloatArray, list[Scores]]:
        return head_embeddings(states, "first-last"), _agreements(states, idf[states["input_ids"]])

    groups = [[text] for text in texts]
    for positions, (rows, agreements) in source.map(groups, measure, "criteria" if progress else ""):
        vectors[:, positions] = rows.transpose(1, 0, 2)
        by_idf += agreements
    cosines = np.array([mean_cosine(normalize(rows)) for rows in vectors])
    scores = {
        "idf": np.nanmean(by_idf, axis=0),
        "cosine": cosines[-1] - cosines[:-1],
        "uniformity": -np.array([uniformity(normalize(rows)) for rows in vectors[:-1]]),
        "impact": _impact_agreement(source, texts[:IMPACT_SENTENCES], progress),
    }
    scores["combined"] = -np.mean([rankdata(-score) for score in scores.values()], axis=0)
    return scores


def _agreements(states: States, wanted: FloatArray) -> list[Scores]:
    """For each text, the Spearman correlation (L N,) of each head's diagonal with `wanted` (B, T), over its tokens.

    The first and the last token are special and left out.
    """
    results = []
    for row, length in enumerate(states["mask"].sum(axis=1)):
        inner = slice(1, int(length) - 1)
        weights = wanted[row, inner]
        if len(weights) >= _FEWEST_TOKENS and np.ptp(weights) > 0:
            diagonals = states["diagonals"][row, inner].reshape(len(weights), -1).T
            results.append(spearman(diagonals, np.broadcast_to(weights, diagonals.shape)))
    return results


def _impact_agreement(source: StateSource, texts: Sequence[str], progress: bool) -> Scores:
    results: list[Scores] = []
    for text in tqdm(texts, disable=not progress, desc="impact", unit="sentence"):
        states = source.run([source.encodings.ids(text)])
        results += _agreements(states, importance(impact_matrix(source, text))[None])
    if not results:
        raise DataError("No sentence is long enough for the impact matrix; longer ones are wanted.")
    means: Scores = np.nanmean(results, axis=0)
    return means
