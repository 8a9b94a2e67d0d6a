"""Where checkpoints are found, and under which names their weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from ditto_fast.errors import UnsupportedModelError
from ditto_fast.export import export_model
from ditto_fast.export.checkpoint import load_checkpoint
from ditto_fast.export.pipeline import Verification


def _sentence_transformer(folder: Path, checkpoint: Path, module: str) -> Path:
    shutil.copytree(checkpoint, folder / "0_Transformer")
    (folder / "0_Transformer" / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 17}))
    modules = [
        {"idx": 0, "name": "0", "path": "0_Transformer", "type": f"sentence_transformers.models.{module}"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def test_a_sentence_transformers_folder_gives_its_transformer(checkpoint, tmp_path: Path):
    folder = _sentence_transformer(tmp_path / "st", checkpoint("bert"), "Transformer")
    manifest = export_model(folder, "1-2", tmp_path / "out", verification=Verification(False)).manifest
    assert manifest.source["model_id"] == "st"
    assert manifest.max_seq_length == 17


def test_a_sentence_transformers_folder_without_a_transformer_is_refused(checkpoint, tmp_path: Path):
    folder = _sentence_transformer(tmp_path / "st", checkpoint("bert"), "StaticEmbedding")
    with pytest.raises(UnsupportedModelError, match=r"without a Transformer module.*StaticEmbedding"):
        load_checkpoint(str(folder))


@pytest.mark.parametrize("prefix", ["bert.", "auto_model.", "0.auto_model.", "encoder."])
def test_weights_under_another_prefix_are_found(checkpoint, tmp_path: Path, prefix: str):
    folder = tmp_path / "m"
    shutil.copytree(checkpoint("bert"), folder)
    weights = {f"{prefix}{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert load_checkpoint(str(folder)).content_hash == load_checkpoint(str(checkpoint("bert"))).content_hash
