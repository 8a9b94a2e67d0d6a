"""Evidence against the authors' own evaluation code: the figures it gave on this data (science.md)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from scipy.stats import spearmanr

from ditto_fast import FastEncoder
from ditto_fast.evaluation.evaluate import evaluate
from ditto_fast.evaluation.poolers import AUTHORS as AUTHORS_POOLERS
from ditto_fast.evaluation.protocol import printed
from ditto_fast.evaluation.sources import open_source
from ditto_fast.evaluation.tasks import TASKS, Task, load_task
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


def test_every_pooler_of_the_authors_code_on_the_real_model(minilm: Path, senteval: Path, tmp_path: Path):
    """Correlations on 300 pairs, ours and by transformers run eagerly as the authors do, in batches of 128."""
    subset = load_task(senteval, "STS-B").subsets[0].take(np.arange(300))
    rows = evaluate(open_source(str(minilm), "1-10", tmp_path), [Task("STS-B", (subset,))], AUTHORS_POOLERS)
    ours = {row.pooler: row.scores[0].spearman["all"] for row in rows}
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    model = transformers.AutoModel.from_pretrained(minilm, attn_implementation="eager").eval()
    vectors: dict[str, list[torch.Tensor]] = {name: [] for name in AUTHORS_POOLERS}
    for start in range(0, 600, 128):
        batch = tokenizer(subset.sentences[start : start + 128], padding=True, return_tensors="pt")
        with torch.no_grad():
            out = model(**batch, output_attentions=True, output_hidden_states=True)
            table = model.embeddings.word_embeddings(batch["input_ids"])
        m = batch["attention_mask"].unsqueeze(-1)
        a = out.attentions[0][:, 9].diagonal(dim1=1, dim2=2).unsqueeze(-1)
        first, second_last, last = (out.hidden_states[number] for number in (0, -2, -1))
        pooled = {
            "ditto-static": (table * m * a).sum(1),
            "ditto-last": (last * m * a).sum(1),
            "ditto-first-last": ((first + last) / 2 * m * a).sum(1),
            "mean-static": (table * m).sum(1) / m.sum(1),
            "mean-last": (last * m).sum(1) / m.sum(1),
            "mean-first-last": ((first + last) / 2 * m).sum(1) / m.sum(1),
            "mean-top2": ((second_last + last) / 2 * m).sum(1) / m.sum(1),
            "cls": last[:, 0],
            "cls-pooler": out.pooler_output,
        }
        for name, rows_of_batch in pooled.items():
            vectors[name].append(rows_of_batch)
    for name, batches in vectors.items():
        left, right = torch.cat(batches).split(300)
        cosines = torch.cosine_similarity(left, right)
        assert ours[name] == pytest.approx(spearmanr(cosines, subset.gold).statistic, abs=1e-4), name
