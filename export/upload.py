"""An export directory, uploaded to the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path

from ditto_fast.artifact import Manifest
from ditto_fast.errors import HubError, OptionError
from ditto_fast.hub import check_token, reason


def check_repo_id(repo_id: str) -> str:
    """Returns `repo_id` if it is an "ORG/NAME" of the hub.

    Raises:
        OptionError: It is not.

    Example:
        >>> check_repo_id("my-org/minilm-ditto")
        'my-org/minilm-ditto'
    """
    if re.fullmatch(r"[\w.-]+/[\w.-]+", repo_id, re.ASCII) is None:
        raise OptionError(
            f"push_to_hub must be ORG/NAME, of letters, digits and ._- only; got {repo_id!r}. "
            "ORG is your organisation or user name on the hub."
        )
    return repo_id


def publish(directory: str | Path, repo_id: str, token: str | None = None) -> str:
    """Uploads an export directory as one commit; the repository is made if there is none.

    Args:
        directory: The export directory.
        repo_id: "ORG/NAME".
        token: Access token with write access; by default that of `hf auth login` or HF_TOKEN.

    Returns:
        The address of the commit.

    Raises:
        ExportDirectoryError: `directory` is no export.
        HubError: The hub refused or cannot be reached; the directory stays as it is.
        OptionError: `repo_id` or the token is none.
    """
    from huggingface_hub import HfApi

    check_repo_id(repo_id)
    check_token(token)
    manifest = Manifest.read(Path(directory))
    api = HfApi(token=token)
    message = f"Ditto export of {manifest.source['model_id']}, head {manifest.head}"
    try:
        api.create_repo(repo_id, exist_ok=True)
        commit = api.upload_folder(repo_id=repo_id, folder_path=str(directory), commit_message=message)
    except (OSError, ValueError) as error:
        raise HubError(
            f"{directory} is complete, but the hub did not take it as {repo_id}: {reason(error)} Check the network "
            f"and the token's write access, then: ditto_fast.export.publish({str(directory)!r}, {repo_id!r})."
        ) from error
    return str(commit.commit_url)
