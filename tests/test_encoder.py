from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from families import eager_reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ditto_fast import FastEncoder
from ditto_fast.errors import ExportDirectoryError, OptionError, ProviderError, TextTypeError
from ditto_fast.pooling import POOLINGS
from ditto_fast.tolerances import within

TEXTS = [
    "A man is eating food.",
    "",
    "word " * 40,
    "The train was late.",
    "A man is eating food.",
    "ü ñ 東京 \u200b",
    "x",
]


@pytest.fixture(scope="module")
def encoder(minilm_export: Path) -> FastEncoder:
    return FastEncoder(minilm_export)


def test_vectors_are_those_of_the_eager_model(encoder: FastEncoder, minilm: Path):
    ids = encoder._open().tokenizer(["A man is eating food."])[0][None]
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    expected = eager_reference(minilm, inputs, 1, 10)["sentence_embedding"][0]
    assert within(encoder.encode("A man is eating food."), expected)


def test_shapes_dtype_and_order(encoder: FastEncoder):
    batch = encoder.encode(TEXTS, batch_size=2)
    assert batch.shape == (len(TEXTS), 384)
    assert batch.dtype == np.float32
    assert (batch[0] == batch[4]).all()
    single = encoder.encode(TEXTS[3])
    assert single.shape == (384,)
    assert within(batch[3], single)
    for nothing in ([], (), (text for text in ()), np.array([], dtype=str)):
        empty = encoder.encode(nothing)
        assert empty.shape == (0, 384)
        assert empty.dtype == np.float32


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=8),
    batch_size=st.none() | st.integers(1, 8),
    threads=st.integers(1, 3),
)
def test_a_vector_does_not_depend_on_its_company(minilm_export: Path, encoder: FastEncoder, texts, batch_size, threads):
    together = _with_threads(minilm_export, threads).encode(texts, batch_size=batch_size)
    alone = np.stack([encoder.encode(text) for text in texts])
    assert within(together, alone)


_encoders: dict[int, FastEncoder] = {}


def _with_threads(directory: Path, threads: int) -> FastEncoder:
    return _encoders.setdefault(threads, FastEncoder(directory, num_threads=threads))


@pytest.mark.parametrize("text", ["", "   ", "\u200b", "\x00"])
def test_texts_without_words_are_finite(encoder: FastEncoder, text: str):
    vector = encoder.encode(text, normalize_embeddings=True)
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_pooling_from_the_same_outputs(minilm_export: Path, pooling: str):
    vectors = FastEncoder(minilm_export, pooling=pooling).encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert len({vectors[0].tobytes(), *(v.tobytes() for v in vectors[1:4])}) == 4


def test_both_graphs_give_the_same_vectors(minilm_export: Path):
    tokens = FastEncoder(minilm_export / "model.onnx")
    embedding = FastEncoder(minilm_export / "model_embedding.onnx")
    assert FastEncoder(minilm_export).path == embedding.path  # the faster one, where it serves
    assert FastEncoder(minilm_export, pooling="cls").path == tokens.path
    assert within(tokens.encode(TEXTS), embedding.encode(TEXTS))
    with pytest.raises(ExportDirectoryError, match=r"model\.onnx"):
        FastEncoder(minilm_export / "model_embedding.onnx", pooling="cls")


def test_long_texts_are_cut_at_max_seq_length(minilm_export: Path):
    encoder = FastEncoder(minilm_export)
    assert encoder.max_seq_length == 256  # sentence_bert_config.json, not tokenizer.json's 128
    words = "one two three four five six seven eight nine ten ".split()
    text = " ".join(words * 60)
    kept = " ".join((words * 60)[:254])  # one token a word, and two special ones
    assert within(encoder.encode(text), encoder.encode(kept))
    differ = [text + " end", " ".join([*(words * 60)[:140], "other", *(words * 60)[141:]])]
    a, b = encoder.encode(differ)
    assert within(a, encoder.encode(text))
    assert not within(b, a)  # a difference after token 130 counts
    longest = FastEncoder(minilm_export, max_seq_length=512)
    assert np.isfinite(longest.encode(["word " * 600, "word " * 511])).all()


@pytest.mark.parametrize("value", [0, -1, 513, 2.5, True, "64"])
def test_max_seq_length_out_of_range_says_the_maximum(minilm_export: Path, value):
    with pytest.raises(OptionError, match="512"):
        FastEncoder(minilm_export, max_seq_length=value)


def test_max_seq_length_must_leave_room_for_a_token(minilm_export: Path):
    with pytest.raises(OptionError, match="at least 3"):
        FastEncoder(minilm_export, max_seq_length=2)


def test_wrong_options_are_refused(encoder: FastEncoder, minilm_export: Path):
    with pytest.raises(OptionError, match="batch_size"):
        encoder.encode(["a"], batch_size=0)
    with pytest.raises(OptionError, match="mean-last"):
        FastEncoder(minilm_export, pooling="mean_last")
    with pytest.raises(OptionError, match="num_threads"):
        FastEncoder(minilm_export, num_threads=0)
    with pytest.raises(OptionError, match="cpu, cuda, tensorrt"):
        FastEncoder(minilm_export, providers="gpu")
    with pytest.raises(TypeError, match="batchsize"):
        encoder.encode(["a"], batchsize=2)
    with pytest.raises(TextTypeError, match="item 1"):
        encoder.encode(["a", None])


def test_a_provider_that_cannot_run_is_an_error_not_a_slow_run(minilm_export: Path):
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("CUDA is here")
    with pytest.raises(ProviderError, match=r"ditto-fast\[gpu\]"):
        FastEncoder(minilm_export, providers="cuda")


def test_files_that_are_no_export(tmp_path: Path, minilm_export: Path):
    with pytest.raises(ExportDirectoryError, match="does not exist"):
        FastEncoder(tmp_path / "nowhere")
    with pytest.raises(ExportDirectoryError, match=r"ditto_config\.json"):
        FastEncoder(tmp_path)
    corrupt = tmp_path / "corrupt.onnx"
    corrupt.write_bytes((minilm_export / "model.onnx").read_bytes()[:1000])
    with pytest.raises(ExportDirectoryError, match="cannot be opened"):
        FastEncoder(corrupt)
    foreign = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["last_hidden_state"])],
        "foreign",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])],
        [onnx.helper.make_tensor_value_info("last_hidden_state", onnx.TensorProto.FLOAT, ["n"])],
    )
    opset = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(foreign, opset_imports=opset, ir_version=9), tmp_path / "foreign.onnx")
    with pytest.raises(ExportDirectoryError, match=r"\[last_hidden_state\].*attention_diagonal"):
        FastEncoder(tmp_path / "foreign.onnx")


def test_neither_torch_nor_transformers_is_imported(minilm_export: Path):
    code = (
        "import sys; from ditto_fast import FastEncoder\n"
        f"FastEncoder({str(minilm_export)!r}).encode(['a', 'b'])\n"
        "heavy = {'torch', 'transformers', 'triton', 'optimum', 'onnx'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_progress_is_off_unless_asked_for_and_goes_to_stderr(encoder: FastEncoder, capsys):
    encoder.encode(TEXTS)
    assert capsys.readouterr() == ("", "")
    encoder.encode(TEXTS, show_progress_bar=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "sentence" in err


def test_tqdm_disable_is_honoured(tiny_export: Path):
    encode = f"FastEncoder({str(tiny_export)!r}).encode(['a', 'b'], show_progress_bar=True)"
    code = f"from ditto_fast import FastEncoder; {encode}"
    environment = {**os.environ, "TQDM_DISABLE": "1"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_padding_stored_in_the_checkpoint_is_not_applied(encoder: FastEncoder, minilm: Path):
    """all-MiniLM-L6-v2's tokenizer.json pads everything to 128."""
    assert '"Fixed":128' in (minilm / "tokenizer.json").read_text()
    assert encoder.tokenize("hi")["input_ids"].shape == (1, 3)


def test_padding_is_on_the_right_whatever_the_tokenizer_says(minilm_export: Path, encoder: FastEncoder, tmp_path: Path):
    copy = tmp_path / "left"
    shutil.copytree(minilm_export, copy)
    config = json.loads((copy / "tokenizer_config.json").read_text())
    (copy / "tokenizer_config.json").write_text(json.dumps({**config, "padding_side": "left"}))
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["padding"] = {
        "strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "[PAD]",
    }  # fmt: skip
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert within(FastEncoder(copy).encode(TEXTS), encoder.encode(TEXTS))


def test_a_text_without_a_token_is_a_zero_vector(encoder: FastEncoder):
    """Some tokenizers add no special tokens: an empty text then has no token at all."""
    empty, full = np.array([], np.int64), encoder._open().tokenizer(["rain"])[0]
    alone = encoder._open().runner.embed([empty])
    assert alone.shape == (1, 384)
    assert (alone == 0).all()
    both = encoder._open().runner.embed([full, empty])
    assert (both[1] == 0).all()
    assert within(both[0], encoder.encode("rain"))


def test_an_id_past_the_embedding_table_is_said_in_words(encoder: FastEncoder):
    with pytest.raises(ExportDirectoryError, match="gave the id 99999"):
        encoder._open().runner.embed([np.array([101, 99999, 102])])
