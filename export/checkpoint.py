"""A checkpoint, found and loaded: a folder, a short name of the paper's table, or a hub id."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from ditto_fast.errors import ModelNotFoundError, UnsupportedModelError
from ditto_fast.export.architectures import ARCHITECTURES, SUPPORTED_MODEL_TYPES, Architecture
from ditto_fast.heads import PAPER_MODELS

_WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin")


@dataclass(frozen=True)
class Checkpoint:
    """A loaded encoder.

    Args:
        name: Hub id, or name of the folder.
        revision: Commit on the hub, None for a folder.
        content_hash: SHA-256 over the weights' state, the same wherever it was loaded from.
        model: The bare encoder: eager attention, float32, evaluation mode.
        tokenizer: Its fast tokenizer.
        architecture: Its adapter.
        has_pooler: Whether the checkpoint brings the pooler's weights; without them they would be random.
    """

    name: str
    revision: str | None
    content_hash: str
    model: Any
    tokenizer: Any
    architecture: Architecture
    has_pooler: bool


def find_architecture(config: Any) -> Architecture:
    """Returns the adapter of a config's model type.

    Raises:
        UnsupportedModelError: There is none; the message says why and what is supported.
    """
    model_type = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        reason = f"{model_type} is an encoder-decoder model; Ditto is defined on a bidirectional encoder"
    elif getattr(config, "is_decoder", False) or (
        model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    ):
        reason = f"{model_type} is decoder-only, with causal attention; Ditto needs a bidirectional encoder"
    else:
        for architecture in ARCHITECTURES:
            if model_type in architecture.model_types:
                return architecture
        reason = f"The architecture {model_type!r} cannot be exported yet"
    raise UnsupportedModelError(f"{reason}. Supported: {', '.join(SUPPORTED_MODEL_TYPES)}.")


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


def _locate(model: str) -> tuple[str, str]:
    """What to load from (folder or hub id) and what was tried, in words."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        _check_folder(folder)
        return str(folder), f"the folder {folder}"
    if model in PAPER_MODELS:
        model_id = PAPER_MODELS[model].model_id
        return model_id, f"the hub id {model_id} (short name {model})"
    tried = f"a folder {model!r} (none), a short name ({', '.join(PAPER_MODELS)}), and the hub id {model!r}"
    return model, tried


def load_checkpoint(model: str) -> Checkpoint:
    """Loads a checkpoint for export.

    Args:
        model: A folder, a short name of `ditto_fast.heads.PAPER_MODELS`, or a hub id.

    Raises:
        ModelNotFoundError: Nothing could be loaded from there; the message says what was tried.
        UnsupportedModelError: It is no encoder that can be exported.
    """
    source, tried = _locate(model)
    try:
        config = transformers.AutoConfig.from_pretrained(source)
    except (OSError, ValueError, KeyError) as error:
        raise _not_found(tried, error) from error
    architecture = find_architecture(config)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, use_fast=True)
        encoder, loading = transformers.AutoModel.from_pretrained(
            source, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
        )
    except (OSError, ValueError) as error:
        raise _not_found(tried, error) from error
    missing = [name for name in loading["missing_keys"] if not name.startswith("pooler.")]
    if missing:
        raise UnsupportedModelError(
            f"{source} lacks {len(missing)} weights of a {config.model_type} encoder, such as {missing[0]}; "
            "they would be random. Check that the weights and config.json belong together."
        )
    if not tokenizer.is_fast:
        raise UnsupportedModelError(
            f"{source} has only a slow tokenizer ({type(tokenizer).__name__}); a tokenizer.json is needed. "
            "Convert it once with transformers' convert_slow_tokenizer and save it beside the weights."
        )
    is_folder = Path(source).is_dir()
    return Checkpoint(
        name=Path(source).absolute().name if is_folder else source,
        revision=None if is_folder else getattr(config, "_commit_hash", None),
        content_hash=state_hash(encoder),
        model=encoder.eval(),
        tokenizer=tokenizer,
        architecture=architecture,
        has_pooler=getattr(encoder, "pooler", None) is not None and not _starts("pooler.", loading["missing_keys"]),
    )


def _starts(prefix: str, names: Iterable[str]) -> bool:
    return any(name.startswith(prefix) for name in names)


def state_hash(model: torch.nn.Module) -> str:
    """SHA-256 over the names and values of a model's weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _not_found(tried: str, error: Exception) -> ModelNotFoundError:
    reason = str(error).strip().split("\n")[0]
    return ModelNotFoundError(
        f"No checkpoint could be loaded. Tried: {tried}. Reason: {reason} "
        "Without a network, pass a local folder (one that save_pretrained wrote): that works offline."
    )
