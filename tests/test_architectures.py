"""What is peculiar to one architecture, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import transformers
from families import FAMILIES, eager_reference, write_checkpoint

from ditto_fast.artifact import Manifest
from ditto_fast.errors import UnsupportedModelError
from ditto_fast.export import export_model
from ditto_fast.export.architectures import ARCHITECTURES, SUPPORTED_MODEL_TYPES
from ditto_fast.export.architectures.choose import WITHOUT_ATTENTIONS, find_architecture
from ditto_fast.export.checkpoint import load_checkpoint
from ditto_fast.export.pipeline import Verification
from ditto_fast.tolerances import within


def test_each_model_type_has_one_adapter_and_a_test_row():
    types = [name for architecture in ARCHITECTURES for name in architecture.model_types]
    assert len(types) == len(set(types))
    assert {family.config.model_type for family in FAMILIES.values()} == set(SUPPORTED_MODEL_TYPES)
    assert not set(types) & WITHOUT_ATTENTIONS.keys()


@pytest.mark.parametrize("model_type", WITHOUT_ATTENTIONS)
def test_a_model_without_attentions_is_refused_by_name(model_type: str):
    with pytest.raises(UnsupportedModelError, match=rf"{model_type} has no attention matrix.*Supported: albert, bert"):
        find_architecture(transformers.CONFIG_MAPPING[model_type]())


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (transformers.BertConfig(is_decoder=True), "decoder-only"),
        (transformers.XLMConfig(causal=True), "decoder-only"),
        (transformers.T5Config(), "encoder-decoder"),
        (transformers.LukeConfig(), "'luke' cannot be exported yet"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.model_type,
)
def test_other_refusals(config, words: str):
    with pytest.raises(UnsupportedModelError, match=words):
        find_architecture(config)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_longest_input_is_the_longest_that_the_model_takes(name: str, checkpoint):
    loaded = load_checkpoint(str(checkpoint(name)))
    limit = loaded.architecture.max_positions(loaded.model.config)
    assert limit == 64

    def run(tokens: int) -> None:
        ids = torch.full((1, tokens), 5)
        with torch.no_grad():
            loaded.model(input_ids=ids, attention_mask=torch.ones_like(ids))

    run(limit)
    if name not in ("deberta-v2", "modernbert"):  # these have no table: the length they were made for
        with pytest.raises((IndexError, RuntimeError)):
            run(limit + 1)


def test_head_dim_is_the_adapters(checkpoint, tmp_path: Path):
    export_model(checkpoint("mobilebert"), "1-2", tmp_path / "out", verification=Verification(False))
    assert Manifest.read(tmp_path / "out").head_dim == 6  # 24 / 4 within the bottleneck of 48


@pytest.fixture(scope="module")
def local_modernbert(checkpoint, tmp_path_factory) -> onnxruntime.InferenceSession:
    directory = tmp_path_factory.mktemp("modernbert") / "out"
    export_model(checkpoint("modernbert"), "2-3", directory, verification=Verification(False))
    return onnxruntime.InferenceSession(directory / "model.onnx")


@pytest.mark.parametrize("tokens", [2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 17, 31, 32, 33, 64])
def test_modernbert_around_the_window_and_at_multiples_of_32(local_modernbert, checkpoint, tokens: int):
    """A window that holds nothing but padding must not reach the real rows (mlx-embeddings#80)."""
    ids = np.random.default_rng(tokens).integers(5, 60, (2, tokens))
    mask = np.ones_like(ids)
    mask[0, 1:] = 0  # "x" beside a text of `tokens`
    feeds = {"input_ids": ids, "attention_mask": mask}
    expected = eager_reference(checkpoint("modernbert"), feeds, 2, 3, fp64=False)
    outputs = dict(zip(expected, local_modernbert.run(list(expected)[:3], feeds), strict=False))
    for name, actual in outputs.items():
        assert np.isfinite(actual).all()
        tokens_ = mask == 1 if name.endswith("hidden_state") else slice(None)
        assert within(actual[tokens_], expected[name][tokens_]), name
    assert outputs["attention_diagonal"][0, 0] == 1


def test_albert_writes_its_shared_weights_once(tmp_path: Path):
    """Copied for each of its layers they are several times the checkpoint (transformers#8869)."""
    folder = write_checkpoint(
        "albert", tmp_path / "m", num_hidden_layers=12, hidden_size=256, intermediate_size=512, embedding_size=64
    )
    report = export_model(folder, "12-3", tmp_path / "out")
    assert report.manifest.graphs["model.onnx"].parity is not None
    path = tmp_path / "out" / "model.onnx"
    assert path.stat().st_size < 1.2 * (folder / "model.safetensors").stat().st_size
    weights = [onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer]
    assert len({(weight.shape, weight.tobytes()) for weight in weights}) == len(weights)
