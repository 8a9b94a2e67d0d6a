"""FastEncoder on MTEB's own task classes, with data that is local and small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from test_evaluation_cli import pairs

from ditto_fast import FastEncoder
from ditto_fast.evaluation.mteb_encoder import MtebEncoder
from ditto_fast.export import export_model
from ditto_fast.similarity import similarity, similarity_pairwise
from ditto_fast.tolerances import within

mteb = pytest.importorskip("mteb", minversion="2", reason="mteb is not installed: pip install 'mteb>=2'")

DOCUMENTS = {
    "d1": "A cat sleeps on the warm windowsill.",
    "d2": "The central bank raised its interest rates.",
    "d3": "The goalkeeper saved a penalty in the last minute.",
}
QUERIES = {"q1": "a kitten naps by the window", "q2": "monetary policy is tightened", "q3": "a football match"}
TEXTS = list(DOCUMENTS.values())


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


def test_what_gives_other_vectors_has_another_name(checkpoint, tiny_export: Path, tmp_path: Path):
    both = export_model(checkpoint("bert"), "2-3", tmp_path / "both", precision=("fp32", "int8")).directory
    encoders = [
        FastEncoder(tiny_export),
        FastEncoder(both, precision="int8"),
        FastEncoder(tiny_export, max_seq_length=8),
        FastEncoder(tiny_export, prompts={"query": "query: "}),
        FastEncoder(tiny_export, prompts={"document": "passage: "}),
    ]
    names = [MtebEncoder(encoder).mteb_model_meta.name for encoder in encoders]
    plain = "local/bert-ditto-first-last-2-3"
    assert names[:3] == [plain, f"{plain}-int8", f"{plain}-8-tokens"]
    assert len(set(names)) == len(encoders)
    assert MtebEncoder(FastEncoder(both)).mteb_model_meta == MtebEncoder(encoders[0]).mteb_model_meta


def test_exports_of_other_settings_have_other_revisions(checkpoint, tiny_export: Path, tmp_path: Path):
    exports = [
        tiny_export,
        export_model(checkpoint("bert"), "2-3", tmp_path / "short", max_seq_length=8).directory,
        export_model(checkpoint("bert"), "2-3", tmp_path / "normalized", normalize=True).directory,
    ]
    metas = [MtebEncoder(FastEncoder(export)).mteb_model_meta for export in exports]
    assert {meta.name for meta in metas} == {"local/bert-ditto-first-last-2-3"}
    assert len({meta.revision for meta in metas}) == len(exports)


def test_the_name_is_that_of_the_length_set_last(tiny_export: Path):
    encoder = FastEncoder(tiny_export)
    model = MtebEncoder(encoder)
    model.mteb_model_meta = model.mteb_model_meta.model_copy(update={"license": "mit"})  # as mteb's wrappers do
    encoder.max_seq_length = 8
    meta = model.mteb_model_meta
    assert (meta.name.endswith("-8-tokens"), meta.max_tokens, meta.license) == (True, 8, "mit")


def test_another_precision_does_not_get_cached_scores(checkpoint, tmp_path: Path):
    from mteb.cache import ResultCache

    export = export_model(checkpoint("bert"), "2-3", tmp_path / "both", precision=("fp32", "int8")).directory
    cache = ResultCache(tmp_path / "cache")
    for precision in ("fp32", "int8", "int8"):
        encoder = MtebEncoder(FastEncoder(export, precision=precision))
        mteb.evaluate(encoder, _sts_task(), cache=cache, co2_tracker=False, show_progress_bar=False)
    kept = sorted(path.parts[-3] for path in tmp_path.rglob("LocalSts.json"))
    assert kept == ["local__bert-ditto-first-last-2-3", "local__bert-ditto-first-last-2-3-int8"]


def test_queries_and_documents_get_their_prompts(tiny_export: Path):
    from mteb.types import PromptType

    encoder = FastEncoder(tiny_export, prompts={"query": "query: ", "document": "passage: "})
    expected = {
        PromptType.query: encoder.encode_query(TEXTS),
        PromptType.document: encoder.encode_document(TEXTS),
        None: encoder.encode(TEXTS),
    }
    for prompt_type, vectors in expected.items():
        batches = [{"text": TEXTS[:2]}, {"text": TEXTS[2:]}]
        given = MtebEncoder(encoder).encode(
            batches, task_metadata=None, hf_split="test", hf_subset="default", prompt_type=prompt_type
        )
        assert within(given, vectors)


def test_similarity_takes_every_tensor(tiny_export: Path):
    import torch

    model, rows = MtebEncoder(FastEncoder(tiny_export)), torch.eye(3)
    for given in (rows, rows.bfloat16(), rows.clone().requires_grad_(), list(rows), rows.numpy()):
        assert np.array_equal(model.similarity(given, given), np.eye(3))
        assert np.array_equal(model.similarity_pairwise(given, given), np.ones(3))
