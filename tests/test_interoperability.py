"""docs/interoperability.md and the model card tell the truth: their blocks run, and give FastEncoder's vectors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from documents import EXAMPLES, ROOT, code_blocks

from ditto_fast import FastEncoder
from ditto_fast.artifact import Manifest
from ditto_fast.export import export_model
from ditto_fast.tolerances import within

BLOCKS = code_blocks(ROOT / "docs" / "interoperability.md", "python")
TEXTS = ["A man is eating food.", "", "ü ñ 東京 \u200b", "word " * 400, "Hallo? 1,234.5 -- it's me!"]


def _embeddings(block: str, folder: Path, absent: str = "") -> np.ndarray:
    """Runs a block on other texts, in a fresh process."""
    assert EXAMPLES in block
    check = f"import sys; assert not {set(absent.split())} & set(sys.modules)"
    code = f"import numpy as np\n{block.replace(EXAMPLES, json.dumps(TEXTS))}\n{check}\nnp.save('vectors', embeddings)"
    result = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return np.load(folder / "vectors.npy")


@pytest.fixture
def folder(minilm_export: Path, tmp_path: Path) -> Path:
    (tmp_path / "minilm-ditto").symlink_to(minilm_export)
    return tmp_path


def test_onnxruntime_and_tokenizers_alone(folder: Path):
    block = BLOCKS[0]
    assert len([line for line in block.splitlines() if line and not line.startswith(("import", "from"))]) <= 10
    vectors = _embeddings(block, folder, absent="ditto_fast torch transformers")
    assert within(vectors, FastEncoder(folder / "minilm-ditto").encode(TEXTS))


def test_sentence_transformers_opens_the_folder(folder: Path):
    assert within(_embeddings(BLOCKS[1], folder), FastEncoder(folder / "minilm-ditto").encode(TEXTS))


@pytest.mark.parametrize(("mode", "pooling"), [("mean", "mean-last"), ("cls", "cls")])
def test_the_onnx_backend_does_plain_poolings(folder: Path, mode: str, pooling: str):
    vectors = _embeddings(BLOCKS[2].replace('"mean"', f'"{mode}"'), folder)
    assert within(vectors, FastEncoder(folder / "minilm-ditto", pooling=pooling).encode(TEXTS))


def test_what_the_documentation_says_does_not_work(minilm_export: Path):
    from sentence_transformers.sentence_transformer.modules import Transformer

    transformer = Transformer(str(minilm_export), backend="onnx", model_kwargs={"file_name": "model_embedding.onnx"})
    with pytest.raises(KeyError, match="last_hidden_state"):
        transformer(transformer.preprocess(TEXTS))


def test_a_sentence_transformer_has_the_options_of_one(tiny_export: Path, tmp_path: Path):
    from sentence_transformers import SentenceTransformer

    model, encoder = SentenceTransformer(str(tiny_export)), FastEncoder(tiny_export)
    assert model.get_embedding_dimension() == 48
    assert model.max_seq_length == 64
    assert within(model.encode("is late", prompt="The ferry "), encoder.encode("The ferry is late"))
    assert within(model.encode(TEXTS, batch_size=2), encoder.encode(TEXTS))
    model.save_pretrained(str(tmp_path / "copy"))
    assert within(SentenceTransformer(str(tmp_path / "copy")).encode(TEXTS), encoder.encode(TEXTS))
    model.max_seq_length = 8
    assert model.max_seq_length == 8
    assert within(model.encode(TEXTS), FastEncoder(tiny_export, max_seq_length=8).encode(TEXTS))


@pytest.mark.parametrize(
    ("family", "lower", "side"),
    [("bert", False, "left"), ("roberta", True, "right"), ("xlm-roberta", True, "right")],
    ids=["left", "lower", "lower before a normalizer"],
)
def test_texts_are_tokenized_as_by_sentence_transformers(checkpoint, tmp_path: Path, family: str, lower, side):
    """With the settings of a checkpoint that lie in no tokenizer.json."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import AutoTokenizer

    folder, directory = tmp_path / "checkpoint", tmp_path / "export"
    shutil.copytree(checkpoint(family), folder)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16, "do_lower_case": lower}))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "truncation_side": side}))
    export_model(folder, "1-1", directory)

    texts = [*TEXTS, "Who Repaired The PIANO?", " ".join(f"word {number}" for number in range(40))]
    model = SentenceTransformer(modules=[Transformer.load(str(folder)), Pooling(48, "mean")], device="cpu")
    encoder = FastEncoder(directory, pooling="mean-last")
    assert within(encoder.encode(texts), model.encode(texts))
    inputs = AutoTokenizer.from_pretrained(directory)(texts, truncation=True, padding=True, return_tensors="np")
    assert (inputs["input_ids"] == encoder.tokenize(texts)["input_ids"]).all()


@pytest.mark.parametrize(("family", "outputs"), [("bert", ("tokens", "embedding")), ("roberta", ("tokens",))])
def test_the_model_card(checkpoint, tmp_path: Path, family: str, outputs: tuple[str, ...]):
    """Both of its blocks run; the second one in the folder."""
    directory = tmp_path / "random-ditto"
    export_model(checkpoint(family), "2-3", directory, outputs=outputs, max_seq_length=16)
    card = directory / "README.md"
    fast, alone = code_blocks(card, "python")
    expected = FastEncoder(directory).encode(TEXTS)
    assert within(_embeddings(fast, tmp_path), expected)
    assert within(_embeddings(alone, directory, absent="ditto_fast torch transformers"), expected)
    text = card.read_text(encoding="utf-8")
    manifest = Manifest.read(directory)
    for file, info in manifest.graphs.items():
        assert info.parity is not None
        worst = max(output["max_abs"] for output in info.parity["outputs"].values())
        assert f"| {file} | {worst:.1e} | {info.parity['cosine_min']:.6f} |" in text
    for fact in (
        "2-3",
        f"{checkpoint(family).name}, a local folder",
        str(manifest.source["content_hash"]),
        "16 tokens",
    ):
        assert fact in text
    assert "license" not in text.split("---")[1]  # of a random model nothing is known


@pytest.mark.parametrize(
    ("card", "lines"),
    [
        ("---\nlicense: apache-2.0\n---\n", ["license: apache-2.0"]),
        ("---\nlicense: other\nlicense_name: own\n---\n", ["license: other", "license_name: own"]),
        ("---\nlanguage: en\n---\n", []),
        ("---\nlicense: [\n---\n", []),
        ("no metadata", []),
    ],
    ids=["known", "own", "without", "broken", "plain"],
)
def test_the_licence_is_the_source_s(tiny_export: Path, tmp_path: Path, card: str, lines: list[str]):
    from ditto_fast.export.model_card import model_card, source_license

    (tmp_path / "README.md").write_text(card)
    text = model_card("name", Manifest.read(tiny_export), ("input_ids",), source_license(tmp_path))
    assert [line for line in text.split("---")[1].splitlines() if line.startswith("license")] == lines
