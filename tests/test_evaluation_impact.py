"""The impact matrix against one masked form at a time, TF-IDF against scikit-learn, the analysis, the explanation."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from scipy.stats import pearsonr, spearmanr

from ditto_fast.errors import DataError, HeadError
from ditto_fast.evaluation.analysis import analyse
from ditto_fast.evaluation.explain_cli import _explain
from ditto_fast.evaluation.explanation import Explanation, explain, html
from ditto_fast.evaluation.impact import impact_matrix, importance
from ditto_fast.evaluation.sources import open_source
from ditto_fast.evaluation.states import StateSource
from ditto_fast.evaluation.tfidf import TfIdf
from ditto_fast.evaluation.words import word_means, word_texts

HEAD = "2-3"
CORPUS = [
    "The ferry left the harbour before sunrise.",
    "Who repaired the old piano in the school hall?",
    "Prices rose but wages did not.",
    "A committee of teachers met twice in the spring.",
    "ferry ferry piano",
    "two words",
]


@pytest.fixture(scope="module")
def source(checkpoint, tmp_path_factory) -> StateSource:
    return open_source(str(checkpoint("bert")), HEAD, tmp_path_factory.mktemp("cache"))


def test_the_impact_matrix_is_its_definition_entry_by_entry(source: StateSource, checkpoint):
    """By transformers in fp64, each form alone; the text has a word of several pieces and a repeated one."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint("bert"))
    model = transformers.AutoModel.from_pretrained(checkpoint("bert")).double().eval()
    text = "The harboured met the piano"
    batch = tokenizer(text, return_tensors="pt")
    words = [-1 if word is None else word for word in batch.word_ids()]
    assert len(set(words)) < len(words) - 1  # a word of several pieces

    def state(row: int, hidden: set[int]) -> torch.Tensor:
        ids = batch["input_ids"].clone()
        for place, word in enumerate(words):
            if word in hidden - {-1}:
                ids[0, place] = tokenizer.mask_token_id
        with torch.no_grad():
            return model(input_ids=ids).last_hidden_state[0, row]

    expected = [
        [(state(i, {words[i]}) - state(i, {words[i], words[j]})).norm().item() for j in range(len(words))]
        for i in range(len(words))
    ]
    actual = impact_matrix(source, text)
    np.testing.assert_allclose(actual, expected, atol=5e-5)
    assert actual[:, 0].tolist() == [0] * len(words)
    columns = [np.mean([expected[i][j] for i in range(len(words)) if i != j]) for j in range(len(words))]
    np.testing.assert_allclose(importance(actual), columns, atol=5e-5)


def test_tfidf_is_scikit_learns_with_the_classic_idf():
    from sklearn.feature_extraction.text import CountVectorizer

    documents = [text.lower().rstrip(".?").split() for text in CORPUS]
    counts = CountVectorizer(analyzer=lambda words: words)
    table = counts.fit_transform(documents).toarray() * np.log(
        len(documents) / (counts.transform(documents).toarray() > 0).sum(axis=0)
    )
    tfidf = TfIdf(documents)
    for words, row in zip(documents, table, strict=True):
        expected = [row[counts.vocabulary_[word]] / np.linalg.norm(row) for word in words]
        np.testing.assert_allclose(tfidf(words), expected, atol=1e-12)
    assert TfIdf([["a"]])(["a", "b"]).tolist() == [0, 0]


def test_words_and_their_means(source: StateSource):
    encoding = source.encodings("The harboured met")
    assert word_texts(encoding) == ["the", "harboured", "met"]
    scores = np.arange(len(encoding.tokens), dtype=float)
    pieces = [[place for place, word in enumerate(encoding.words) if word == number] for number in range(3)]
    assert word_means(encoding, scores).tolist() == [np.mean(places) for places in pieces]


def test_the_analysis_pools_the_words_of_all_sentences(source: StateSource):
    result = analyse(source, CORPUS, impact_sentences=2)
    tfidf = TfIdf([word_texts(source.encodings(text)) for text in CORPUS])
    scores, wanted = [], []
    for text in CORPUS[:-1]:  # "two words" is too short
        encoding = source.encodings(text)
        scores.append(word_means(encoding, source.run([encoding.ids])["diagonal"][0]))
        wanted.append(tfidf(word_texts(encoding)))
    pooled = np.concatenate(scores), np.concatenate(wanted)
    assert (result.diagonal.sentences, result.impact.sentences) == (5, 2)
    assert result.diagonal.words == len(pooled[0])
    assert result.diagonal.pearson == pytest.approx(pearsonr(*pooled).statistic, abs=1e-6)
    assert result.diagonal.spearman == pytest.approx(spearmanr(*pooled).statistic, abs=1e-6)
    own = [spearmanr(score, weight).statistic for score, weight in zip(scores, wanted, strict=True)]
    assert result.diagonal.by_sentence == pytest.approx(np.mean(own), abs=1e-6)
    assert math.isfinite(result.impact.pearson)
    with pytest.raises(DataError, match="3 words"):
        analyse(source, ["two words"])


def test_the_explanation_shows_each_tokens_scores(source: StateSource, monkeypatch):
    text = "The piano & the ferry"
    explanation = explain(source, text, CORPUS)
    ids = source.encodings.ids(text)
    assert explanation.scores["diagonal"] == pytest.approx(source.run([ids])["diagonal"][0].tolist())
    assert explanation.scores["impact"] == pytest.approx(importance(impact_matrix(source, text)).tolist())
    assert explanation.scores["TF-IDF"][0] == 0
    assert len(explanation.tokens) == len(ids)
    page = html(explanation)
    assert page.count("<span") == 3 * len(ids)
    escaped = html(Explanation("m", ["<b>", "x"], {"diagonal": [1.0, 0.0]}, []))
    assert "&lt;b&gt;" in escaped
    assert "><b><" not in escaped
    assert list(explain(source, text).scores) == ["diagonal", "impact"]
    monkeypatch.setattr("ditto_fast.evaluation.encodings._MASKS", ("[NO SUCH TOKEN]",))
    without = explain(source, text)
    assert list(without.scores) == ["diagonal"]
    assert "no mask token" in without.missing[0]
    with pytest.raises(HeadError, match="--head"):
        explain(StateSource(source.directory, source.session, source.sizes, source.encodings, None), text)


def test_the_command_draws(tiny_export: Path, tmp_path: Path, capsys):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(CORPUS))
    files = {"png": tmp_path / "weights.png", "html_": tmp_path / "weights.html"}
    _explain("The ferry left", str(tiny_export), corpus=corpus, **files)
    shown = capsys.readouterr().out
    assert "[CLS]" in shown
    assert "█" in shown
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert files["html_"].read_text().startswith("<!DOCTYPE html>")
    _explain("The ferry left", str(tiny_export), as_json=True)
    record = json.loads(capsys.readouterr().out)
    assert record["tokens"][0] == "[CLS]"
    assert "--corpus" in record["missing"][0]
