"""A run that was stopped, changed or finished before: it goes on, is refused, or is left as it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from corpora import TEXTS, content

pytest.importorskip("pyarrow")

from ditto_fast import FastEncoder
from ditto_fast.corpora import encode_corpus, search_corpus
from ditto_fast.errors import DataError, OutputError, OutputExistsError, ResumeError


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


def every_file(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["out", "out.npy"])
def test_a_run_that_is_refused_or_stopped_leaves_a_finished_output(name: str, corpus, encoder, tmp_path, monkeypatch):
    encode_corpus(corpus, encoder, tmp_path / name, shard_rows=10)
    before = every_file(tmp_path)
    lines = corpus.read_text().splitlines(keepends=True)
    for changed in (lines[1:], lines[:20], [*lines[:20], *lines[21:]]):
        corpus.write_text("".join(changed))
        with pytest.raises(ResumeError):
            encode_corpus(corpus, encoder, tmp_path / name, shard_rows=10)
    corpus.write_text("".join(["no JSON\n", *lines]))
    with pytest.raises(DataError, match="row 1"):
        encode_corpus(corpus, encoder, tmp_path / name, shard_rows=10)
    corpus.write_text("".join(lines))
    with pytest.raises(ResumeError, match="prompt was"):
        encode_corpus(corpus, encoder, tmp_path / name, shard_rows=10, prompt="query: ")
    with monkeypatch.context() as patch:
        patch.setattr("ditto_fast.corpora.blocks.Block.add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            encode_corpus(corpus, encoder, tmp_path / name, shard_rows=10)
    assert every_file(tmp_path) == before
    if name == "out":
        assert search_corpus(tmp_path / name, encoder.encode(TEXTS[10]))[0][0].row == 10


@pytest.mark.parametrize("options", [{}, {"prompt": "query: "}])
def test_a_folder_is_not_called_whole_once_a_shard_of_it_changes(options, corpus, encoder, tmp_path, monkeypatch):
    encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10)
    corpus.write_text(corpus.read_text().replace("Row 4", "Row 5"))
    with monkeypatch.context() as patch:
        patch.setattr("ditto_fast.corpora.run.Run._note_bad", interrupted)  # the first shard has just been written
        with pytest.raises(KeyboardInterrupt):
            encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10, force=True, **options)
    with pytest.raises(DataError, match="is not whole"):
        search_corpus(tmp_path / "out", encoder.encode("text"))
    encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10, force=True, **options)
    corpus.write_text("".join(corpus.read_text().splitlines(keepends=True)[:10]))
    with monkeypatch.context() as patch:
        patch.setattr("ditto_fast.corpora.destination.Destination.finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            encode_corpus(corpus, encoder, tmp_path / "out", shard_rows=10, force=True, **options)
    assert not (tmp_path / "out" / "_summary.json").exists()  # the shards past the input's end are gone


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


STRANGE = ["", "no JSON", "[]", "null", '{"made by": "somebody else"}', '{"settings": 1}', "[" * 100_000, "\udcff"]


@pytest.mark.parametrize("text", STRANGE, ids=range(len(STRANGE)))
@pytest.mark.parametrize("name", ["mine.npy", "mine.jsonl"])
def test_a_json_of_others_beside_a_single_file_is_left_alone(name: str, text: str, corpus, encoder, tmp_path: Path):
    about = tmp_path / f"{name}.json"
    about.write_text(text, "utf-8", "surrogateescape")
    before = every_file(tmp_path)
    with pytest.raises(OutputExistsError, match=rf"{name}\.json .*Name another output, or pass --force to replace it"):
        encode_corpus(corpus, encoder, tmp_path / name)
    assert every_file(tmp_path) == before
    (tmp_path / name).write_bytes(b"precious")
    with pytest.raises(OutputExistsError):
        encode_corpus(corpus, encoder, tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"precious"
    encode_corpus(corpus, encoder, tmp_path / name, force=True)
    assert json.loads(about.read_text())["summary"]["rows"] == len(TEXTS)


def test_a_file_of_others_is_left_alone_beside_the_remains_of_a_run(corpus: Path, encoder: FastEncoder, tmp_path: Path):
    (tmp_path / "mine.npy.shards").mkdir()
    (tmp_path / "mine.npy").write_bytes(b"precious")
    with pytest.raises(OutputExistsError):
        encode_corpus(corpus, encoder, tmp_path / "mine.npy")
    assert (tmp_path / "mine.npy").read_bytes() == b"precious"


@pytest.mark.parametrize("text", STRANGE, ids=range(len(STRANGE)))
def test_broken_settings_are_named(text: str, corpus: Path, encoder: FastEncoder, tmp_path: Path):
    encode_corpus(corpus, encoder, tmp_path / "out")
    (tmp_path / "out" / "_settings.json").write_text(text, "utf-8", "surrogateescape")
    before = every_file(tmp_path)
    for force in (False, True):
        with pytest.raises(ResumeError, match=r"out/_settings\.json .*Name another output, or remove"):
            encode_corpus(corpus, encoder, tmp_path / "out", force=force)
    assert every_file(tmp_path) == before


@pytest.mark.parametrize("text", STRANGE, ids=range(len(STRANGE)))
def test_a_broken_summary_is_named_and_made_anew(text: str, corpus: Path, encoder: FastEncoder, tmp_path: Path):
    encode_corpus(corpus, encoder, tmp_path / "out")
    before = every_file(tmp_path)
    (tmp_path / "out" / "_summary.json").write_text(text, "utf-8", "surrogateescape")
    with pytest.raises(DataError, match=r"out/_summary\.json .*Run ditto-encode again"):
        search_corpus(tmp_path / "out", encoder.encode("text"))
    assert encode_corpus(corpus, encoder, tmp_path / "out").resumed_rows == len(TEXTS)
    assert every_file(tmp_path) == before


@pytest.mark.parametrize("metadata", [None, {"ditto_fast": "{}"}, {"ditto_fast": ""}, {"ditto_fast": "[]"}])
def test_a_shard_of_others_is_named(metadata: dict[str, str] | None, corpus, encoder: FastEncoder, tmp_path: Path):
    import pyarrow
    from pyarrow import parquet

    encode_corpus(corpus, encoder, tmp_path / "out")
    strange = pyarrow.table({"a": [1]}).replace_schema_metadata(metadata)
    parquet.write_table(strange, tmp_path / "out" / "part-000000.parquet")
    with pytest.raises(DataError, match=r"part-000000\.parquet was not written by ditto-encode"):
        encode_corpus(corpus, encoder, tmp_path / "out")


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
    with monkeypatch.context() as patch:
        patch.setattr("ditto_fast.corpora.destination.Destination.finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            encode_corpus(tmp_path / "data", encoder, tmp_path / "data" / name)
    for _ in range(2):
        summary = encode_corpus(tmp_path / "data", encoder, tmp_path / "data" / name)
        assert (summary.rows, summary.resumed_rows) == (2, 2)


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
    with monkeypatch.context() as patch:
        patch.setattr("ditto_fast.corpora.destination.assemble", interrupted)
        with pytest.raises(KeyboardInterrupt):
            encode_corpus(corpus, encoder, tmp_path / "out.npy", shard_rows=10)
    (tmp_path / "out.npy.shards" / ".out.npy.99").write_bytes(b"half")
    with monkeypatch.context() as patch:  # the next one after the file is there
        patch.setattr("ditto_fast.corpora.destination.Destination._remove_shards", interrupted)
        with pytest.raises(KeyboardInterrupt):
            encode_corpus(corpus, encoder, tmp_path / "out.npy", shard_rows=10)
    assert not (tmp_path / "out.npy.shards" / ".out.npy.99").exists()
    assert encode_corpus(corpus, encoder, tmp_path / "out.npy", shard_rows=10).resumed_rows == len(TEXTS)
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "out.npy", "out.npy.json"}
