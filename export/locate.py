"""Where a checkpoint is: a folder, a sentence-transformers folder, a short name of the paper's table, or a hub id."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ditto_fast.errors import ModelNotFoundError, OptionError, UnsupportedModelError, UntrustedCodeError
from ditto_fast.export.hub import PICKLES, HubOptions, fetch_checkpoint
from ditto_fast.heads import PAPER_MODELS
from ditto_fast.hub import reason


@dataclass(frozen=True)
class Location:
    """Where to load a checkpoint from.

    Args:
        folder: The folder with config.json: the user's, or one of the hub's cache.
        name: Hub id, or name of the folder that was asked for.
        revision: Commit on the hub, None for a folder.
        tried: What was looked for, in words.
    """

    folder: Path
    name: str
    revision: str | None
    tried: str


def locate(model: str, hub: HubOptions) -> Location:
    """Finds a checkpoint by what the user calls it; a hub id is brought into the hub's cache.

    Raises:
        ModelNotFoundError: It is nowhere, or a folder that lacks a file.
        OptionError: A revision of a folder was asked for.
        UnsupportedModelError: It is a sentence-transformers folder without a transformer.
        UntrustedCodeError: Its weights are pickled and that was not allowed.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        if hub.revision is not None:
            raise OptionError(f"revision is one of a hub repository; {folder} is a folder. Leave it out.")
        source = folder / transformer_path(folder)
        _check_folder(source, hub.allow_pickle)
        return Location(source, folder.absolute().name, None, f"the folder {source}")
    if model in PAPER_MODELS:
        model_id = PAPER_MODELS[model].model_id
        tried = f"the hub id {model_id} (short name {model})"
    else:
        model_id = model
        tried = f"a folder {model!r} (none), a short name ({', '.join(PAPER_MODELS)}), and the hub id {model!r}"
    try:
        snapshot = fetch_checkpoint(model_id, hub, transformer_path)
        source = snapshot / transformer_path(snapshot)
    except (UntrustedCodeError, UnsupportedModelError):
        raise
    except (OSError, ValueError) as error:
        raise not_found(tried, error) from error
    _check_folder(source, hub.allow_pickle)
    return Location(source, model_id, snapshot.name, tried)


def not_found(tried: str, error: Exception) -> ModelNotFoundError:
    """The error of a checkpoint that could not be loaded."""
    return ModelNotFoundError(
        f"No checkpoint could be loaded. Tried: {tried}. Reason: {reason(error)} "
        "Without a network, pass a local folder (one that save_pretrained wrote): that works offline."
    )


def transformer_path(folder: Path) -> str:
    """Where a sentence-transformers model keeps its Transformer module; "" for other checkpoints."""
    modules = folder / "modules.json"
    if not modules.is_file():
        return ""
    listed: list[dict[str, str]] = json.loads(modules.read_text(encoding="utf-8"))
    paths = {module["type"]: module["path"] for module in listed}
    for module_type, path in paths.items():
        if module_type.endswith(".Transformer"):
            return path
    raise UnsupportedModelError(
        f"{folder} is a sentence-transformers model without a Transformer module (it has {', '.join(paths)}), "
        "so it has no attention heads."
    )


def _check_folder(folder: Path, allow_pickle: bool) -> None:
    if not (folder / "config.json").is_file():
        raise ModelNotFoundError(
            f"{folder} has no config.json, so it is no Hugging Face checkpoint. "
            "Name the folder that save_pretrained wrote, the one with config.json and the weights."
        )
    if any(folder.glob("*.safetensors")):
        return
    pickles = [path.name for pattern in PICKLES for path in folder.glob(pattern)]
    if pickles and not allow_pickle:
        raise UntrustedCodeError(
            f"{folder} has no model.safetensors, only pickled weights ({', '.join(sorted(pickles))}), and reading "
            "a pickle can run code. Convert it with save_pretrained(..., safe_serialization=True), or pass "
            "allow_pickle=True (--allow-pickle) if you trust whoever made it."
        )
    if not pickles:
        raise ModelNotFoundError(
            f"{folder} has a config.json but no weights (model.safetensors or pytorch_model.bin). "
            "Copy the whole checkpoint."
        )
