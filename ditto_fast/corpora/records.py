"""The JSON files of an output, by one reader that tells its own from what is broken or someone else's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ditto_fast.errors import DittoError

# what tells each file: names in it, and the types of their values
SETTINGS: Mapping[str, type] = {"manifest_sha256": str}
SUMMARY: Mapping[str, type] = {"shards": int}
ABOUT: Mapping[str, type] = {"settings": dict, "summary": dict, "rows_sha256": list}


def read_record(path: Path, wanted: Mapping[str, type], error: type[DittoError], advice: str) -> dict[str, Any]:
    """What an earlier run wrote.

    Args:
        path: The file.
        wanted: One of the tables above.
        error: What is raised where the file is not that.
        advice: What to do then, which ends the message.

    Raises:
        DittoError: It is broken, or someone else's.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as cause:
        raise error(f"{path} cannot be read as JSON ({cause}): it is broken, or someone else's. {advice}") from cause
    if not isinstance(record, dict) or not all(isinstance(record.get(name), kind) for name, kind in wanted.items()):
        raise error(f"{path} must be a JSON object with {', '.join(wanted)}: it is someone else's. {advice}")
    return record
