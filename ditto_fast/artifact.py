"""The export directory: what `ditto-export` writes and `FastEncoder` reads."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ditto_fast.errors import ExportDirectoryError
from ditto_fast.files import sha256
from ditto_fast.prompts import are_prompts

FORMAT_VERSION = 1
MANIFEST_FILE = "ditto_config.json"
CARD_FILE = "README.md"
TOKENIZER_FILE = "tokenizer.json"

# kind of graph -> (file stem, output names in order)
GRAPHS: dict[str, tuple[str, tuple[str, ...]]] = {
    "tokens": ("model", ("attention_diagonal", "first_hidden_state", "last_hidden_state")),
    "embedding": ("model_embedding", ("sentence_embedding",)),
    # query is scaled: the scores are query . key
    "head": ("model_head", ("query", "key", "first_hidden_state", "last_hidden_state")),
}
PRECISIONS = ("fp32", "fp16", "int8")


def graph_file(kind: str, precision: str = "fp32") -> str:
    """File name of a graph.

    Example:
        >>> graph_file("embedding"), graph_file("embedding", "int8")
        ('model_embedding.onnx', 'model_embedding_int8.onnx')
    """
    suffix = "" if precision == "fp32" else f"_{precision}"
    return f"{GRAPHS[kind][0]}{suffix}.onnx"


def weights_file(precision: str) -> str:
    """File of the weights that several graphs of one precision share."""
    return f"{graph_file('tokens', precision)}_data"


def graph_kind(outputs: list[str], path: Path) -> str:
    """Which kind of graph has these outputs, looked up by name.

    Raises:
        ExportDirectoryError: None has; the message lists the outputs found and needed.
    """
    for kind, (_, names) in GRAPHS.items():
        if set(names) == set(outputs):
            return kind
    needed = " or ".join(f"[{', '.join(names)}]" for _, names in GRAPHS.values())
    raise ExportDirectoryError(
        f"{path} has the outputs [{', '.join(outputs)}]; FastEncoder needs {needed}. "
        "Export the checkpoint with ditto-export."
    )


@dataclass(frozen=True)
class GraphInfo:
    """What the manifest says of one graph file.

    Args:
        kind: A key of `GRAPHS`.
        precision: One of `PRECISIONS`.
        outputs: Its output names.
        fused: How many of each fused operator it has.
        parity: Report of the comparison with the eager model, None where it was not made.
    """

    kind: str
    precision: str
    outputs: list[str]
    fused: dict[str, int]
    parity: dict[str, Any] | None


@dataclass(frozen=True)
class Manifest:
    """What `ditto_config.json` says of an export.

    Args:
        source: Model id or folder name, hub revision (None for a folder) and hash of the weights.
        model_type: The checkpoint's architecture, as in its config.json.
        head: The head, "L-H".
        num_layers: Layers of the encoder.
        num_heads: Heads of a layer.
        head_dim: Width of a head's query and key.
        hidden_size: Width of the hidden states and of an embedding.
        vocab_size: Rows of the token embedding table.
        pad_token_id: Id that pads a batch.
        max_positions: Longest input in tokens, special tokens included, that the position table allows.
        max_seq_length: Length in tokens, special tokens included, that texts are cut to.
        pooling: The pooling inside the embedding graph.
        normalize: Whether embeddings are divided by their L2 norm.
        optimize: Level of graph optimisation.
        opset: ONNX operator set.
        graphs: What each graph file is.
        versions: Versions of the packages that made the export.
        prompts: What sentence-transformers puts before texts, by name; the checkpoint's own, empty if it has none.
        files: SHA-256 of each file but the manifest and the model card, which people edit.
        format_version: Version of this contract.
    """

    source: dict[str, str | None]
    model_type: str
    head: str
    num_layers: int
    num_heads: int
    head_dim: int
    hidden_size: int
    vocab_size: int
    pad_token_id: int
    max_positions: int
    max_seq_length: int
    pooling: str
    normalize: bool
    optimize: str
    opset: int
    graphs: dict[str, GraphInfo]
    versions: dict[str, str]
    prompts: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    def write(self, directory: Path) -> None:
        """Writes the manifest, with the hashes of the files of `directory`."""
        record = asdict(self)
        record["files"] = {
            path.relative_to(directory).as_posix(): sha256(path)
            for path in sorted(directory.rglob("*"))
            if path.is_file() and path.name not in (MANIFEST_FILE, CARD_FILE)
        }
        text = json.dumps(record, indent=2, sort_keys=True) + "\n"
        (directory / MANIFEST_FILE).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Manifest:
        """Reads the manifest of an export directory.

        Raises:
            ExportDirectoryError: It is missing, broken or of another format version.
        """
        path = directory / MANIFEST_FILE
        if not path.is_file():
            raise ExportDirectoryError(
                f"{directory} is no export directory: it has no {MANIFEST_FILE}. "
                "Make one with ditto-export --model MODEL --head L-H."
            )
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            version = record["format_version"]
        except (ValueError, KeyError, TypeError) as error:
            raise ExportDirectoryError(f"{path} is broken ({error!r}); export again.") from error
        if version != FORMAT_VERSION:
            raise ExportDirectoryError(
                f"{path} has format version {version!r}; this ditto-fast reads {FORMAT_VERSION}. "
                "Export again, or install the matching version."
            )
        missing = sorted(_required_fields() - record.keys())
        if missing:
            raise ExportDirectoryError(f"{path} lacks {', '.join(missing)}; export again.")
        known = {entry.name: record[entry.name] for entry in fields(cls) if entry.name in record}
        try:
            known["graphs"] = {file: GraphInfo(**info) for file, info in record["graphs"].items()}
            if not known["graphs"]:
                raise TypeError("it names no graph")
            if not are_prompts(record.get("prompts", {})):
                raise TypeError("prompts must map names to strings")
        except (TypeError, AttributeError) as error:
            raise ExportDirectoryError(f"{path} is broken ({error}); export again.") from error
        return cls(**known)


def _required_fields() -> set[str]:
    return {f.name for f in fields(Manifest)} - {"prompts", "files"}


def verify_files(directory: Path, manifest: Manifest) -> None:
    """Checks every file of the export against the manifest's hashes.

    Raises:
        ExportDirectoryError: Files are missing or changed; the message names them.
    """
    if not manifest.files:
        raise ExportDirectoryError(f"{directory / MANIFEST_FILE} has no hashes of files to verify; export again.")
    wrong = [
        f"{name} is {'missing' if not (directory / name).is_file() else 'changed'}"
        for name, expected in manifest.files.items()
        if not (directory / name).is_file() or sha256(directory / name) != expected
    ]
    if wrong:
        raise ExportDirectoryError(f"{directory}: {'; '.join(wrong)}. Export again or copy the folder again.")
