"""What the embeddings of a corpus depend on; an output that was begun with others is not gone on with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ditto_fast.artifact import MANIFEST_FILE, Manifest
from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import ResumeError
from ditto_fast.files import sha256
from ditto_fast.selection import check_files

SETTINGS_FILE = "_settings.json"  # readers of Parquet folders leave out names with an underscore
SUMMARY_FILE = "_summary.json"


@dataclass(frozen=True)
class Model:
    """The model and how it is run.

    Args:
        model: Its id or folder name.
        revision: Its commit on the hub.
        head: The head, "L-H".
        manifest_sha256: Hash of the export's manifest, which has the hashes of its files.
        pooling: The pooling.
        precision: Precision of the graph.
        max_seq_length: Tokens that texts are cut to.
        provider: ONNX Runtime's name of what runs it.
        graph: File of the graph.
        max_batch_tokens: Tokens of a batch, which the last bits of a vector depend on.
        hidden_size: Width of an embedding before it is cut.
    """

    model: str | None
    revision: str | None
    head: str
    manifest_sha256: str
    pooling: str
    precision: str
    max_seq_length: int
    provider: str
    graph: str
    max_batch_tokens: int
    hidden_size: int

    @classmethod
    def of_encoder(cls, encoder: FastEncoder) -> Model:
        """The model that an encoder runs.

        Raises:
            ExportDirectoryError: Another export has taken its place.
        """
        manifest, folder = encoder.manifest, encoder.path.parent
        check_files(folder, Manifest.read(folder).files, manifest.files)
        return cls(
            model=manifest.source["model_id"],
            revision=manifest.source.get("revision"),
            head=manifest.head,
            manifest_sha256=sha256(folder / MANIFEST_FILE),
            pooling=encoder.pooling,
            precision=encoder.precision,
            max_seq_length=encoder.max_seq_length,
            provider=encoder.provider,
            graph=encoder.path.name,
            max_batch_tokens=encoder.max_batch_tokens,
            hidden_size=manifest.hidden_size,
        )


@dataclass(frozen=True)
class Settings:
    """Everything that the shards depend on but the rows.

    Args:
        model: The model.
        column: Column of the texts.
        id_column: Column of the ids, None for row numbers.
        format: Format of the inputs, None where their names tell.
        keep_text: Whether the output has the texts.
        prompt: What is put before each text.
        dtype: "float32" or "float16".
        truncate_dim: Dimensions that are kept, None for all.
        normalize: Whether each embedding is divided by its L2 norm.
        shard_rows: Rows of a shard.
    """

    model: Model
    column: str
    id_column: str | None
    format: str | None
    keep_text: bool
    prompt: str
    dtype: str
    truncate_dim: int | None
    normalize: bool
    shard_rows: int

    @property
    def width(self) -> int:
        """Dimensions of an embedding in the output."""
        return self.truncate_dim or self.model.hidden_size

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it, flat."""
        record = asdict(self)
        return {**record.pop("model"), **record}


def check_same(found: Mapping[str, Any], wanted: Mapping[str, Any], output: Path) -> None:
    """Checks that an output was begun with these settings.

    Raises:
        ResumeError: It was not; the message says what differs.
    """
    names = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    if names:
        changes = "; ".join(f"{name} was {_short(found.get(name))} and is {_short(wanted.get(name))}" for name in names)
        raise ResumeError(
            f"{output} was begun otherwise: {changes}. Give the same model and options to go on, another output, "
            "or --force to begin anew."
        )


def _short(value: object) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 200 else shown[:197] + "..."
