"""Where a checkpoint is: a folder, a sentence-transformers folder, a short name of the paper's table, or a hub id."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ditto_fast.errors import ModelNotFoundError, UnsupportedModelError
from ditto_fast.heads import PAPER_MODELS

_WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin")


@dataclass(frozen=True)
class Location:
    """Where to load a checkpoint from.

    Args:
        source: The folder with config.json, or the hub id.
        name: Hub id, or name of the folder that was asked for.
        tried: What was looked for, in words.
        is_folder: Whether it is on this disk.
    """

    source: str
    name: str
    tried: str
    is_folder: bool


def locate(model: str) -> Location:
    """Finds a checkpoint by what the user calls it.

    Raises:
        ModelNotFoundError: It is a folder that lacks a file.
        UnsupportedModelError: It is a sentence-transformers folder without a transformer.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        source = _transformer_folder(folder)
        _check_folder(source)
        return Location(str(source), folder.absolute().name, f"the folder {source}", is_folder=True)
    if model in PAPER_MODELS:
        model_id = PAPER_MODELS[model].model_id
        return Location(model_id, model_id, f"the hub id {model_id} (short name {model})", is_folder=False)
    tried = f"a folder {model!r} (none), a short name ({', '.join(PAPER_MODELS)}), and the hub id {model!r}"
    return Location(model, model, tried, is_folder=False)


def _transformer_folder(folder: Path) -> Path:
    """The folder of a sentence-transformers model's Transformer module; the folder itself for other checkpoints."""
    modules = folder / "modules.json"
    if not modules.is_file():
        return folder
    listed: list[dict[str, str]] = json.loads(modules.read_text(encoding="utf-8"))
    paths = {module["type"]: module["path"] for module in listed}
    for module_type, path in paths.items():
        if module_type.endswith(".Transformer"):
            return folder / path
    raise UnsupportedModelError(
        f"{folder} is a sentence-transformers model without a Transformer module (it has {', '.join(paths)}), "
        "so it has no attention heads."
    )


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise ModelNotFoundError(
            f"{folder} has no config.json, so it is no Hugging Face checkpoint. "
            "Name the folder that save_pretrained wrote, the one with config.json and the weights."
        )
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHT_FILES):
        raise ModelNotFoundError(
            f"{folder} has a config.json but no weights (model.safetensors or pytorch_model.bin). "
            "Copy the whole checkpoint."
        )
