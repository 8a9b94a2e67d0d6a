"""FastEncoder on MTEB's own task classes, with data that is local and small."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import spearmanr
from test_evaluation_cli import pairs

from ditto_fast import FastEncoder
from ditto_fast.evaluation.mteb_encoder import MtebEncoder
from ditto_fast.similarity import similarity, similarity_pairwise

mteb = pytest.importorskip("mteb", minversion="2", reason="mteb is not installed: pip install 'mteb>=2'")

DOCUMENTS = {
    "d1": "A cat sleeps on the warm windowsill.",
    "d2": "The central bank raised its interest rates.",
    "d3": "The goalkeeper saved a penalty in the last minute.",
}
QUERIES = {"q1": "a kitten naps by the window", "q2": "monetary policy is tightened", "q3": "a football match"}


def _metadata(name: str, kind: str, main_score: str) -> dict[str, object]:
    return {
        "name": name,
        "dataset": {"path": "local/none", "revision": "1"},
        "description": "local",
        "type": kind,
        "category": "t2t",
        "modalities": ["text"],
        "eval_splits": ["test"],
        "eval_langs": ["eng-Latn"],
        "main_score": main_score,
    }


def _sts_task():
    from datasets import Dataset
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    class LocalSts(AbsTaskSTS):
        metadata = TaskMetadata(**_metadata("LocalSts", "STS", "cosine_spearman"))

        def load_data(self, *_, **__) -> None:
            first, second, gold = (list(column) for column in zip(*pairs(20, 0), strict=True))
            self.dataset = {"test": Dataset.from_dict({"sentence1": first, "sentence2": second, "score": gold})}
            self.data_loaded = True

    return LocalSts()


def _retrieval_task():
    from datasets import Dataset
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    class LocalRetrieval(AbsTaskRetrieval):
        metadata = TaskMetadata(**_metadata("LocalRetrieval", "Retrieval", "ndcg_at_10"))

        def load_data(self, *_, **__) -> None:
            split = {
                "corpus": Dataset.from_dict({"id": list(DOCUMENTS), "text": list(DOCUMENTS.values())}),
                "queries": Dataset.from_dict({"id": list(QUERIES), "text": list(QUERIES.values())}),
                "relevant_docs": {f"q{number}": {f"d{number}": 1} for number in (1, 2, 3)},
                "top_ranked": None,
            }
            self.dataset = {"default": {"test": split}}
            self.data_loaded = True

    return LocalRetrieval()


def _scores(encoder: FastEncoder, task) -> dict[str, float]:
    result = mteb.evaluate(MtebEncoder(encoder), task, cache=None, co2_tracker=False, show_progress_bar=False)
    return result.task_results[0].scores["test"][0]


def test_a_local_sts_task(tiny_export: Path):
    encoder = FastEncoder(tiny_export)
    first, second, gold = zip(*pairs(20, 0), strict=True)
    cosines = similarity_pairwise(encoder.encode(first), encoder.encode(second))
    assert _scores(encoder, _sts_task())["spearman"] == pytest.approx(spearmanr(cosines, gold).statistic, abs=1e-6)


def test_a_local_retrieval_task(minilm_export: Path):
    encoder = FastEncoder(minilm_export, pooling="mean-last")
    cosines = similarity(encoder.encode(list(QUERIES.values())), encoder.encode(list(DOCUMENTS.values())))
    assert cosines.argmax(axis=1).tolist() == [0, 1, 2]
    scores = _scores(encoder, _retrieval_task())
    assert scores["ndcg_at_10"] == 1
    assert scores["recall_at_1"] == 1


def test_the_model_is_named(tiny_export: Path):
    meta = MtebEncoder(FastEncoder(tiny_export)).mteb_model_meta
    assert meta.name == "local/bert-ditto-first-last-2-3"
    assert meta.embed_dim == 48
