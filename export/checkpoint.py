"""A checkpoint, loaded and checked."""

from __future__ import annotations

import hashlib
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers.normalizers import Lowercase, Sequence
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from ditto_fast.errors import UnsupportedModelError, UntrustedCodeError
from ditto_fast.export.architectures import Architecture
from ditto_fast.export.architectures.choose import find_architecture
from ditto_fast.export.hub import DEFAULT_HUB, HubOptions
from ditto_fast.export.locate import locate, not_found
from ditto_fast.tokenizer import SENTENCE_TRANSFORMERS_FILE, read_settings

_TRUST = "trust_remote_code=True (--trust-remote-code)"


@dataclass(frozen=True)
class Checkpoint:
    """A loaded encoder.

    Args:
        name: Hub id, or name of the folder.
        revision: Commit on the hub, None for a folder.
        folder: Where its files are: the folder, or the hub's cache.
        content_hash: SHA-256 over the weights' state, the same wherever it was loaded from.
        model: The bare encoder: eager attention, float32, evaluation mode.
        traced_model: The same with the attention that is traced.
        tokenizer: Its fast tokenizer, which lower-cases where sentence-transformers does.
        architecture: Its adapter.
        has_pooler: Whether the checkpoint brings the pooler's weights; without them they would be random.
    """

    name: str
    revision: str | None
    folder: Path
    content_hash: str
    model: Any
    traced_model: Any
    tokenizer: Any
    architecture: Architecture
    has_pooler: bool

    @property
    def input_names(self) -> tuple[str, ...]:
        """Inputs of its graphs; token_type_ids only where the model tells two types apart."""
        names = ("input_ids", "attention_mask")
        return (*names, "token_type_ids") if getattr(self.model.config, "type_vocab_size", 0) > 1 else names


def load_checkpoint(model: str, hub: HubOptions = DEFAULT_HUB) -> Checkpoint:
    """Loads a checkpoint for export; one in a folder needs no network.

    Args:
        model: A folder, a short name of `ditto_fast.heads.PAPER_MODELS`, or a hub id.
        hub: How the hub is asked, and what of a checkpoint may run.

    Raises:
        ModelNotFoundError: Nothing could be loaded from there; the message says what was tried.
        UnsupportedModelError: It is no encoder that can be exported.
        UntrustedCodeError: Its weights are pickled or it needs its own code, and that was not allowed.
    """
    location = locate(model, hub)
    # custom code may name another repository, which only the hub can give
    options: dict[str, Any] = {
        "trust_remote_code": hub.trust_remote_code,
        "local_files_only": not hub.trust_remote_code,
    }
    try:
        values = transformers.PretrainedConfig.get_config_dict(location.folder, **options)[0]
        _check_code(location.name, values, hub.trust_remote_code)
        config = transformers.AutoConfig.from_pretrained(location.folder, **options)
        architecture = find_architecture(config)
        tokenizer = _load_tokenizer(location.folder, options)
        options["use_safetensors"] = None if hub.allow_pickle else True
        encoder, has_pooler = _load_encoder(location.folder, "eager", options)
        traced = encoder
        if architecture.traced_attention != "eager":
            traced, _ = _load_encoder(location.folder, architecture.traced_attention, options)
    except (UnsupportedModelError, UntrustedCodeError):
        raise
    except (OSError, ValueError, KeyError) as error:
        raise not_found(location.tried, error) from error
    return Checkpoint(
        name=location.name,
        revision=location.revision,
        folder=location.folder,
        content_hash=state_hash(encoder),
        model=encoder.eval(),
        traced_model=traced.eval(),
        tokenizer=tokenizer,
        architecture=architecture,
        has_pooler=has_pooler,
    )


def _check_code(name: str, config: dict[str, Any], trusted: bool) -> None:
    """A checkpoint's own Python code runs where it was asked for, and never without a word."""
    if trusted:
        warnings.warn(f"{_TRUST}: Python code that came with {name} may run in this process.", stacklevel=4)
    elif "auto_map" in config and config.get("model_type") not in CONFIG_MAPPING_NAMES:
        raise UntrustedCodeError(
            f"{name} can only be loaded by running Python code of its own ({config['auto_map']}). "
            f"Read that code, then pass {_TRUST}."
        )


def _load_tokenizer(source: Path, options: dict[str, Any]) -> Any:
    """The fast tokenizer, with the lower case that sentence-transformers puts before its normalizer."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, use_fast=True, **options)
    if not tokenizer.is_fast:
        raise UnsupportedModelError(
            f"{source} has only a slow tokenizer ({type(tokenizer).__name__}); a tokenizer.json is needed. "
            "Convert it once with transformers' convert_slow_tokenizer and save it beside the weights."
        )
    if read_settings(source / SENTENCE_TRANSFORMERS_FILE).get("do_lower_case"):
        raw = tokenizer.backend_tokenizer
        steps = list(raw.normalizer) if isinstance(raw.normalizer, Sequence) else [raw.normalizer]
        if not any(isinstance(step, Lowercase) for step in steps):
            raw.normalizer = Sequence([Lowercase(), *filter(None, steps)])
    return tokenizer


def _load_encoder(source: Path, attention: str, options: dict[str, Any]) -> tuple[Any, bool]:
    """The bare encoder, with every weight from the checkpoint, and whether its pooler's weights are among them."""
    options = {**options, "attn_implementation": attention, "dtype": torch.float32, "output_loading_info": True}
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
    pooler_is_random = any(name.startswith("pooler.") for name in loading["missing_keys"])
    return encoder, getattr(encoder, "pooler", None) is not None and not pooler_is_random


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
