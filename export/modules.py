"""modules.json: makes sentence-transformers open an export with `DittoModule`, and not with a pooling of its own.

Without it sentence-transformers falls back to the mean of the last hidden states, without an error.
"""

from __future__ import annotations

import json
from pathlib import Path

_MODULE = "ditto_fast.export.sentence_transformers.DittoModule"


def write_modules(folder: Path) -> None:
    """Writes modules.json into an export directory."""
    modules = [{"idx": 0, "name": "0", "path": "", "type": _MODULE}]
    (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")
