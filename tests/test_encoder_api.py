"""FastEncoder's surface: options, conversions, streams, prompts, providers, closing."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import sentence_transformers
import torch

from ditto_fast import FastEncoder
from ditto_fast.batches import plan_batches
from ditto_fast.errors import (
    EncoderClosedError,
    ExportDirectoryError,
    NonFiniteError,
    OptionError,
    ProviderError,
    TextTypeError,
)
from ditto_fast.pooling import normalize
from ditto_fast.providers import PROVIDERS, resolve_providers
from ditto_fast.quantization import EMBEDDING_PRECISIONS, quantize_embeddings
from ditto_fast.scheduler import CHUNK
from ditto_fast.tolerances import within

TEXTS = ["The ferry left.", "x", "who repaired the piano?", "x", "word " * 30]


@pytest.fixture(scope="module")
def encoder(tiny_export: Path) -> FastEncoder:
    return FastEncoder(tiny_export)


def test_each_distinct_text_is_computed_once_and_the_result_is_the_same(tiny_export: Path, monkeypatch):
    encoder = FastEncoder(tiny_export)
    seen: list[str] = []
    tokenizer = encoder._open().tokenizer
    monkeypatch.setattr(encoder._open(), "tokenizer", lambda texts: seen.extend(texts) or tokenizer(texts))
    once = encoder.encode(["b", "a", "b", "b"])
    assert sorted(seen) == ["a", "b"]
    assert (once[0] == once[2]).all()
    seen.clear()
    assert within(encoder.encode(["b", "a", "b", "b"], deduplicate=False), once)
    assert sorted(seen) == ["a", "b", "b", "b"]


def test_more_texts_than_a_chunk_come_back_in_order(encoder: FastEncoder):
    texts = [f"{'long ' * (i % 7)}text {i}" for i in range(3 * CHUNK + 5)]
    together = encoder.encode(texts)
    for i in (0, CHUNK, 2 * CHUNK + 1, len(texts) - 1):
        assert within(together[i], encoder.encode(texts[i]))


def test_batch_size_is_honoured(tiny_export: Path, monkeypatch):
    encoder = FastEncoder(tiny_export, num_threads=1)
    sizes: list[int] = []
    runner = encoder._open().runner
    monkeypatch.setattr(runner, "embed", lambda ids, real=runner.embed: sizes.append(len(ids)) or real(ids))
    encoder.encode([f"text {i}" for i in range(10)], batch_size=4)
    assert sizes == [4, 4, 2]


def test_padding_waste_on_sts_is_under_two_percent(minilm_export: Path, senteval: Path):
    encoder = FastEncoder(minilm_export)
    path = senteval / "downstream" / "STS" / "STSBenchmark" / "sts-test.csv"
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").strip().split("\n")]
    lengths = [len(ids) for ids in encoder._open().tokenizer([row[c].strip() for row in rows for c in (5, 6)])]
    batches = plan_batches(lengths, encoder._rule())
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    assert padded / sum(lengths) < 1.02


def test_a_text_alone_takes_all_threads_and_is_the_same(tiny_export: Path):
    encoder = FastEncoder(tiny_export, num_threads=2)
    both = encoder._open()._wide
    assert both is not None
    long = "word " * 100
    first = encoder.encode(long)
    assert both.wide is None  # the first is not to wait for it
    alone = encoder.encode(long)
    assert within(alone, first)
    assert both.wide is not None
    assert both.wide.session.get_session_options().intra_op_num_threads == 2
    assert within(alone, encoder.encode([long, "two", "three"])[0])
    with both.lock:  # another call has the threads
        assert within(encoder.encode(long), alone)
    for options in ({"num_threads": 1}, {"num_threads": 2, "session_options": lambda _: None}):
        other = FastEncoder(tiny_export, **options)
        assert within(other.encode(long), alone)
        assert within(other.encode(long), alone)
        assert other._open()._wide is None


def test_uniform_length_pads_nothing(tiny_export: Path, monkeypatch):
    encoder = FastEncoder(tiny_export)
    runner = encoder._open().runner
    lengths: list[set[int]] = []
    monkeypatch.setattr(runner, "embed", lambda ids, real=runner.embed: lengths.append({*map(len, ids)}) or real(ids))
    vectors = encoder.encode(TEXTS, uniform_length=True)
    assert all(len(batch) == 1 for batch in lengths)
    assert within(vectors, FastEncoder(tiny_export).encode(TEXTS))


def test_conversions(encoder: FastEncoder):
    vectors = encoder.encode(TEXTS)
    tensor = encoder.encode(TEXTS, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor)
    assert within(tensor.numpy(), vectors)
    assert encoder.encode("one", convert_to_numpy=False).shape == (48,)
    rows = encoder.encode(TEXTS, convert_to_numpy=False)
    assert isinstance(rows, list)
    assert within(np.stack(rows), vectors)
    short = encoder.encode(TEXTS, truncate_dim=8, normalize_embeddings=True)
    assert within(short, normalize(vectors[:, :8]))
    with pytest.raises(OptionError, match="from 1 to 48"):
        encoder.encode(TEXTS, truncate_dim=49)


@pytest.mark.parametrize("precision", EMBEDDING_PRECISIONS)
def test_precisions_are_those_of_sentence_transformers(encoder: FastEncoder, precision: str):
    vectors = encoder.encode(TEXTS)
    ours = encoder.encode(TEXTS, precision=precision)
    if precision == "float16":
        assert (ours == vectors.astype(np.float16)).all()
        return
    theirs = sentence_transformers.util.quantize_embeddings(vectors, precision)
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    # theirs divides in float32: a value on a step's edge may fall to the other side
    assert np.abs(ours.astype(float) - theirs.astype(float)).max() <= (1 if "int8" in precision else 0)


def test_one_embedding_gives_no_range_for_int8(encoder: FastEncoder):
    with pytest.raises(OptionError, match="ranges"):
        encoder.encode("one", precision="int8")
    vectors = encoder.encode(TEXTS)
    ranges = np.stack([vectors.min(0), vectors.max(0)])
    assert quantize_embeddings(vectors[:1], "int8", ranges).shape == (1, 48)
    with pytest.raises(OptionError, match="float32, float16"):
        encoder.encode("one", precision="int4")


def test_a_stream_keeps_order_and_reads_no_further_than_asked(encoder: FastEncoder):
    read: list[int] = []

    def texts():
        for i in range(10):
            read.append(i)
            yield f"text {i}"

    stream = encoder.encode_stream(texts(), chunk_size=4)
    first = next(stream)
    assert read == [0, 1, 2, 3]  # back-pressure
    everything = np.concatenate([first, *stream])
    assert within(everything, encoder.encode([f"text {i}" for i in range(10)]))
    assert list(encoder.encode_stream([])) == []
    with pytest.raises(TextTypeError, match="item 5: int"):
        list(encoder.encode_stream(["a"] * 5 + [3], chunk_size=2))
    with pytest.raises(TextTypeError, match="one string"):
        list(encoder.encode_stream("abc"))
    read.clear()
    with pytest.raises(TypeError, match="batchsize"):
        encoder.encode_stream(texts(), batchsize=2)
    with pytest.raises(OptionError, match="other ranges in each chunk"):
        encoder.encode_stream(texts(), precision="int8")
    assert read == []


def test_queries_and_documents_take_their_prompts(tiny_export: Path):
    encoder = FastEncoder(tiny_export, prompts={"query": "query: ", "document": "passage: "})
    assert within(encoder.encode_query("rain"), encoder.encode("query: rain"))
    assert within(encoder.encode_document(["rain"]), encoder.encode(["passage: rain"]))
    assert within(encoder.encode_query(["rain"], prompt="find: "), encoder.encode(["find: rain"]))
    plain = FastEncoder(tiny_export)
    assert within(
        plain.encode_query("rain", normalize_embeddings=True), plain.encode("rain", normalize_embeddings=True)
    )
    with pytest.raises(TypeError, match="promt"):
        plain.encode_query("rain", promt="x")


def test_tokenize_and_token_weights(encoder: FastEncoder):
    tokens = encoder.tokenize(["a b c", "a"])
    assert tokens["input_ids"].shape == tokens["attention_mask"].shape == (2, 5)
    assert tokens["attention_mask"].tolist() == [[1] * 5, [1, 1, 1, 0, 0]]
    weights = encoder.token_weights("a b c")
    assert [token for token, _ in weights] == ["[CLS]", "a", "b", "c", "[SEP]"]
    assert all(0 < weight <= 1 for _, weight in weights)


def test_similarity_is_at_hand(encoder: FastEncoder):
    vectors = encoder.encode(TEXTS)
    assert encoder.similarity(vectors, vectors).shape == (5, 5)
    np.testing.assert_allclose(encoder.similarity_pairwise(vectors, vectors), 1, atol=1e-6)


def test_max_seq_length_may_be_set(tiny_export: Path):
    encoder = FastEncoder(tiny_export)
    whole = encoder.encode(TEXTS[4])
    encoder.max_seq_length = 8
    assert encoder.max_seq_length == 8
    assert not within(encoder.encode(TEXTS[4]), whole)
    with pytest.raises(OptionError, match="from 1 to 64"):
        encoder.max_seq_length = 65
    assert encoder.max_seq_length == 8


def test_repr_says_what_runs(encoder: FastEncoder):
    for word in ("head='2-3'", "fp32", "CPUExecutionProvider", "num_threads=", "model='bert'", "ditto-first-last"):
        assert word in repr(encoder)


def test_a_closed_encoder_says_so(tiny_export: Path):
    with FastEncoder(tiny_export) as encoder:
        encoder.encode("a")
    with pytest.raises(EncoderClosedError):
        encoder.encode("a")


def test_session_options_are_the_users_last_word(tiny_export: Path):
    seen = []

    def configure(options) -> None:
        options.intra_op_num_threads = 2
        seen.append(options)

    encoder = FastEncoder(tiny_export, session_options=configure)
    assert encoder._open().runner.session.get_session_options().intra_op_num_threads == 2
    assert len(seen) == 1


@pytest.mark.parametrize("name", [name for name in PROVIDERS if name != "cpu"])
def test_a_provider_that_is_not_installed_says_what_is(tiny_export: Path, name: str):
    import onnxruntime

    if PROVIDERS[name] in onnxruntime.get_available_providers():
        pytest.skip(f"{name} is here")
    with pytest.raises(ProviderError, match="CPUExecutionProvider") as error:
        FastEncoder(tiny_export, providers=name)
    assert "Install" in str(error.value) or "comes with" in str(error.value)
    with pytest.raises(ProviderError, match=PROVIDERS[name]):
        FastEncoder(tiny_export, providers=[PROVIDERS[name], "CPUExecutionProvider"])


def test_a_provider_list_with_options_is_taken(tiny_export: Path):
    encoder = FastEncoder(tiny_export, providers=[("CPUExecutionProvider", {})])
    assert encoder.encode("a").shape == (48,)
    with pytest.raises(OptionError, match="pairs"):
        FastEncoder(tiny_export, providers=[3])
    with pytest.raises(OptionError, match=r"got \[\]"):
        FastEncoder(tiny_export, providers=[])


def test_the_default_is_the_cpu_whatever_else_is_installed(monkeypatch, tiny_export: Path):
    """An unrequested provider that is listed as available and cannot run is never tried."""
    import onnxruntime

    available = ["CoreMLExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: available)
    assert "CPUExecutionProvider" in repr(FastEncoder(tiny_export))


def test_auto_falls_back_with_one_warning():
    with pytest.warns(RuntimeWarning, match="the CPU is used"):
        assert resolve_providers("auto", ["CPUExecutionProvider"]) == [("CPUExecutionProvider", {})]
    both = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    assert resolve_providers("auto", both) == [("CUDAExecutionProvider", {})]


def test_io_binding_gives_the_same_vectors(tiny_export: Path, monkeypatch):
    """The path of every provider but the CPU's, here on the CPU's."""
    bound = FastEncoder(tiny_export)
    runner = bound._open().runner
    monkeypatch.setattr(type(runner), "provider", "elsewhere")
    assert within(bound.encode(TEXTS), FastEncoder(tiny_export).encode(TEXTS))


@pytest.fixture
def infinite(tiny_export: Path, tmp_path: Path) -> Path:
    """An export whose embedding of the word "x" has an infinity: its token's embedding is one."""
    copy = tmp_path / "infinite"
    shutil.copytree(tiny_export, copy)
    model = onnx.load(copy / "model_embedding.onnx")
    table = next(t for t in model.graph.initializer if "word_embeddings" in t.name)
    values = onnx.numpy_helper.to_array(table).copy()
    (token,) = FastEncoder(tiny_export).tokenize("x")["input_ids"][0, 1:-1]
    values[token] = np.inf
    table.CopyFrom(onnx.numpy_helper.from_array(values, table.name))
    onnx.save(model, copy / "model_embedding.onnx")
    return copy


def test_rows_that_are_not_finite_are_named_or_zeroed(infinite: Path, tiny_export: Path):
    texts = ["a", "x", "b", "x"]
    with pytest.raises(NonFiniteError, match=r"rows \[1, 3\]") as error:
        FastEncoder(infinite).encode(texts)
    assert error.value.rows == [1, 3]
    with pytest.raises(NonFiniteError, match=r"rows \[5\]"):
        list(FastEncoder(infinite).encode_stream(["a"] * 5 + ["x"], chunk_size=2))
    zeroed = FastEncoder(infinite, nonfinite="zero").encode(texts)
    assert (zeroed[[1, 3]] == 0).all()
    assert within(zeroed[[0, 2]], FastEncoder(tiny_export).encode(["a", "b"]))


def test_a_changed_file_is_found_by_verify(tiny_export: Path, tmp_path: Path):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_export, copy)
    FastEncoder(copy, verify=True)
    with (copy / "model.onnx_data").open("r+b") as file:
        file.seek(5000)
        file.write(b"\1")
    FastEncoder(copy)
    with pytest.raises(ExportDirectoryError, match=r"model\.onnx_data is changed"):
        FastEncoder(copy, verify=True)


def test_a_tokenizer_with_more_tokens_than_the_model_embeds(tiny_export: Path, minilm_export: Path, tmp_path: Path):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_export, copy)
    shutil.copy(minilm_export / "tokenizer.json", copy)
    with pytest.raises(ExportDirectoryError, match="do not belong together"):
        FastEncoder(copy)


def test_a_missing_or_broken_tokenizer_is_named(tiny_export: Path, tmp_path: Path):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_export, copy)
    (copy / "tokenizer.json").write_text("{")
    with pytest.raises(ExportDirectoryError, match=r"tokenizer\.json cannot be read"):
        FastEncoder(copy)
    (copy / "tokenizer.json").unlink()
    with pytest.raises(ExportDirectoryError, match=r"tokenizer\.json is missing"):
        FastEncoder(copy)


@pytest.mark.parametrize("text", ["", "{}", '{"format_version": 99}', '{"format_version": 1}', "[]"])
def test_a_broken_manifest_is_named(tiny_export: Path, tmp_path: Path, text: str):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_export, copy)
    (copy / "ditto_config.json").write_text(text)
    with pytest.raises(ExportDirectoryError, match=r"ditto_config\.json"):
        FastEncoder(copy)


def test_an_fp16_graph_on_the_cpu_warns(checkpoint, tmp_path: Path):
    from ditto_fast.export import export_model

    export_model(checkpoint("bert"), "1-1", tmp_path / "out", precision=("fp16",))
    with pytest.warns(RuntimeWarning, match="fp16 graph on the CPU"):
        FastEncoder(tmp_path / "out")
