"""Evidence against the authors' own evaluation code: the figures it gave on this data (science.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import spearmanr

from ditto_fast import FastEncoder
from ditto_fast.similarity import similarity_pairwise

AUTHORS_STS_B_TEST = {"ditto-first-last": 71.66, "mean-first-last": 82.38}  # all-MiniLM-L6-v2, head 1-10


@pytest.mark.parametrize("pooling", AUTHORS_STS_B_TEST)
def test_sts_b_equals_the_authors_figures(minilm_export: Path, senteval: Path, pooling: str):
    path = senteval / "downstream" / "STS" / "STSBenchmark" / "sts-test.csv"
    rows = [line.strip().split("\t") for line in path.open(encoding="utf-8")]
    assert len(rows) == 1379
    encoder = FastEncoder(minilm_export, pooling=pooling)
    first, second = (encoder.encode([row[column] for row in rows]) for column in (5, 6))
    correlation = spearmanr(similarity_pairwise(first, second), [float(row[4]) for row in rows]).statistic
    assert 100 * correlation == pytest.approx(AUTHORS_STS_B_TEST[pooling], abs=0.01)
