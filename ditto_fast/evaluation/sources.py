"""MODEL on the command line: an export directory, or a checkpoint that is exported into a cache on the fly."""

from __future__ import annotations

import os
from pathlib import Path

from ditto_fast.errors import ExportDirectoryError, HeadError, MissingDependencyError, OptionError
from ditto_fast.evaluation.states import StateSource, is_export, open_export, open_states
from ditto_fast.heads import Head, resolve_head


def default_cache() -> Path:
    """Where checkpoints' graphs are kept: ditto_fast in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "ditto_fast"


def open_source(
    model: str, head: str | None, cache: Path | None = None, max_seq_length: int | None = None
) -> StateSource:
    """Opens what the user named.

    Args:
        model: An export directory, a checkpoint's folder, a hub id, or a short name.
        head: "L-H"; for a paper's checkpoint its head by default, for others none. An export has its own.
        cache: Where checkpoints' graphs are kept.
        max_seq_length: Tokens that texts are cut to; the position table's by default.

    Raises:
        DittoError: Whatever hinders it, by its own class.
    """
    if is_export(Path(model)):
        source = open_export(Path(model), max_seq_length)
        if head is not None and Head.parse(head) != source.head:
            raise OptionError(
                f"{model} holds head {source.head}, not {head}. Name the checkpoint instead, or export it with "
                f"ditto-export --head {head}."
            )
        return source
    try:
        chosen: Head | None = resolve_head(model, head)
    except HeadError:
        if head is not None:
            raise
        chosen = None
    return open_states(_cached(model, cache), chosen, max_seq_length)


def open_checkpoint(
    model: str, command: str, cache: Path | None = None, max_seq_length: int | None = None
) -> StateSource:
    """Opens a checkpoint for a command that needs all of its heads.

    Raises:
        ExportDirectoryError: `model` is an export directory, which has one head.
    """
    if is_export(Path(model)):
        raise ExportDirectoryError(
            f"{model} is an export directory, which holds one head's diagonal (no export option gives all); {command} "
            "needs every head. Name the checkpoint that it was made from."
        )
    return open_states(_cached(model, cache), None, max_seq_length)


def _cached(model: str, cache: Path | None) -> Path:
    try:
        from ditto_fast.evaluation.with_torch.states_graph import cached_states
    except ImportError as error:
        raise MissingDependencyError(
            f"A checkpoint is exported on the fly, which needs: pip install 'ditto-fast[export,cpu,eval]' ({error}). "
            "An export directory needs only [cpu,eval]."
        ) from error
    return cached_states(model, default_cache() if cache is None else cache)
