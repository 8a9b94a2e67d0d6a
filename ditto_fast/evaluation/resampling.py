"""How sure a choice is: a paired bootstrap over sentence pairs, and a choice scored on pairs it was not made on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ditto_fast.evaluation.head_scores import Candidate, candidates
from ditto_fast.evaluation.protocol import spearman
from ditto_fast.heads import Head

FloatArray = NDArray[np.float32]
_RESAMPLES = 1000


@dataclass(frozen=True)
class Interval:
    """A difference of two Spearman correlations x100 with its 95 % bootstrap interval."""

    difference: float
    low: float
    high: float


def bootstrap_difference(a: FloatArray, b: FloatArray, gold: NDArray[np.float64], seed: int) -> Interval:
    """Spearman of `a` less that of `b`, x100, resampling the n pairs.

    Args:
        a: Cosines (n,).
        b: Cosines (n,) of the same pairs.
        gold: Gold scores (n,).
        seed: Of the resampling.
    """
    draws = np.random.default_rng(seed).integers(0, len(gold), (_RESAMPLES, len(gold)))
    differences = 100 * (spearman(a[draws], gold[draws]) - spearman(b[draws], gold[draws]))
    low, high = np.nanpercentile(differences, [2.5, 97.5])  # a resample may hold one gold score only
    return Interval(100 * float(spearman(a, gold) - spearman(b, gold)), float(low), float(high))


@dataclass(frozen=True)
class HeldOut:
    """A choice made on one half of the pairs and scored on the other.

    Args:
        head: The head that the first half chose, with its pooling.
        plain: The plain average that it chose.
        head_score: The head's Spearman x100 on the second half.
        plain_score: The plain average's.
    """

    head: Candidate
    plain: Candidate
    head_score: float
    plain_score: float


def held_out(heads: list[Head], cosines: dict[str, FloatArray], gold: NDArray[np.float64], seed: int) -> list[HeldOut]:
    """Chooses on each half of the pairs, drawn at random, and scores on the other."""
    halves = np.array_split(np.random.default_rng(seed).permutation(len(gold)), 2)
    results = []
    for chosen_on, scored_on in (halves, halves[::-1]):
        ranking = candidates(heads, cosines, gold, chosen_on)
        head = next(candidate for candidate in ranking if candidate.head is not None)
        plain = next(candidate for candidate in ranking if candidate.head is None)
        scores = [
            100 * float(spearman(cosines[choice.variant][choice.row, scored_on], gold[scored_on]))
            for choice in (head, plain)
        ]
        results.append(HeldOut(head, plain, scores[0], scores[1]))
    return results
