"""A checkpoint, found and loaded: a folder, a short name of the paper's table, or a hub id."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from ditto_fast.errors import ModelNotFoundError, OptionError, UnsupportedModelError, UntrustedCodeError
from ditto_fast.export.architectures import ARCHITECTURES, SUPPORTED_MODEL_TYPES, Architecture
from ditto_fast.export.hub import DEFAULT_HUB, PICKLES, HubOptions, fetch_checkpoint
from ditto_fast.heads import PAPER_MODELS
from ditto_fast.hub import reason

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
        tokenizer: Its fast tokenizer.
        architecture: Its adapter.
    """

    name: str
    revision: str | None
    folder: Path
    content_hash: str
    model: Any
    tokenizer: Any
    architecture: Architecture


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


def _locate(model: str, hub: HubOptions) -> tuple[Path, str, str | None, str]:
    """The folder to load from, the checkpoint's name and revision, and what was tried, in words."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        if hub.revision is not None:
            raise OptionError(f"revision is one of a hub repository; {folder} is a folder. Leave it out.")
        _check_folder(folder, hub.allow_pickle)
        return folder, folder.absolute().name, None, f"the folder {folder}"
    if model in PAPER_MODELS:
        model_id = PAPER_MODELS[model].model_id
        tried = f"the hub id {model_id} (short name {model})"
    else:
        model_id = model
        tried = f"a folder {model!r} (none), a short name ({', '.join(PAPER_MODELS)}), and the hub id {model!r}"
    try:
        folder = fetch_checkpoint(model_id, hub)
    except UntrustedCodeError:
        raise
    except (OSError, ValueError) as error:
        raise _not_found(tried, error) from error
    _check_folder(folder, hub.allow_pickle)
    return folder, model_id, folder.name, tried


def _check_code(name: str, config: dict[str, Any], trusted: bool) -> None:
    """A checkpoint's own Python code runs where it was asked for, and never without a word."""
    if trusted:
        warnings.warn(f"{_TRUST}: Python code that came with {name} may run in this process.", stacklevel=4)
    elif "auto_map" in config and config.get("model_type") not in CONFIG_MAPPING_NAMES:
        raise UntrustedCodeError(
            f"{name} can only be loaded by running Python code of its own ({config['auto_map']}). "
            f"Read that code, then pass {_TRUST}."
        )


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
    source, name, revision, tried = _locate(model, hub)
    # custom code may name another repository, which only the hub can give
    options = {"trust_remote_code": hub.trust_remote_code, "local_files_only": not hub.trust_remote_code}
    try:
        _check_code(name, transformers.PretrainedConfig.get_config_dict(source, **options)[0], hub.trust_remote_code)
        config = transformers.AutoConfig.from_pretrained(source, **options)
    except UntrustedCodeError:
        raise
    except (OSError, ValueError, KeyError) as error:
        raise _not_found(tried, error) from error
    architecture = find_architecture(config)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, use_fast=True, **options)
        encoder, loading = transformers.AutoModel.from_pretrained(
            source,
            attn_implementation="eager",
            dtype=torch.float32,
            output_loading_info=True,
            use_safetensors=None if hub.allow_pickle else True,
            **options,
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
    return Checkpoint(
        name=name,
        revision=revision,
        folder=source,
        content_hash=state_hash(encoder),
        model=encoder.eval(),
        tokenizer=tokenizer,
        architecture=architecture,
    )


def state_hash(model: torch.nn.Module) -> str:
    """SHA-256 over the names and values of a model's weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _not_found(tried: str, error: Exception) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"No checkpoint could be loaded. Tried: {tried}. Reason: {reason(error)} "
        "Without a network, pass a local folder (one that save_pretrained wrote): that works offline."
    )
