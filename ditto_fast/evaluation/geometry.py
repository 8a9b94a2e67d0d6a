"""Shape of an embedding space: alignment, uniformity (Wang and Isola, 2020) and mean cosine (anisotropy).

Embeddings are divided by their L2 norm first. As in the authors' code, alignment is over pairs with a gold
score above 4 and uniformity over all distinct pairs of all sentences of a subset. The mean cosine counts a
sentence's cosine with itself, as PromptBERT's procedure does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from ditto_fast.pooling import normalize

FloatArray = NDArray[np.float32]

_ALIKE = 4.0  # gold scores above it make a positive pair
_BLOCK = 1024  # rows of the similarity matrix held at once


@dataclass(frozen=True)
class Geometry:
    """Alignment (NaN where no pair is alike enough), uniformity and mean cosine."""

    alignment: float
    uniformity: float
    mean_cosine: float

    @classmethod
    def average(cls, parts: Sequence[Geometry], weights: Sequence[int]) -> Geometry:
        """The weighted mean of each, over the parts that have it."""
        values = np.array([list(asdict(part).values()) for part in parts])
        known = ~np.isnan(values)
        weight = np.asarray(weights, np.float64)[:, None] * known
        with np.errstate(invalid="ignore"):
            means = np.where(known, values, 0).T @ np.asarray(weights, np.float64) / weight.sum(axis=0)
        return cls(*map(float, means))


def uniformity(embeddings: FloatArray) -> float:
    """Log mean exp(-2 ||x - y||^2) over the distinct pairs of rows of unit vectors (n, H).

    Example:
        >>> round(uniformity(np.array([[1, 0], [0, 1]], np.float32)), 3)
        -4.0
    """
    count = len(embeddings)
    total = 0.0
    for start in range(0, count, _BLOCK):
        rows = embeddings[start : start + _BLOCK]
        cosines = rows @ embeddings[start:].T  # the upper triangle, by blocks
        above = np.triu(np.exp(4 * (cosines - 1)), k=1)  # ||x - y||^2 = 2 - 2 x.y
        total += float(above.sum(dtype=np.float64))
    return math.log(total / (count * (count - 1) / 2)) if count > 1 and total > 0 else math.nan


def mean_cosine(embeddings: FloatArray) -> float:
    """Mean cosine over all pairs of unit vectors (n, H), each with itself included: |mean vector|^2.

    Example:
        >>> mean_cosine(np.array([[1, 0], [0, 1]], np.float32))
        0.5
    """
    centre = embeddings.mean(axis=0, dtype=np.float64)
    return float(centre @ centre)


def geometry(first: FloatArray, second: FloatArray, gold: NDArray[np.float64]) -> Geometry:
    """Alignment, uniformity and mean cosine of the pairs' embeddings (n, H) each."""
    left, right = normalize(first), normalize(second)
    alike = gold > _ALIKE
    squares = ((left[alike].astype(np.float64) - right[alike]) ** 2).sum(axis=1)
    everything = np.concatenate([left, right])
    return Geometry(float(squares.mean()) if alike.any() else math.nan, uniformity(everything), mean_cosine(everything))
