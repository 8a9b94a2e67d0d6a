"""How similarities become the figures of the paper's tables.

"all" is one Spearman correlation over the concatenation of a task's subsets (what the paper, SBERT and SimCSE
report); "mean" averages the subsets' own, "wmean" weighs them by their pairs (BERT-flow, BERT-whitening). The
average of a row is the plain mean of the ROUNDED scores, as the authors' code prints it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ditto_fast.errors import DataError, EmbeddingError
from ditto_fast.evaluation.geometry import Geometry, geometry
from ditto_fast.evaluation.tasks import Task
from ditto_fast.similarity import similarity_pairwise

FloatArray = NDArray[np.float32]
Scores = NDArray[np.float64]

SETTINGS = ("all", "mean", "wmean")
_FEWEST_PAIRS = 3


def _pearson(x: Scores, y: Scores) -> Scores:
    """Pearson correlation over the last axis of (..., n) with (..., n); NaN where one is constant."""
    x = x - x.mean(axis=-1, keepdims=True)
    y = y - y.mean(axis=-1, keepdims=True)
    norm = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Scores = (x * y).sum(axis=-1) / norm
    return result


def spearman(x: NDArray[np.floating], y: NDArray[np.floating]) -> Scores:
    """Spearman correlation (average ranks) over the last axis of (..., n) with (..., n).

    Example:
        >>> float(spearman(np.array([1.0, 2.0, 3.0, 4.0]), np.array([10.0, 30.0, 20.0, 40.0])).round(2))
        0.8
    """
    return _pearson(rankdata(x, axis=-1), rankdata(y, axis=-1))


def pearson(x: NDArray[np.floating], y: NDArray[np.floating]) -> Scores:
    """Pearson correlation over the last axis of (..., n) with (..., n).

    Example:
        >>> float(pearson(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])).round(2))
        1.0
    """
    return _pearson(np.asarray(x, np.float64), np.asarray(y, np.float64))


def check_gold(name: str, gold: Scores) -> None:
    """Checks that a rank correlation with these gold scores (n,) means something.

    Raises:
        DataError: There are fewer than 3 pairs, or all scores are equal.
    """
    if len(gold) < _FEWEST_PAIRS:
        raise DataError(f"{name}: a correlation needs at least {_FEWEST_PAIRS} pairs; got {len(gold)}. Add pairs.")
    if np.ptp(gold) == 0:
        raise DataError(f"{name}: all {len(gold)} gold scores are {gold[0]:g}, so nothing can correlate with them.")


def check_finite(name: str, embeddings: FloatArray, sentences: Sequence[str]) -> None:
    """Checks embeddings (n, H).

    Raises:
        EmbeddingError: A row is not finite; the message names it and its sentence.
    """
    rows = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
    if len(rows):
        raise EmbeddingError(
            f"{name}: {len(rows)} of {len(embeddings)} embeddings are not finite, the first in row {rows[0]} "
            f"({sentences[rows[0]][:60]!r}). In fp16 that means overflow: use fp32."
        )


@dataclass(frozen=True)
class TaskScores:
    """What one pooler gets on one task; correlations are not scaled by 100.

    Args:
        task: The task.
        pairs: How many pairs were scored.
        spearman: By setting of `SETTINGS`.
        pearson: Over the concatenation.
        geometry: Alignment, uniformity and mean cosine, subsets weighed by their pairs.
    """

    task: str
    pairs: int
    spearman: dict[str, float]
    pearson: float
    geometry: Geometry


def score_task(task: Task, embedding: Mapping[str, FloatArray]) -> TaskScores:
    """Scores a task from the embedding (H,) of each of its sentences."""
    cosines, own, shapes = [], [], []
    for subset in task.subsets:
        check_gold(f"{task.name} {subset.name}", subset.gold)
        first, second = (np.stack([embedding[text] for text in side]) for side in (subset.first, subset.second))
        cosines.append(similarity_pairwise(first, second))
        own.append(float(spearman(cosines[-1], subset.gold)))
        shapes.append(geometry(first, second, subset.gold))
    gold, everything = np.concatenate([subset.gold for subset in task.subsets]), np.concatenate(cosines)
    sizes = [len(subset) for subset in task.subsets]
    return TaskScores(
        task.name,
        len(task),
        {
            "all": float(spearman(everything, gold)),
            "mean": float(np.mean(own)),
            "wmean": float(np.average(own, weights=sizes)),
        },
        float(pearson(everything, gold)),
        Geometry.average(shapes, sizes),
    )


def printed(correlation: float) -> float:
    """A correlation as tables print it: x100, two decimals.

    Example:
        >>> printed(0.716649)
        71.66
    """
    return float(f"{100 * correlation:.2f}")


def average(correlations: Sequence[float]) -> float:
    """The row's average: the plain mean of the rounded scores, rounded.

    Example:
        >>> average([0.12344, 0.12344, 0.12348])
        12.34
    """
    return float(f"{np.mean([printed(correlation) for correlation in correlations]):.2f}")
