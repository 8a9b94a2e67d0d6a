"""Embeds a corpus of any size: read, encode and write overlap, and a killed run is gone on with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ditto_fast.checks import integer, one_of
from ditto_fast.corpora.destination import Destination, places
from ditto_fast.corpora.engines import EncoderEngine, Engine
from ditto_fast.corpora.progress import Progress
from ditto_fast.corpora.rows import RowReader
from ditto_fast.corpora.run import Run, Summary
from ditto_fast.corpora.settings import Settings
from ditto_fast.corpora.sources import find_sources, total_size
from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import ResumeError

DTYPES = ("float32", "float16")
SHARD_ROWS = 8192


def encode_corpus(
    inputs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    encoder: FastEncoder | Engine,
    output: str | os.PathLike[str],
    *,
    column: str = "text",
    id_column: str | None = None,
    format: str | None = None,  # noqa: A002
    keep_text: bool = False,
    prompt: str = "",
    dtype: str = "float32",
    truncate_dim: int | None = None,
    normalize_embeddings: bool = False,
    shard_rows: int = SHARD_ROWS,
    on_error: str = "raise",
    force: bool = False,
    show_progress_bar: bool = False,
) -> Summary:
    r"""Embeds the texts of files and writes them as they come; the same call goes on with a killed one.

    Args:
        inputs: Files (.txt, .csv, .tsv, .jsonl, .parquet; text formats also .gz and .zst), globs, folders, "-".
        encoder: A FastEncoder, which stays open, or another engine.
        output: A folder for Parquet shards, or a file ending in .npy or .jsonl, which gets a file .json beside it.
        column: Column of the texts.
        id_column: Column of the ids, strings or integers; row numbers from 0 by default.
        format: Format of all inputs; by default each name tells.
        keep_text: Write the texts, too.
        prompt: What to put before each text.
        dtype: "float32" or "float16".
        truncate_dim: Keep the first dimensions only.
        normalize_embeddings: Divide each embedding by its L2 norm, after truncation.
        shard_rows: Rows of a shard at most: what is computed again after a kill, and what memory holds.
        on_error: "raise" at a row without text or finite embedding, or give it a "null" embedding.
        force: Write again what was made with other options or from other rows; replace a file of others.
        show_progress_bar: Show progress on stderr.

    Returns:
        What was done.

    Raises:
        DataError: An input is missing or broken, or a row is bad and `on_error` is "raise".
        MissingDependencyError: pyarrow is not installed.
        NonFiniteError: An embedding has NaN or infinity and `on_error` is "raise".
        OptionError: An argument is outside its valid values.
        OutputError: The output cannot be written, or another process is writing it.
        OutputExistsError: The single file, or the .json beside it, is someone else's.
        ResumeError: The output was begun with another model, input or option.

    Example:
        >>> Path("texts.txt").write_text("A man is eating food.\nSomeone is having a meal.\n")
        48
        >>> encode_corpus("texts.txt", FastEncoder("minilm-ditto"), "embeddings").rows
        2
    """
    engine = EncoderEngine(encoder) if isinstance(encoder, FastEncoder) else encoder
    path = Path(output)
    one_of("on_error", on_error, ("raise", "null"))
    if truncate_dim is not None:
        integer("truncate_dim", truncate_dim, 1, engine.model.hidden_size, "the embedding's width")
    settings = Settings(
        model=engine.model,
        column=column,
        id_column=id_column,
        format=format,
        keep_text=keep_text,
        prompt=prompt,
        dtype=one_of("dtype", dtype, DTYPES),
        truncate_dim=truncate_dim,
        normalize=normalize_embeddings or engine.normalize,
        shard_rows=integer("shard_rows", shard_rows),
    )
    destination = Destination(path, settings, force)
    sources = find_sources([inputs] if isinstance(inputs, (str, os.PathLike)) else inputs, format, places(path))
    reader = RowReader(sources, column, id_column)
    with destination.locked(), Progress(total_size(sources), show_progress_bar) as progress:
        run = Run(engine, settings, destination.folder, on_error, force, progress)
        if (done := destination.finished()) is not None:
            if not run.compare(reader, done["rows_sha256"]):
                raise ResumeError(f"{path} was made from other rows than the input has now. Name another, or --force.")
            return run.summary(str(path), done["summary"], resumed_rows=done["summary"]["rows"])
        run(reader)
        destination.finish(run.shards, run.lasting(), run.digests)
        return run.summary(str(path), run.lasting())
