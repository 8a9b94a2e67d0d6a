"""Every pooler and baseline against a reference that shares no code with it: transformers, in fp64."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from ditto_fast import FastEncoder
from ditto_fast.errors import (
    DataError,
    EmbeddingError,
    ExportDirectoryError,
    HeadError,
    OptionError,
    UnsupportedModelError,
)
from ditto_fast.evaluation.embed import PoolerOptions, check_poolers, embed
from ditto_fast.evaluation.poolers import AUTHORS, POOLERS
from ditto_fast.evaluation.sources import open_source
from ditto_fast.evaluation.states import StateSource
from ditto_fast.pooling import POOLINGS

TEXTS = [
    "The ferry left the harbour before sunrise .",
    "Who repaired the piano ?",
    "bridge",
    "a - the",  # nothing is left of it without biases
    "Prices rose by 3.5 % in 2021, wages did not",
]
HEAD = "2-3"


@pytest.fixture(scope="module")
def tiny(checkpoint) -> Path:
    return checkpoint("bert")


@pytest.fixture(scope="module")
def source(tiny: Path, tmp_path_factory) -> StateSource:
    return open_source(str(tiny), HEAD, tmp_path_factory.mktemp("cache"))


class Reference:
    """The eager model, a text at a time, in fp64."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").double().eval()

    def __call__(self, text: str) -> dict[str, np.ndarray]:
        batch = self.tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            out = self.model(**batch, output_attentions=True, output_hidden_states=True)
            table = self.model.embeddings.word_embeddings(batch["input_ids"])
        return {
            "ids": batch["input_ids"][0].numpy(),
            "a": out.attentions[1][0, 2].diagonal().numpy(),
            "h0": out.hidden_states[0][0].numpy(),
            "h-2": out.hidden_states[-2][0].numpy(),
            "hL": out.hidden_states[-1][0].numpy(),
            "E": table[0].numpy(),
            "pooler": out.pooler_output[0].numpy(),
        }


@pytest.fixture(scope="module")
def reference(tiny: Path) -> Reference:
    return Reference(tiny)


PLAIN = {
    "ditto-first-last": lambda r: sum(a * (x + y) / 2 for a, x, y in zip(r["a"], r["h0"], r["hL"], strict=True)),
    "ditto-last": lambda r: sum(a * y for a, y in zip(r["a"], r["hL"], strict=True)),
    "ditto-first": lambda r: sum(a * x for a, x in zip(r["a"], r["h0"], strict=True)),
    "ditto-static": lambda r: sum(a * e for a, e in zip(r["a"], r["E"], strict=True)),
    "mean-first-last": lambda r: np.mean((r["h0"] + r["hL"]) / 2, axis=0),
    "mean-last": lambda r: np.mean(r["hL"], axis=0),
    "mean-static": lambda r: np.mean(r["E"], axis=0),
    "mean-top2": lambda r: np.mean((r["h-2"] + r["hL"]) / 2, axis=0),
    "cls": lambda r: r["hL"][0],
    "cls-pooler": lambda r: r["pooler"],
}
CHANGED = {"static-remove-biases", "prompt", "tfidf-first-last", "glove"}


def test_every_pooler_has_a_reference_here():
    assert PLAIN.keys() | CHANGED == POOLERS.keys()
    assert set(AUTHORS) <= PLAIN.keys()
    assert set(POOLINGS) <= POOLERS.keys()


@pytest.mark.parametrize("name", PLAIN)
def test_poolers_of_the_authors_code(source: StateSource, reference: Reference, name: str):
    expected = np.stack([PLAIN[name](reference(text)) for text in TEXTS])
    np.testing.assert_allclose(embed(source, TEXTS, [name])[name], expected, atol=2e-5)


def test_an_export_pools_as_fast_encoder_does(tiny_export: Path):
    source = open_source(str(tiny_export), None)
    for name, rows in embed(source, TEXTS, list(POOLINGS)).items():
        np.testing.assert_allclose(rows, FastEncoder(tiny_export, pooling=name).encode(TEXTS), atol=1e-5)


def test_the_prompt_takes_the_last_state_at_the_mask(source: StateSource, reference: Reference):
    filled = [f'This sentence : "{text}" means [MASK].' for text in (TEXTS[0], TEXTS[1], "bridge.")]
    states = [reference(text) for text in filled]
    expected = np.stack([r["hL"][r["ids"].tolist().index(reference.tokenizer.mask_token_id)] for r in states])
    np.testing.assert_allclose(embed(source, TEXTS[:3], ["prompt"])["prompt"], expected, atol=2e-5)
    with pytest.raises(DataError, match=r"\[X\]"):
        embed(source, TEXTS, ["prompt"], PoolerOptions(template="It means [MASK]."))


def test_a_model_without_a_mask_token_cannot_be_prompted(source: StateSource, monkeypatch):
    monkeypatch.setattr("ditto_fast.evaluation.encodings._MASKS", ("[NO SUCH TOKEN]",))
    with pytest.raises(DataError, match="no mask token"):
        embed(source, TEXTS, ["prompt"])


def test_remove_biases_averages_the_word_embeddings_of_what_is_left(source: StateSource, reference: Reference):
    dropped = set(". a the in , is to of and ' on man - s with for \" at ##s woman are it two that you dog".split())
    dropped |= set("said playing i an as was from : by white".split())
    expected = []
    for text in TEXTS:
        tokens = reference.tokenizer.tokenize(text)
        kept = [t for t in tokens if t not in dropped and not t.startswith("##") and t not in "!\"#$%&'()*+,-./:;<=>?"]
        rows = reference(" ".join(kept) or "[PAD]")["E"][1:-1]
        expected.append(rows.mean(axis=0))
    actual = embed(source, TEXTS, ["static-remove-biases"])["static-remove-biases"]
    np.testing.assert_allclose(actual, np.stack(expected), atol=1e-5)
    assert len(dropped) == 36


def test_byte_level_tokenizers_have_no_list_of_biases(checkpoint, tmp_path: Path):
    source = open_source(str(checkpoint("roberta")), "1-1", tmp_path)
    with pytest.raises(DataError, match="WordPiece"):
        embed(source, TEXTS, ["static-remove-biases"])


def test_tfidf_pooling_weighs_by_inverse_document_frequency(source: StateSource, reference: Reference):
    states = [reference(text) for text in TEXTS]
    frequency = Counter(i for r in states for i in set(r["ids"][1:-1].tolist()))
    expected = [
        sum(
            math.log(len(TEXTS) / frequency[i]) * (x + y) / 2
            for i, x, y in list(zip(r["ids"].tolist(), r["h0"], r["hL"], strict=True))[1:-1]
        )
        for r in states
    ]
    actual = embed(source, TEXTS, ["tfidf-first-last"])["tfidf-first-last"]
    np.testing.assert_allclose(actual, np.stack(expected), atol=1e-4)


def test_glove_averages_the_words_that_the_file_has(source: StateSource, tmp_path: Path):
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 0 0\nferry 0 2 0\nWho 0 0 3\nwho 9 9 9\n? 0 0 1\n", encoding="utf-8")
    rows = embed(source, TEXTS[:3], ["glove"], PoolerOptions(vectors=path))["glove"]
    np.testing.assert_allclose(rows, [[2 / 3, 2 / 3, 0], [1 / 3, 0, 4 / 3], [0, 0, 0]], atol=1e-6)
    with pytest.raises(OptionError, match="--vectors"):
        embed(source, TEXTS, ["glove"])
    path.write_text("the 1 0 0\nferry 0 2\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2: 3 numbers"):
        embed(source, TEXTS, ["glove"], PoolerOptions(vectors=path))


def test_what_a_model_cannot_serve_is_said_before_any_work(tiny_export: Path, checkpoint, tmp_path: Path):
    export = open_source(str(tiny_export), None)
    for name in ("ditto-static", "mean-top2", "cls-pooler"):
        with pytest.raises(ExportDirectoryError, match="Name the checkpoint"):
            check_poolers(export, [name], PoolerOptions())
    with pytest.raises(OptionError, match="holds head 2-3, not 1-1"):
        open_source(str(tiny_export), "1-1")
    electra = open_source(str(checkpoint("electra")), None, tmp_path)
    with pytest.raises(UnsupportedModelError, match="trained pooler weights"):
        check_poolers(electra, ["cls-pooler"], PoolerOptions())
    with pytest.raises(HeadError, match="--head"):
        check_poolers(electra, ["ditto-last"], PoolerOptions())
    with pytest.raises(OptionError, match="mean-last"):
        check_poolers(electra, ["mean_last"], PoolerOptions())
    with pytest.raises(HeadError, match="1-1 to 3-4"):
        open_source(str(checkpoint("electra")), "4-1", tmp_path)


def test_embeddings_that_are_not_finite_are_named(checkpoint, tmp_path: Path):
    source = open_source(str(checkpoint("bert")), None, tmp_path)
    source.tables["static"] = source.tables["static"].copy()
    source.tables["static"][source.encodings.ids(TEXTS[2])[1]] = np.inf
    with pytest.raises(EmbeddingError, match=r"mean-static: 1 of 5 .* row 2 \('bridge'\)"):
        embed(source, TEXTS, ["mean-static"])


def test_an_embedding_graph_alone_cannot_be_pooled_otherwise(tiny_export: Path):
    with pytest.raises(ExportDirectoryError, match="--outputs tokens"):
        open_source(str(tiny_export / "model_embedding.onnx"), None)
    with pytest.raises(OptionError, match="64"):
        open_source(str(tiny_export), None, max_seq_length=65)


@pytest.mark.parametrize("family", ["roberta", "electra", "electra-projected"])
def test_static_and_diagonal_of_other_families(checkpoint, tmp_path: Path, family: str):
    folder = checkpoint(family)
    source = open_source(str(folder), HEAD, tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    rows = embed(source, TEXTS, ["ditto-static", "ditto-first-last"])
    for number, text in enumerate(TEXTS):
        batch = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            out = model(**batch, output_attentions=True, output_hidden_states=True)
            table = model.get_input_embeddings()(batch["input_ids"])[0]
        a = out.attentions[1][0, 2].diagonal()[:, None]
        both = (a * (out.hidden_states[0][0] + out.hidden_states[-1][0]) / 2).sum(0)
        np.testing.assert_allclose(rows["ditto-static"][number], (a * table).sum(0).numpy(), atol=2e-5)
        np.testing.assert_allclose(rows["ditto-first-last"][number], both.numpy(), atol=2e-5)
