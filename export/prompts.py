"""The prompts that a checkpoint was trained with, as sentence-transformers keeps them: carried into its exports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ditto_fast.errors import UnsupportedModelError
from ditto_fast.prompts import NAMES, are_prompts, by_role

PROMPTS_FILE = "config_sentence_transformers.json"
_DEFAULT = "default_prompt_name"


def read_prompts(folder: Path) -> dict[str, Any]:
    """What a checkpoint says of prompts: `prompts` by name, and `default_prompt_name` where it has one.

    Args:
        folder: The one with config.json; the file may lie beside modules.json, one folder up.

    Returns:
        These two, or nothing where there are no prompts.

    Raises:
        UnsupportedModelError: The file is broken.
    """
    folders = [folder, *([folder.parent] if (folder.parent / "modules.json").is_file() else [])]
    path = next((each / PROMPTS_FILE for each in folders if (each / PROMPTS_FILE).is_file()), None)
    if path is None:
        return {}
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        prompts, default = config.get("prompts") or {}, config.get(_DEFAULT)
        prompts = {name: prompt for name, prompt in prompts.items() if prompt is not None}
        if not are_prompts(prompts):
            raise TypeError(f"prompts must map names to strings; got {prompts!r}")
        # sentence-transformers has empty prompts of both roles without a word
        if default is not None and default not in {*prompts, *NAMES}:
            raise TypeError(f"{_DEFAULT} must be one of {', '.join(prompts) or 'no prompts'}; got {default!r}")
    except (ValueError, TypeError, AttributeError) as error:
        raise UnsupportedModelError(f"{path} is broken ({error}). Mend it, or remove it if there are none.") from error
    if not any(prompts.values()):
        return {}
    return {"prompts": prompts, **({_DEFAULT: default} if default is not None else {})}


def write_prompts(said: dict[str, Any], folder: Path) -> None:
    """Writes what sentence-transformers reads of prompts into an export directory, if there is any.

    Its `encode_document` finds a prompt called "passage" by the name "document" alone.
    """
    if said:
        said = {**said, "prompts": {**said["prompts"], **by_role(said["prompts"])}}
        (folder / PROMPTS_FILE).write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
