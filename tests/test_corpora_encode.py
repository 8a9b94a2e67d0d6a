"""Embedding corpora: the encoder's vectors, row for row, in shards of the same bytes, whatever happens on the way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from corpora import TEXTS, content

pytest.importorskip("pyarrow")
from pyarrow import parquet

from ditto_fast import FastEncoder
from ditto_fast.corpora import encode_corpus, search_corpus
from ditto_fast.errors import (
    DataError,
    NonFiniteError,
    OptionError,
    OutputError,
)
from ditto_fast.tolerances import TOLERANCES

FP32 = TOLERANCES["fp32"]


def table(folder: Path) -> dict[str, list[object]]:
    return parquet.read_table(folder).to_pydict()


def test_shards_hold_the_encoders_vectors(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    out = tmp_path / "out"
    summary = encode_corpus(corpus, encoder, out, id_column="id", keep_text=True, shard_rows=10)
    assert (summary.rows, summary.shards, summary.nulls, summary.resumed_rows) == (len(TEXTS), 3, 0, 0)
    found = table(out)
    assert found["id"] == [f"doc-{i}" for i in range(len(TEXTS))]
    assert found["text"] == TEXTS
    np.testing.assert_allclose(np.array(found["embedding"]), encoder.encode(TEXTS), rtol=0, atol=FP32)
    assert json.loads((out / "_summary.json").read_text()) == {
        "rows": len(TEXTS),
        "shards": 3,
        "nulls": 0,
        "bad_rows": [],
    }


def test_metadata_says_what_the_vectors_are(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    encode_corpus(corpus, encoder, tmp_path / "out", dtype="float16", truncate_dim=5)
    schema = parquet.read_schema(tmp_path / "out" / "part-000000.parquet")
    about = json.loads(schema.metadata[b"ditto_fast"])
    assert {name: about[name] for name in ("head", "pooling", "precision", "dtype", "truncate_dim")} == {
        "head": "2-3",
        "pooling": "ditto-first-last",
        "precision": "fp32",
        "dtype": "float16",
        "truncate_dim": 5,
    }
    assert len(about["manifest_sha256"]) == 64
    assert str(schema.field("embedding").type) == "fixed_size_list<element: halffloat>[5]"
    assert str(schema.field("id").type) == "int64"


@pytest.mark.parametrize("name", ["out.npy", "out.jsonl"])
def test_single_files_hold_the_same(name: str, corpus: Path, encoder: FastEncoder, tmp_path: Path):
    encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10)
    wanted = np.array(table(tmp_path / "out")["embedding"], np.float32)
    encode_corpus(corpus, encoder, tmp_path / name, shard_rows=10)
    if name.endswith(".npy"):
        found = np.load(tmp_path / name, mmap_mode="r")
    else:
        records = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert [record["id"] for record in records] == list(range(len(TEXTS)))
        found = np.array([record["embedding"] for record in records], np.float32)
    np.testing.assert_array_equal(found, wanted)
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "out", name, f"{name}.json"}
    assert json.loads((tmp_path / f"{name}.json").read_text())["settings"]["head"] == "2-3"


@pytest.mark.parametrize("name", ["minilm:v1", "file:x", "hdfs:out", "s3:bucket", "C:x"])
def test_a_name_with_a_colon_is_a_local_one(name: str, corpus: Path, encoder: FastEncoder, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    encode_corpus(corpus, encoder, "plain", keep_text=True, shard_rows=10)
    encode_corpus(corpus, encoder, name, keep_text=True, shard_rows=10)
    assert content(tmp_path / name) == content(tmp_path / "plain")
    assert encode_corpus(corpus, encoder, name, keep_text=True, shard_rows=10).resumed_rows == len(TEXTS)
    (hits,) = search_corpus(name, encoder.encode(TEXTS[10]))
    assert (hits[0].row, hits[0].text) == (10, TEXTS[10])
    encode_corpus(name, encoder, f"{name}.npy")  # as an input, too
    assert np.load(f"{name}.npy").shape[0] == len(TEXTS)


def test_the_same_bytes_with_any_threads_and_workers(corpus: Path, tiny_export: Path, tmp_path: Path):
    for name, options in {
        "one": {"num_threads": 1},
        "three": {"num_threads": 3},
        "workers": {"num_threads": 2, "num_workers": 2},
    }.items():
        with FastEncoder(tiny_export, **options) as encoder:
            encode_corpus(corpus, encoder, tmp_path / name, shard_rows=10)
    assert content(tmp_path / "one") == content(tmp_path / "three") == content(tmp_path / "workers")


def test_options_reach_the_vectors(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    encode_corpus(corpus, encoder, tmp_path / "out", prompt="query: ", truncate_dim=8, normalize_embeddings=True)
    wanted = encoder.encode(["query: " + text for text in TEXTS], truncate_dim=8, normalize_embeddings=True)
    np.testing.assert_allclose(np.array(table(tmp_path / "out")["embedding"]), wanted, rtol=0, atol=FP32)


def test_an_empty_input_is_an_empty_output(encoder: FastEncoder, tmp_path: Path):
    (tmp_path / "empty.txt").touch()
    assert encode_corpus(tmp_path / "empty.txt", encoder, tmp_path / "out").rows == 0
    assert table(tmp_path / "out") == {"id": [], "embedding": []}
    encode_corpus(tmp_path / "empty.txt", encoder, tmp_path / "out.npy")
    assert np.load(tmp_path / "out.npy").shape == (0, encoder.get_sentence_embedding_dimension())


def test_bad_rows_are_null_and_listed(encoder: FastEncoder, tmp_path: Path):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"first\n\xff\nlast\n")
    for name in ("out", "out.npy", "out.jsonl"):
        summary = encode_corpus(path, encoder, tmp_path / name, on_error="null")
        assert (summary.rows, summary.nulls) == (3, 1)
        assert summary.bad_rows == [{"file": str(path), "row": 2, "problem": "invalid UTF-8 at byte 0"}]
    found = table(tmp_path / "out")
    assert (found["id"], found["embedding"][1]) == ([0, 1, 2], None)
    np.testing.assert_allclose(
        np.array([found["embedding"][0], found["embedding"][2]]), encoder.encode(["first", "last"]), rtol=0, atol=FP32
    )
    assert np.isnan(np.load(tmp_path / "out.npy")).all(axis=1).tolist() == [False, True, False]
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["embedding"] is None for line in lines] == [False, True, False]


def test_a_bad_row_raises_and_null_goes_on_from_there(encoder: FastEncoder, tmp_path: Path):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"first\nsecond\n\xff\n")
    with pytest.raises(DataError, match=r"bad\.txt, row 3"):
        encode_corpus(path, encoder, tmp_path / "out", shard_rows=1)
    summary = encode_corpus(path, encoder, tmp_path / "out", shard_rows=1, on_error="null")
    assert (summary.rows, summary.nulls) == (3, 1)


class _Broken:
    """An engine whose vector of one text is infinite."""

    def __init__(self, encoder: FastEncoder) -> None:
        from ditto_fast.corpora.engines import EncoderEngine

        self._engine = EncoderEngine(encoder)
        self.model = self._engine.model
        self.normalize = False

    def embed(self, blocks, prompt, done):
        for block, embeddings in self._engine.embed(blocks, prompt, done):
            bad = [text == "bad" for text in block.texts if text is not None]
            embeddings[bad] = np.inf
            yield block, embeddings


def test_a_vector_that_is_not_finite_is_a_bad_row(encoder: FastEncoder, tmp_path: Path):
    path = tmp_path / "corpus.txt"
    path.write_text("good\nfine\nbad\ngood\n")
    with pytest.raises(NonFiniteError, match=r"corpus\.txt, row 3: .*NaN or infinity") as error:
        encode_corpus(path, _Broken(encoder), tmp_path / "raised")
    assert error.value.rows == [2]
    for resumed in (0, 4):  # the second time the shard itself says which rows
        summary = encode_corpus(path, _Broken(encoder), tmp_path / "null", on_error="null")
        assert summary.resumed_rows == resumed
        assert [(row["row"], "NaN" in row["problem"]) for row in summary.bad_rows] == [(3, True)]
    assert [vector is None for vector in table(tmp_path / "null")["embedding"]] == [False, False, True, False]


@pytest.mark.parametrize(
    ("output", "options", "error", "message"),
    [
        ("out.npy", {"id_column": "id"}, OptionError, "embeddings alone"),
        ("out.npy", {"keep_text": True}, OptionError, "embeddings alone"),
        ("out", {"dtype": "int8"}, OptionError, "dtype"),
        ("out", {"truncate_dim": 10_000}, OptionError, "truncate_dim"),
        ("out", {"shard_rows": 0}, OptionError, "shard_rows"),
        ("out", {"on_error": "skip"}, OptionError, "on_error"),
        ("corpus.jsonl/out", {}, OSError, "corpus"),
        ("a-file", {}, OutputError, "must be a folder"),
        ("a-folder.npy", {}, OutputError, "must be a file"),
    ],
)
def test_options_that_cannot_be(
    output: str, options: dict[str, object], error: type[Exception], message: str, corpus, encoder, tmp_path: Path
):
    (tmp_path / "a-file").touch()
    (tmp_path / "a-folder.npy").mkdir()
    with pytest.raises(error, match=message):
        encode_corpus(corpus, encoder, tmp_path / output, **options)


def test_reading_ahead_stops_with_the_run(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    import threading

    class _Failing(_Broken):
        def embed(self, blocks, *_):
            next(blocks)
            raise RuntimeError("out of luck")
            yield

    before = threading.active_count()
    with pytest.raises(RuntimeError, match="out of luck"):
        encode_corpus(corpus, _Failing(encoder), tmp_path / "out", shard_rows=1)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(timeout=1)
    assert threading.active_count() <= before
