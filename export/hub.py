"""Checkpoints on the Hugging Face hub: what may be loaded, from where, and the download into the hub's cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ditto_fast.errors import UntrustedCodeError
from ditto_fast.hub import check_token

PICKLES = ("pytorch_model.bin", "pytorch_model-*.bin")
_FILES = ("*.json", "*.txt", "*.model", "README.md", "model.safetensors", "model-*.safetensors")


@dataclass(frozen=True)
class HubOptions:
    """How the hub is asked, and what of a checkpoint may run. HF_HUB_OFFLINE=1 means the cache alone.

    Args:
        revision: Branch, tag or commit; the main branch by default.
        token: Access token, which is sent and written nowhere; by default that of `hf auth login` or HF_TOKEN.
        cache_dir: The hub's cache; by default that of huggingface_hub.
        trust_remote_code: Let the checkpoint's own Python code run.
        allow_pickle: Load pickled weights where there is no model.safetensors.

    Raises:
        OptionError: The token cannot be sent.

    Example:
        >>> HubOptions(revision="main", token="hf_secret")
        HubOptions(revision='main', cache_dir=None, trust_remote_code=False, allow_pickle=False)
    """

    revision: str | None = None
    token: str | None = field(default=None, repr=False)
    cache_dir: str | Path | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        check_token(self.token)


DEFAULT_HUB = HubOptions()


def fetch_checkpoint(model_id: str, options: HubOptions, transformer_path: Callable[[Path], str]) -> Path:
    """Brings a checkpoint into the hub's cache, or finds it there.

    Args:
        model_id: The hub id.
        options: How the hub is asked.
        transformer_path: Says in which folder of the repository the checkpoint itself lies.

    Returns:
        The folder of the cache that has the repository, named after the commit.

    Raises:
        UntrustedCodeError: There are no safetensors weights, and pickled ones are not allowed.
        OSError: The hub refused, or cannot be reached and the cache does not have it.
        ValueError: The id is not one.
    """
    from huggingface_hub import snapshot_download

    def fetch(patterns: tuple[str, ...], path: str = "") -> Path:
        prefix = f"{path}/" if path else ""
        folder = snapshot_download(
            model_id,
            revision=options.revision,
            token=options.token,
            cache_dir=options.cache_dir,
            allow_patterns=[f"{prefix}{pattern}" for pattern in patterns],
            ignore_patterns=None if path else "*/*",
        )
        return Path(folder)

    patterns = _FILES + (("*.py",) if options.trust_remote_code else ())
    folder = fetch(patterns)
    path = transformer_path(folder)
    if path:
        fetch(patterns, path)
    if any((folder / path).glob("*.safetensors")):
        return folder
    if not options.allow_pickle:
        raise UntrustedCodeError(
            f"{model_id} has no model.safetensors; pickled weights (pytorch_model.bin) were not fetched, since reading "
            "a pickle can run code. Name a revision with safetensors, or pass allow_pickle=True (--allow-pickle) if "
            "you trust whoever made it."
        )
    return fetch(PICKLES, path)
