"""`ditto-export --verify DIR`: an export checked again, files and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ditto_fast.artifact import Manifest, verify_files
from ditto_fast.errors import ParityError
from ditto_fast.export.checkpoint import load_checkpoint
from ditto_fast.export.verify import SENTENCES, Parity, verify_graph
from ditto_fast.heads import Head
from ditto_fast.tokenizer import Tokenizer


def verify_directory(directory: Path, model: str | None = None, sentences: Sequence[str] = SENTENCES) -> list[Parity]:
    """Compares every graph of an export directory with the eager model.

    Args:
        directory: The export directory.
        model: The checkpoint it was made from; by default the hub id that the manifest names.
        sentences: What to compare on.

    Raises:
        ExportDirectoryError: A file is missing or changed.
        ModelNotFoundError: The checkpoint cannot be found.
        ParityError: The checkpoint is another, or a graph differs from it.
    """
    manifest = Manifest.read(directory)
    verify_files(directory, manifest)
    checkpoint = load_checkpoint(model or str(manifest.source["model_id"]))
    if checkpoint.content_hash != manifest.source["content_hash"]:
        raise ParityError(
            f"{directory} was made from {manifest.source['model_id']} with other weights than {checkpoint.name} has. "
            "Name the checkpoint it was made from with --model."
        )
    tokenizer = Tokenizer(directory, manifest.max_seq_length, asked=False)
    reports = []
    for file, info in manifest.graphs.items():
        report = verify_graph(
            directory / file,
            info.kind,
            info.precision,
            checkpoint,
            Head.parse(manifest.head),
            tokenizer,
            unit_norm=manifest.normalize,
            sentences=sentences,
        )
        report.check(sentences)
        reports.append(report)
    return reports
