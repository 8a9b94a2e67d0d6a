"""Options that are refused before anything is computed, and files that are not where they were."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from ditto_fast import FastEncoder
from ditto_fast.artifact import MANIFEST_FILE
from ditto_fast.errors import (
    EncoderClosedError,
    ExportDirectoryError,
    MissingDependencyError,
    NonFiniteError,
    OptionError,
    TextTypeError,
)
from ditto_fast.tolerances import within


@pytest.fixture
def encoder(tiny_export: Path) -> FastEncoder:
    return FastEncoder(tiny_export, num_threads=2)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a", "b"], {"precision": "binary", "truncate_dim": 12}, "whole bytes; got 12"),
        ("a", {"precision": "int8"}, "one embedding"),
        (["a"], {"batch_size": True}, "batch_size must be an integer at least 1; got True"),
        (["a"], {"batch_size": 2.0}, "got 2.0"),
        (["a"], {"truncate_dim": -1}, "from 1 to 48"),
    ],
)
def test_nothing_is_computed_for_an_option_that_is_refused(
    encoder: FastEncoder, monkeypatch: pytest.MonkeyPatch, texts, options, message: str
):
    monkeypatch.setattr(encoder, "_open", lambda: pytest.fail("it computes"))
    with pytest.raises(OptionError, match=message):
        encoder.encode(texts, **options)


def test_a_tensor_without_torch_is_refused_first(encoder: FastEncoder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(encoder, "_open", lambda: pytest.fail("it computes"))
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match="pip install torch"):
        encoder.encode(["a"], convert_to_tensor=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": False}, "num_workers must be an integer at least 0"),
        ({"num_workers": -1}, "at least 0"),
        ({"num_threads": 0}, "at least 1"),
        ({"prompts": "query: "}, "prompts must map query, document, passage, corpus to"),
        ({"prompts": {"query": 3}}, "to strings"),
        ({"prompts": {"pasage": "p: "}}, "got 'pasage'. Did you mean 'passage'"),
        ({"providers": None}, "providers must be"),
        ({"providers": []}, "providers must be"),
    ],
)
def test_bad_options_of_an_encoder(tiny_export: Path, options, message: str):
    with pytest.raises(OptionError, match=message):
        FastEncoder(tiny_export, **options)


def test_integers_of_numpy_are_integers(encoder: FastEncoder):
    assert encoder.encode(["a", "b"], batch_size=np.int64(1), truncate_dim=np.int32(8)).shape == (2, 8)
    for size in (np.uint8(200), np.int8(100)):  # past which the positions of 300 texts overflow
        assert encoder.encode([f"text {i}" for i in range(300)], batch_size=size).shape == (300, 48)
    assert encoder.encode([], precision="int8").shape == (0, 48)


def test_a_value_past_float16_is_not_silent(encoder: FastEncoder, monkeypatch: pytest.MonkeyPatch):
    large = lambda texts, *_: np.full((len(texts), 48), 1e5, np.float32)  # noqa: E731
    monkeypatch.setattr(encoder._open(), "embed", large)
    with pytest.raises(NonFiniteError, match=r"rows \[0\]"):
        encoder.encode(["a"], precision="float16")
    assert np.isfinite(encoder.encode(["a"], precision="float16", normalize_embeddings=True)).all()


def test_a_relative_path_is_that_of_its_time(tiny_export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tiny_export.parent)
    encoder = FastEncoder(tiny_export.name, num_threads=2)
    expected = encoder.encode("a")
    monkeypatch.chdir(tmp_path)
    assert within(encoder.encode("a"), expected)  # the second opens another session
    assert within(pickle.loads(pickle.dumps(encoder)).encode("a"), expected)
    assert encoder.token_weights("a")
    encoder.max_seq_length = 8


def test_an_open_encoder_outlives_its_folder(tiny_export: Path, tmp_path: Path):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_export, copy)
    encoder = FastEncoder(copy, num_threads=2)
    first = encoder.encode("a")
    os.rename(copy, tmp_path / "moved")
    assert within(encoder.encode("a"), first)
    assert within(encoder.encode("a"), first)


def test_a_folder_may_be_called_as_a_file(tiny_export: Path, tmp_path: Path):
    folder = tmp_path / "minilm.onnx"
    shutil.copytree(tiny_export, folder)
    assert FastEncoder(folder).encode("a").shape == (48,)


def test_a_graph_that_is_not_the_manifests_is_refused(tiny_export: Path, tmp_path: Path):
    shutil.copytree(tiny_export, tmp_path / "copy")
    shutil.copy(tmp_path / "copy" / "model.onnx", tmp_path / "copy" / "model_embedding.onnx")
    with pytest.raises(ExportDirectoryError, match="sentence_embedding: it is not the graph"):
        FastEncoder(tmp_path / "copy")


@pytest.mark.parametrize(
    ("field", "value", "message"), [("graphs", {}, "names no graph"), ("files", {}, "no hashes of files")]
)
def test_a_manifest_without_graphs_or_hashes(tiny_export: Path, tmp_path: Path, field: str, value, message: str):
    shutil.copytree(tiny_export, tmp_path / "copy")
    manifest = tmp_path / "copy" / MANIFEST_FILE
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {field: value}))
    with pytest.raises(ExportDirectoryError, match=message):
        FastEncoder(tmp_path / "copy", verify=True)


def test_auto_takes_the_cpu_where_cuda_does_not_start(tiny_export: Path, monkeypatch: pytest.MonkeyPatch):
    both = ["CUDAExecutionProvider", "CPUExecutionProvider"]  # a GPU build on a machine without a GPU
    if both[0] in onnxruntime.get_available_providers():
        pytest.skip("CUDA is here")
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: both)
    with pytest.warns(RuntimeWarning, match="CUDAExecutionProvider did not start"):
        encoder = FastEncoder(tiny_export, providers="auto")
    assert encoder.provider == "CPUExecutionProvider"


def _manifest_with(export: Path, folder: Path, **values: object) -> Path:
    copied = Path(shutil.copytree(export, folder))
    manifest = json.loads((copied / MANIFEST_FILE).read_text(encoding="utf-8"))
    (copied / MANIFEST_FILE).write_text(json.dumps(manifest | values), encoding="utf-8")
    return copied


def test_prompts_of_the_checkpoint_are_the_default(tiny_export: Path, tmp_path: Path):
    kept = {"query": "query: ", "passage": "passage: ", "clustering": "topic: "}
    export = _manifest_with(tiny_export, tmp_path / "export", prompts=kept)
    encoder = FastEncoder(export)
    assert encoder.prompts == {"query": "query: ", "document": "passage: "}
    assert within(encoder.encode_query("rain"), encoder.encode("query: rain"))
    assert within(encoder.encode_document(["rain"]), encoder.encode(["passage: rain"]))
    assert FastEncoder(export, prompts={}).prompts == {}
    assert FastEncoder(export, prompts={"corpus": "c: "}).prompts == {"document": "c: "}


def test_a_prompt_has_to_be_named_and_a_string(encoder: FastEncoder):
    with pytest.raises(TypeError, match="positional"):
        encoder.encode_query(["rain"], "query")  # sentence-transformers has the prompt's name there
    for prompt in (3, 0, False, ["a"]):
        for method in (encoder.encode_query, encoder.encode_document, encoder.encode_stream):
            with pytest.raises(OptionError, match="prompt must be a string"):
                method(["rain"], prompt=prompt)


@pytest.mark.parametrize(
    "options", [{"truncate_dim": 9999}, {"precision": "int4"}, {"batch_size": 0}, {"chunk_size": 0}], ids=str
)
def test_a_stream_is_not_touched_for_an_option_that_is_refused(encoder: FastEncoder, options):
    texts = iter(["a", "b"])
    with pytest.raises(OptionError):
        encoder.encode_stream(texts, **options)
    assert list(texts) == ["a", "b"]


def test_a_stream_is_refused_at_once(encoder: FastEncoder):
    for wrong in ("abc", {"a": 1}, 3):
        with pytest.raises(TextTypeError):
            encoder.encode_stream(wrong)
    encoder.close()
    with pytest.raises(EncoderClosedError):
        encoder.encode_stream(["a"])


def test_a_stream_takes_a_prompt_and_shows_one_bar(encoder: FastEncoder, capsys: pytest.CaptureFixture[str]):
    texts = ["rain", "wind", "sun"]
    chunks = list(encoder.encode_stream(texts, chunk_size=2, prompt="the ", show_progress_bar=True))
    assert within(np.concatenate(chunks), encoder.encode([f"the {text}" for text in texts]))
    bars = capsys.readouterr().err
    assert "3/3" in bars
    assert bars.count("100%") == 1


def test_fewer_dimensions_hold_no_memory_of_all(encoder: FastEncoder):
    rows = encoder.encode(["a", "b"], truncate_dim=8)
    assert rows.flags.c_contiguous
    assert rows.base is None or rows.base.nbytes == rows.nbytes
    assert all(row.base is None for row in encoder.encode(["a", "b"], convert_to_numpy=False))


def test_a_closed_encoder_opens_and_changes_nothing(encoder: FastEncoder):
    length = encoder.max_seq_length
    encoder.close()
    with pytest.raises(EncoderClosedError):
        encoder.token_weights("a")
    assert encoder._tokens_runner is None
    with pytest.raises(EncoderClosedError):
        encoder.max_seq_length = 8
    assert encoder.max_seq_length == length


def test_what_the_caller_changes_later_changes_no_copy(tiny_export: Path):
    prompts, providers = {"query": "q: "}, ["CPUExecutionProvider"]
    encoder = FastEncoder(tiny_export, prompts=prompts, providers=providers)
    prompts["query"], providers[0] = "other: ", "no provider"
    assert pickle.loads(pickle.dumps(encoder)).prompts == encoder.prompts == {"query": "q: "}
