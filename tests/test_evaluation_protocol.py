"""Scores against scipy and against formulas written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from ditto_fast.errors import DataError, EmbeddingError
from ditto_fast.evaluation.geometry import geometry
from ditto_fast.evaluation.protocol import average, check_finite, check_gold, pearson, score_task, spearman
from ditto_fast.evaluation.tasks import Subset, Task

RNG = np.random.default_rng(0)


def _subset(name: str, count: int) -> Subset:
    first, second = ([f"{name} {side} {i}" for i in range(count)] for side in "ab")
    return Subset(name, first, second, RNG.integers(0, 6, count).astype(float))


def test_correlations_are_scipys_with_ties():
    x = RNG.integers(0, 5, (3, 40)).astype(float)
    y = RNG.integers(0, 5, 40).astype(float)
    for row, rank, plain in zip(x, spearman(x, np.broadcast_to(y, x.shape)), pearson(x, y), strict=True):
        assert rank == pytest.approx(spearmanr(row, y).statistic)
        assert plain == pytest.approx(pearsonr(row, y).statistic)


def test_all_is_one_correlation_and_the_means_are_of_the_subsets():
    task = Task("toy", (_subset("x", 30), _subset("y", 10)))
    vectors = {text: RNG.standard_normal(4).astype(np.float32) for text in task.sentences}
    scores = score_task(task, vectors)

    def cosines(subset: Subset) -> list[float]:
        pairs = ((vectors[a].astype(float), vectors[b]) for a, b in zip(subset.first, subset.second, strict=True))
        return [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs]

    own = [spearmanr(cosines(subset), subset.gold).statistic for subset in task.subsets]
    everything = [c for subset in task.subsets for c in cosines(subset)]
    gold = np.concatenate([subset.gold for subset in task.subsets])
    assert scores.spearman["all"] == pytest.approx(spearmanr(everything, gold).statistic, abs=1e-6)
    assert scores.spearman["mean"] == pytest.approx(np.mean(own), abs=1e-6)
    assert scores.spearman["wmean"] == pytest.approx((30 * own[0] + 10 * own[1]) / 40, abs=1e-6)
    assert scores.pearson == pytest.approx(pearsonr(everything, gold).statistic, abs=1e-6)
    assert scores.pairs == 40


def test_the_average_is_of_rounded_values():
    exact = [0.12344, 0.12344, 0.12348]
    assert average(exact) == 12.34  # of 12.34, 12.34, 12.35
    assert round(100 * np.mean(exact), 2) == 12.35


def test_geometry_is_its_formulas():
    first, second = RNG.standard_normal((2, 7, 5)).astype(np.float32)
    gold = np.array([5, 4, 4.5, 1, 2, 3, 0.0])
    x, y = (v.astype(float) / np.linalg.norm(v, axis=1, keepdims=True) for v in (first, second))
    everything = np.concatenate([x, y])
    distances = [np.sum((a - b) ** 2) for i, a in enumerate(everything) for b in everything[:i]]
    shape = geometry(first, second, gold)
    assert shape.alignment == pytest.approx(np.mean([np.sum((x[i] - y[i]) ** 2) for i in (0, 2)]), abs=1e-5)
    assert shape.uniformity == pytest.approx(math.log(np.mean(np.exp(-2 * np.array(distances)))), abs=1e-5)
    assert shape.mean_cosine == pytest.approx(np.mean(everything @ everything.T), abs=1e-5)
    assert math.isnan(geometry(first, second, np.zeros(7)).alignment)


def test_what_cannot_be_scored_is_said():
    with pytest.raises(DataError, match="at least 3 pairs; got 2"):
        check_gold("dev", np.array([1.0, 2.0]))
    with pytest.raises(DataError, match="all 3 gold scores are 4"):
        check_gold("dev", np.array([4.0, 4.0, 4.0]))
    rows = np.zeros((3, 2), np.float32)
    rows[1, 0] = np.nan
    with pytest.raises(EmbeddingError, match=r"row 1 \('second'\)"):
        check_finite("cls", rows, ["first", "second", "third"])
