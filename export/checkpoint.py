"""A checkpoint, loaded and checked."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from ditto_fast.errors import ModelNotFoundError, UnsupportedModelError
from ditto_fast.export.architectures import Architecture
from ditto_fast.export.architectures.choose import find_architecture
from ditto_fast.export.locate import locate


@dataclass(frozen=True)
class Checkpoint:
    """A loaded encoder.

    Args:
        name: Hub id, or name of the folder.
        revision: Commit on the hub, None for a folder.
        content_hash: SHA-256 over the weights' state, the same wherever it was loaded from.
        model: The bare encoder: eager attention, float32, evaluation mode.
        traced_model: The same with the attention that is traced.
        tokenizer: Its fast tokenizer.
        architecture: Its adapter.
    """

    name: str
    revision: str | None
    content_hash: str
    model: Any
    traced_model: Any
    tokenizer: Any
    architecture: Architecture


def load_checkpoint(model: str) -> Checkpoint:
    """Loads a checkpoint for export.

    Args:
        model: A folder, a short name of `ditto_fast.heads.PAPER_MODELS`, or a hub id.

    Raises:
        ModelNotFoundError: Nothing could be loaded from there; the message says what was tried.
        UnsupportedModelError: It is no encoder that can be exported.
    """
    location = locate(model)
    try:
        config = transformers.AutoConfig.from_pretrained(location.source)
    except (OSError, ValueError, KeyError) as error:
        raise _not_found(location.tried, error) from error
    architecture = find_architecture(config)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(location.source, use_fast=True)
        encoder = traced = _load_encoder(location.source, "eager")
        if architecture.traced_attention != "eager":
            traced = _load_encoder(location.source, architecture.traced_attention)
    except (OSError, ValueError) as error:
        raise _not_found(location.tried, error) from error
    if not tokenizer.is_fast:
        raise UnsupportedModelError(
            f"{location.source} has only a slow tokenizer ({type(tokenizer).__name__}); a tokenizer.json is needed. "
            "Convert it once with transformers' convert_slow_tokenizer and save it beside the weights."
        )
    return Checkpoint(
        name=location.name,
        revision=None if location.is_folder else getattr(config, "_commit_hash", None),
        content_hash=state_hash(encoder),
        model=encoder.eval(),
        traced_model=traced.eval(),
        tokenizer=tokenizer,
        architecture=architecture,
    )


def _load_encoder(source: str, attention: str) -> Any:
    """The bare encoder, with every weight from the checkpoint."""
    options = {"attn_implementation": attention, "dtype": torch.float32, "output_loading_info": True}
    encoder, loading = transformers.AutoModel.from_pretrained(source, **options)
    if prefix := _foreign_prefix(loading):
        key_mapping = {f"^{re.escape(prefix)}": ""}
        encoder, loading = transformers.AutoModel.from_pretrained(source, key_mapping=key_mapping, **options)
    missing = _missing(loading)
    if missing:
        raise UnsupportedModelError(
            f"{source} lacks {len(missing)} weights of a {encoder.config.model_type} encoder, such as {missing[0]}; "
            "they would be random. Check that the weights and config.json belong together."
        )
    return encoder


def _missing(loading: dict[str, list[str]]) -> list[str]:
    return sorted(name for name in loading["missing_keys"] if not name.startswith("pooler."))


def _foreign_prefix(loading: dict[str, list[str]]) -> str | None:
    """What precedes each name in weights that were saved from within another module, such as `auto_model.`."""
    for wanted in _missing(loading)[:1]:
        for found in loading["unexpected_keys"]:
            if found.endswith(f".{wanted}"):
                return found.removesuffix(wanted)
    return None


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
