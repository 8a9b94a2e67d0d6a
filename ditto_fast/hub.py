"""Exports on the Hugging Face hub: downloads what FastEncoder needs of one, or finds it in the hub's cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ditto_fast.artifact import MANIFEST_FILE, Manifest
from ditto_fast.backends import graph_files
from ditto_fast.checks import one_of
from ditto_fast.errors import ExportDirectoryError, ModelNotFoundError, OptionError
from ditto_fast.pooling import POOLINGS
from ditto_fast.providers import Providers
from ditto_fast.selection import choose_graph, companions


def check_token(token: str | None) -> None:
    """Checks that a token can be sent: HTTP libraries print the token itself where it cannot.

    Raises:
        OptionError: It is empty or has characters that no token has; the message does not show it.
    """
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise OptionError(
            "token must be printable ASCII without spaces or line breaks around it; got something else (not "
            "shown). Copy it again, or leave it out to use the one that hf auth login or HF_TOKEN set."
        )


def reason(error: Exception) -> str:
    """An error's message on one line."""
    return " ".join(str(error).split())


def fetch_export(
    repo_id: str,
    pooling: str | None,
    precision: str | None,
    *,
    backend: str,
    providers: Providers,
    revision: str | None,
    token: str | None,
    cache_dir: str | Path | None,
    local_files_only: bool,
    whole: bool,
) -> Path:
    """Brings the manifest, the graph that serves `pooling` and the small files into the hub's cache.

    With `whole`, every file of the manifest: `verify_files` wants them all.

    Returns:
        The folder of the cache that has them.

    Raises:
        ExportDirectoryError: The repository has no manifest, a broken one, or lacks a file.
        ModelNotFoundError: The repository cannot be reached, or is not in the cache.
        OptionError: The pooling, the precision or the token is none.
    """
    fetch = partial(_fetch, repo_id, token=token, cache_dir=cache_dir, local_files_only=local_files_only)
    with _refusals(repo_id, pooling, token):
        folder = fetch(MANIFEST_FILE, revision).parent
        manifest = Manifest.read(folder)
        commit = folder.name  # one commit for all files, whatever is pushed meanwhile
        graphs = [fetch(name, commit) for name in graph_files(manifest, pooling, precision, backend, providers)]
        needed = [name for graph in graphs for name in companions(manifest, graph)]
        for name in dict.fromkeys(manifest.files if whole else needed):
            fetch(name, commit)
    return folder


def find_commit(repo_id: str, pooling: str | None, precision: str | None, revision: str | None) -> str:
    """The commit of an export on the hub that has a graph for `pooling`; only its manifest is downloaded.

    Raises:
        ExportDirectoryError: The repository has no manifest, or a broken one.
        ModelNotFoundError: The repository cannot be reached, or is not in the cache.
        OptionError: The pooling or the precision is none.
    """
    with _refusals(repo_id, pooling, None):
        folder = _fetch(repo_id, MANIFEST_FILE, revision).parent
        choose_graph(Manifest.read(folder), pooling, precision)
    return folder.name


def _fetch(
    repo_id: str,
    name: str,
    revision: str | None,
    *,
    token: str | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
) -> Path:
    from huggingface_hub import hf_hub_download

    path = hf_hub_download(
        repo_id, name, revision=revision, token=token, cache_dir=cache_dir, local_files_only=local_files_only
    )
    return Path(path)


@contextmanager
def _refusals(repo_id: str, pooling: str | None, token: str | None) -> Iterator[None]:
    """Checks what needs no network, and turns a refusal of the block into one of our errors."""
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    check_token(token)
    if pooling is not None:
        one_of("pooling", pooling, POOLINGS)
    try:
        yield
    except (ExportDirectoryError, OptionError):
        raise
    except (OSError, ValueError) as error:
        if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
            raise ExportDirectoryError(
                f"{repo_id} is no complete export of ditto-export: {reason(error)} "
                f"Export it: ditto-export --model {repo_id} --head L-H."
            ) from error
        raise ModelNotFoundError(
            f"{repo_id!r} is neither an export directory nor an export that could be loaded from the hub: "
            f"{reason(error)} Check the name and the token; offline, load it once with a network and the same "
            "arguments, or pass a folder."
        ) from error
