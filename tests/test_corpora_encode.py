"""Embedding corpora: the encoder's vectors, row for row, in shards of the same bytes, whatever happens on the way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
from pyarrow import parquet

from ditto_fast import FastEncoder
from ditto_fast.corpora.encode import encode_corpus
from ditto_fast.errors import (
    DataError,
    NonFiniteError,
    OptionError,
    OutputError,
    OutputExistsError,
    ResumeError,
)
from ditto_fast.tolerances import TOLERANCES

TEXTS = [f"Row {i % 21} of the corpus{' and on' * (i % 7)}." for i in range(26)]  # the last five are the first
FP32 = TOLERANCES["fp32"]


@pytest.fixture(scope="module")
def encoder(tiny_export: Path) -> Iterator[FastEncoder]:
    with FastEncoder(tiny_export, num_threads=1) as opened:
        yield opened


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text, "id": f"doc-{i}"}) + "\n" for i, text in enumerate(TEXTS)))
    return path


def table(folder: Path) -> dict[str, list[object]]:
    return parquet.read_table(folder).to_pydict()


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


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


@pytest.mark.parametrize("name", ["out.npy", "out.jsonl"])
def test_a_finished_single_file_is_not_made_again(name: str, corpus: Path, encoder: FastEncoder, tmp_path: Path):
    first = encode_corpus(corpus, encoder, tmp_path / name, shard_rows=10)
    made = (tmp_path / name).stat().st_mtime_ns
    again = encode_corpus(corpus, encoder, tmp_path / name, shard_rows=10)
    assert (again.rows, again.resumed_rows, again.tokens) == (first.rows, first.rows, 0)
    assert (tmp_path / name).stat().st_mtime_ns == made
    with pytest.raises(ResumeError, match="prompt was"):
        encode_corpus(corpus, encoder, tmp_path / name, shard_rows=10, prompt="query: ")
    corpus.write_text(corpus.read_text().replace("Row 4", "Row 5"))
    with pytest.raises(ResumeError, match="made from other rows"):
        encode_corpus(corpus, encoder, tmp_path / name, shard_rows=10)
    assert encode_corpus(corpus, encoder, tmp_path / name, shard_rows=10, force=True).resumed_rows == 0
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", name, f"{name}.json"}


def test_a_kill_while_the_single_file_is_put_together(corpus, encoder, tmp_path: Path, monkeypatch):
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ditto_fast.corpora.destination.assemble", killed)
        with pytest.raises(KeyboardInterrupt):
            encode_corpus(corpus, encoder, tmp_path / "out.npy", shard_rows=10)
    (tmp_path / "out.npy.shards" / ".out.npy.99").write_bytes(b"half")
    with monkeypatch.context() as patch:  # the next one after the file is there
        patch.setattr("ditto_fast.corpora.destination.Destination._remove_shards", killed)
        with pytest.raises(KeyboardInterrupt):
            encode_corpus(corpus, encoder, tmp_path / "out.npy", shard_rows=10)
    assert not (tmp_path / "out.npy.shards" / ".out.npy.99").exists()
    assert encode_corpus(corpus, encoder, tmp_path / "out.npy", shard_rows=10).resumed_rows == len(TEXTS)
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "out.npy", "out.npy.json"}


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


def test_a_finished_run_is_not_run_again(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    summary = encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10)
    assert (summary.rows, summary.resumed_rows, summary.tokens) == (len(TEXTS), len(TEXTS), 0)
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")} == before


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_shard_alone_is_computed_again(lost: int, corpus: Path, encoder: FastEncoder, tmp_path: Path):
    encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10)
    wanted = content(tmp_path / "out")
    (tmp_path / "out" / f"part-{lost:06d}.parquet").unlink()
    (tmp_path / "out" / ".part-000001.parquet.99").write_bytes(b"left behind by a killed process")
    summary = encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10)
    assert summary.rows - summary.resumed_rows == (6 if lost == 2 else 10)
    assert content(tmp_path / "out") == wanted
    assert not (tmp_path / "out" / ".part-000001.parquet.99").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"shard_rows": 11}, "shard_rows was 10 and is 11"),
        ({"prompt": "query: "}, 'prompt was "" and is "query: "'),
        ({"dtype": "float16"}, 'dtype was "float32" and is "float16"'),
        ({"keep_text": True}, "keep_text was false and is true"),
        ({"id_column": "id"}, 'id_column was null and is "id"'),
        ({"format": "jsonl"}, 'format was null and is "jsonl"'),
    ],
)
def test_another_option_is_refused(changed: dict[str, object], message: str, corpus, encoder, tmp_path: Path):
    encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10)
    wanted = content(tmp_path / "out")
    with pytest.raises(ResumeError) as error:
        encode_corpus(corpus, encoder, tmp_path / "out", **{"shard_rows": 10, **changed})
    assert message in str(error.value)
    assert content(tmp_path / "out") == wanted
    assert (
        encode_corpus(corpus, encoder, tmp_path / "out", force=True, **{"shard_rows": 10, **changed}).resumed_rows == 0
    )
    assert content(tmp_path / "out") != wanted  # its metadata, at least


def test_another_model_is_refused(corpus: Path, encoder: FastEncoder, tiny_export: Path, tmp_path: Path):
    encode_corpus(corpus, encoder, tmp_path / "out")
    copy = shutil.copytree(tiny_export, tmp_path / "copy")
    manifest = copy / "ditto_config.json"
    manifest.write_text(manifest.read_text() + " ")
    with FastEncoder(copy) as other, pytest.raises(ResumeError, match="manifest_sha256 was"):
        encode_corpus(corpus, other, tmp_path / "out")
    with FastEncoder(tiny_export, pooling="cls") as other, pytest.raises(ResumeError, match="pooling was"):
        encode_corpus(corpus, other, tmp_path / "out")


def test_another_input_is_refused(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10)
    original = corpus.read_text()
    for changed in (original.replace("Row 4", "Row 5"), original[:-30] + "\n", "\n".join(original.split("\n")[1:])):
        corpus.write_text(changed)
        with pytest.raises((ResumeError, DataError)) as error:
            encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10)
        if isinstance(error.value, ResumeError):
            assert "was made from other rows than the input has now (rows " in str(error.value)
    corpus.write_text("".join(original.splitlines(keepends=True)[:20]))
    with pytest.raises(ResumeError, match=r"part-000002\.parquet holds rows past the input's last"):
        encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10)


def test_force_computes_again_what_differs_and_nothing_else(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    out = tmp_path / "out"
    encode_corpus(corpus, encoder, out, shard_rows=10)
    (out / "notes.txt").write_text("precious")
    assert encode_corpus(corpus, encoder, out, shard_rows=10, force=True).resumed_rows == len(TEXTS)
    lines = corpus.read_text().splitlines(keepends=True)
    corpus.write_text("".join([*lines[:10], lines[10].replace("Row", "Raw"), *lines[11:20]]))
    assert encode_corpus(corpus, encoder, out, shard_rows=10, force=True).resumed_rows == 10
    assert sorted(content(out)) == ["part-000000.parquet", "part-000001.parquet"]
    (out / "part-000000.parquet").write_bytes(b"broken")
    assert encode_corpus(corpus, encoder, out, shard_rows=10, force=True).resumed_rows == 10
    assert (out / "notes.txt").read_text() == "precious"


def test_a_run_that_failed_at_once_binds_nobody(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    with pytest.raises(DataError, match="no column 'txt'"):
        encode_corpus(corpus, encoder, tmp_path / "out", column="txt")
    assert encode_corpus(corpus, encoder, tmp_path / "out", column="text").rows == len(TEXTS)


def test_a_corrected_row_goes_on(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    lines = corpus.read_text().splitlines(keepends=True)
    corpus.write_text("".join([*lines[:15], '{"text": null}\n', *lines[15:]]))
    with pytest.raises(DataError, match=r"row 16: the text is null\. Correct it"):
        encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=5)
    corpus.write_text("".join([*lines[:15], '{"text": "corrected"}\n', *lines[15:]]))
    assert encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=5).rows == len(TEXTS) + 1


def test_a_broken_shard_is_named(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10)
    shard = tmp_path / "out" / "part-000001.parquet"
    shard.write_bytes(shard.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"part-000001\.parquet cannot be read .*remove it"):
        encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10)


def test_what_others_wrote_is_left_alone(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    for force in (False, True):
        with pytest.raises(ResumeError, match=r"thesis\.txt"):
            encode_corpus(corpus, encoder, tmp_path / "mine", force=force)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    np.save(tmp_path / "mine.npy", np.zeros(3))
    with pytest.raises(OutputExistsError, match="--force"):
        encode_corpus(corpus, encoder, tmp_path / "mine.npy")
    assert np.load(tmp_path / "mine.npy").shape == (3,)
    encode_corpus(corpus, encoder, tmp_path / "mine.npy", force=True)
    assert np.load(tmp_path / "mine.npy").shape == (len(TEXTS), encoder.get_sentence_embedding_dimension())


def test_two_processes_do_not_write_the_same_output(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    from filelock import FileLock

    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"), pytest.raises(OutputError, match="Another process"):
        encode_corpus(corpus, encoder, tmp_path / "out")
    assert encode_corpus(corpus, encoder, tmp_path / "out").rows == len(TEXTS)


@pytest.mark.parametrize("name", ["out", "out.jsonl"])
def test_the_output_inside_the_input_folder_is_not_read(name: str, encoder: FastEncoder, tmp_path: Path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("one\ntwo\n")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ditto_fast.corpora.destination.Destination.finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            encode_corpus(tmp_path / "data", encoder, tmp_path / "data" / name)
    for _ in range(2):
        summary = encode_corpus(tmp_path / "data", encoder, tmp_path / "data" / name)
        assert (summary.rows, summary.resumed_rows) == (2, 2)


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
