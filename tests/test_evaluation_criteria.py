"""Heads without labels: each criterion by its formula, and the regret of its pick."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr
from test_evaluation_cli import pairs

from ditto_fast.errors import DataError
from ditto_fast.evaluation.criteria import CRITERIA, head_criteria
from ditto_fast.evaluation.embed import embed
from ditto_fast.evaluation.heads_cli import _heads
from ditto_fast.evaluation.impact import impact_matrix, importance
from ditto_fast.evaluation.regret import head_task_scores, regret
from ditto_fast.evaluation.sources import open_checkpoint, open_source
from ditto_fast.evaluation.states import StateSource
from ditto_fast.evaluation.tasks import Subset, Task
from ditto_fast.heads import Head

TEXTS = list(dict.fromkeys(text for a, b, _ in pairs(9, 3) for text in (a, b)))
HEAD = Head(2, 3)
ROW = 6  # of head 2-3 among 3 layers of 4


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def source(checkpoint, cache: Path) -> StateSource:
    return open_checkpoint(str(checkpoint("bert")), "ditto-heads", cache)


@pytest.fixture(scope="module")
def criteria(source: StateSource) -> dict[str, np.ndarray]:
    return head_criteria(source, TEXTS)


def test_geometry_of_a_heads_embeddings(criteria, checkpoint, cache: Path):
    one = open_source(str(checkpoint("bert")), str(HEAD), cache)
    vectors = embed(one, TEXTS, ["ditto-first-last", "mean-first-last"])
    unit = {name: rows / np.linalg.norm(rows, axis=1, keepdims=True) for name, rows in vectors.items()}
    cosines = {name: rows @ rows.T for name, rows in unit.items()}
    drop = cosines["mean-first-last"].mean() - cosines["ditto-first-last"].mean()
    assert criteria["cosine"][ROW] == pytest.approx(drop, abs=1e-5)
    above = cosines["ditto-first-last"][np.triu_indices(len(TEXTS), 1)]
    assert criteria["uniformity"][ROW] == pytest.approx(-math.log(np.exp(4 * (above - 1)).mean()), abs=1e-4)


def test_agreement_with_idf_and_impact(criteria, source: StateSource):
    encodings = [source.encodings(text) for text in TEXTS]
    frequency = Counter(i for e in encodings for i in set(e.ids[1:-1].tolist()))
    by_idf, by_impact = [], []
    for text, encoding in zip(TEXTS, encodings, strict=True):
        diagonal = source.run([encoding.ids])["diagonals"][0, 1:-1, 1, 2]
        idf = [math.log(len(TEXTS) / frequency[i]) for i in encoding.ids[1:-1].tolist()]
        by_idf.append(spearmanr(diagonal, idf).statistic)
        by_impact.append(spearmanr(diagonal, importance(impact_matrix(source, text))[1:-1]).statistic)
    assert criteria["idf"][ROW] == pytest.approx(np.nanmean(by_idf), abs=1e-5)
    assert criteria["impact"][ROW] == pytest.approx(np.nanmean(by_impact), abs=1e-2)  # ties within a word may break


def test_the_combination_is_the_mean_rank(criteria):
    assert tuple(criteria) == CRITERIA
    ranks = [rankdata(-criteria[name]) for name in CRITERIA[:-1]]
    np.testing.assert_allclose(criteria["combined"], -np.mean(ranks, axis=0))


def test_scores_by_task_are_those_of_the_poolers(source: StateSource, checkpoint, cache: Path):
    first, second, gold = zip(*pairs(12, 4), strict=True)
    halves = [Subset(str(n), list(first[s]), list(second[s]), np.array(gold[s])) for n, s in enumerate(_HALVES)]
    scores = head_task_scores(source, [Task("toy", tuple(halves))])
    one = open_source(str(checkpoint("bert")), str(HEAD), cache)
    rows = embed(one, [*first, *second], ["ditto-first-last"])["ditto-first-last"]
    a, b = np.split(rows / np.linalg.norm(rows, axis=1, keepdims=True), 2)
    assert scores.shape == (1, 13)
    assert scores[0, ROW] == pytest.approx(spearmanr((a * b).sum(axis=1), gold).statistic, abs=1e-4)


_HALVES = (slice(0, 5), slice(5, 12))


def test_regret_is_against_the_best_head_and_the_plain_average():
    heads = [Head(1, 1), Head(1, 2), Head(2, 1)]
    scores = np.array([[0.5, 0.7, 0.6, 0.65], [0.3, 0.5, 0.6, 0.45]])  # means 0.4, 0.6, 0.6; plain 0.55
    result = regret(heads, {"good": np.array([0, 2, 1]), "bad": np.array([3, 1, 2])}, scores, ["x", "y"])
    good, bad = result.picks
    assert (good.head, good.rank) == ("1-2", 1)
    assert (good.regret, good.over_plain) == pytest.approx((0, 5))
    assert (bad.head, bad.rank) == ("1-1", 3)
    assert (bad.regret, bad.over_plain) == pytest.approx((20, -15))
    assert result.random_head == pytest.approx(160 / 3)
    assert bad.agreement < 0 < good.agreement


def test_too_few_sentences_are_refused(source: StateSource):
    with pytest.raises(DataError, match="3 distinct sentences"):
        head_criteria(source, ["a", "b", "c", "a"])


def test_the_command_picks_without_labels(checkpoint, cache: Path, tmp_path: Path, criteria, capsys):
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(TEXTS))
    _heads(str(checkpoint("bert")), unlabeled=path, cache=cache, as_json=True)
    picks = json.loads(capsys.readouterr().out)["picks"]
    assert set(picks) == set(CRITERIA)
    best = int(np.argmax(criteria["idf"]))
    assert picks["idf"] == f"{best // 4 + 1}-{best % 4 + 1}"
