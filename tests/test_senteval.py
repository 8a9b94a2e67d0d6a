"""Evidence against the authors' own evaluation code: the figures it gave on this data (science.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import spearmanr

from ditto_fast import FastEncoder
from ditto_fast.evaluation.evaluate import evaluate
from ditto_fast.evaluation.protocol import printed
from ditto_fast.evaluation.sources import open_source
from ditto_fast.evaluation.tasks import TASKS, load_task
from ditto_fast.similarity import similarity_pairwise

AUTHORS_STS_B_TEST = {"ditto-first-last": 71.66, "mean-first-last": 82.38}  # all-MiniLM-L6-v2, head 1-10
# STS12 to 16, STS-B, SICK-R, Avg
AUTHORS = {
    "ditto-first-last": [65.43, 72.63, 66.74, 79.57, 75.81, 71.66, 70.69, 71.79],
    "mean-first-last": [71.29, 79.69, 74.71, 85.48, 80.95, 82.38, 75.77, 78.61],
}


@pytest.mark.parametrize("pooling", AUTHORS_STS_B_TEST)
def test_sts_b_equals_the_authors_figures(minilm_export: Path, senteval: Path, pooling: str):
    path = senteval / "downstream" / "STS" / "STSBenchmark" / "sts-test.csv"
    rows = [line.strip().split("\t") for line in path.open(encoding="utf-8")]
    assert len(rows) == 1379
    encoder = FastEncoder(minilm_export, pooling=pooling)
    first, second = (encoder.encode([row[column] for row in rows]) for column in (5, 6))
    correlation = spearmanr(similarity_pairwise(first, second), [float(row[4]) for row in rows]).statistic
    assert 100 * correlation == pytest.approx(AUTHORS_STS_B_TEST[pooling], abs=0.01)


def test_the_table_equals_the_authors_figures(minilm_export: Path, senteval: Path):
    """No truncation: the export's own max_seq_length is not used."""
    rows = evaluate(open_source(str(minilm_export), None), [load_task(senteval, name) for name in TASKS], list(AUTHORS))
    for row in rows:
        scores = [printed(scores.spearman["all"]) for scores in row.scores]
        assert [*scores, row.average("all")] == pytest.approx(AUTHORS[row.pooler], abs=0.0101)
