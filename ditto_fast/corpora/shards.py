"""Shards: Parquet files of ids and embeddings, the same bytes for the same rows and settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.corpora.arrow import import_pyarrow
from ditto_fast.corpora.blocks import Block
from ditto_fast.corpora.records import SUMMARY, read_record
from ditto_fast.corpora.settings import SUMMARY_FILE, Settings, check_same
from ditto_fast.errors import DataError, OutputError, ResumeError
from ditto_fast.files import atomic_file, is_temporary

if TYPE_CHECKING:
    import pyarrow

METADATA_KEY = b"ditto_fast"
ID, TEXT, EMBEDDING = "id", "text", "embedding"
_PATTERN = "part-*.parquet"
_ROW_GROUP = 2048  # rows that the writer and readers hold at once


@dataclass(frozen=True)
class Shard:
    """A finished shard.

    Args:
        path: The file.
        metadata: Settings, number, first row and hash of the rows.
        rows: Its rows.
        not_finite: Positions of rows whose embedding had NaN or infinity.
    """

    path: Path
    metadata: dict[str, Any]
    rows: int
    not_finite: list[int]


def shard_path(folder: Path, number: int) -> Path:
    """Where a shard is."""
    return folder / f"part-{number:06d}.parquet"


def find_shards(folder: Path) -> list[Path]:
    """The finished shards of a folder, in order."""
    return sorted(folder.glob(_PATTERN))


def whole_corpus(folder: Path) -> list[Path]:
    """The shards of a folder that a run has finished, in order.

    Raises:
        DataError: It has none, or some are missing, or its summary is broken.
    """
    paths = find_shards(folder)
    if not paths:
        raise DataError(f"{folder} holds no {_PATTERN}: name the folder that ditto-encode wrote.")
    path = folder / SUMMARY_FILE
    advice = "Run ditto-encode again, which writes it anew."
    if not path.is_file() or read_record(path, SUMMARY, DataError, advice)["shards"] != len(paths):
        raise DataError(f"{folder} is not whole: run ditto-encode to its end, or copy all of the folder.")
    return paths


def remove_unfinished(folder: Path) -> None:
    """Removes what a killed process left behind."""
    for path in folder.iterdir():
        if is_temporary(path):
            path.unlink()


def remove_shards(paths: Iterable[Path]) -> None:
    """Removes shards, and before them what calls their folder whole."""
    for path in paths:
        _no_longer_whole(path.parent)
        path.unlink()


def _no_longer_whole(folder: Path) -> None:
    """To be called just before a shard comes or goes, so that a run that changes none leaves a whole folder whole."""
    (folder / SUMMARY_FILE).unlink(missing_ok=True)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The Parquet file of a shard, by a handle of our own: Arrow takes a name like `minilm:v1` for a URI.

    Raises:
        DataError: It is broken.
    """
    pyarrow = import_pyarrow()
    try:
        with path.open("rb") as raw, pyarrow.parquet.ParquetFile(raw, page_checksum_verification=True) as file:
            yield file
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path} cannot be read ({error}); remove it and run ditto-encode again.") from error


def read_shard(path: Path) -> Shard:
    """What a shard says of itself.

    Raises:
        DataError: It is no shard, or broken.
    """
    with _opened(path) as file:
        try:
            metadata = json.loads(file.schema_arrow.metadata[METADATA_KEY])
            return Shard(path, metadata, file.metadata.num_rows, metadata["shard"]["not_finite"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path} was not written by ditto-encode.") from error


def write_shard(
    folder: Path,
    block: Block,
    embeddings: NDArray[Any],
    rows: NDArray[np.int64],
    not_finite: list[int],
    settings: Settings,
) -> None:
    """Writes a block.

    Args:
        folder: Where to.
        block: The rows.
        embeddings: (n, H) of those that have one.
        rows: Their positions in the block, (n,).
        not_finite: Positions of those whose embedding had NaN or infinity.
        settings: Goes into the file's metadata.

    Raises:
        OutputError: The disk is full, or does not take the file.
    """
    parquet = import_pyarrow().parquet
    path = shard_path(folder, block.number)
    table = _table(block, embeddings, rows, not_finite, settings)
    try:
        with atomic_file(path) as temporary:
            with temporary.open("wb") as file:
                parquet.write_table(
                    table,
                    file,
                    row_group_size=_ROW_GROUP,
                    use_dictionary=False,
                    compression={ID: "zstd", TEXT: "zstd", f"{EMBEDDING}.list.element": "none"},
                    write_statistics=[ID],
                    write_page_checksum=True,
                )
            _no_longer_whole(folder)
    except OSError as error:
        raise OutputError(
            f"{path} could not be written: {error}. The {block.number} shards before it are whole: make room, and "
            "the same command goes on from there."
        ) from error


def _table(
    block: Block, embeddings: NDArray[Any], rows: NDArray[np.int64], not_finite: list[int], settings: Settings
) -> pyarrow.Table:
    pyarrow = import_pyarrow()
    missing = np.ones(len(block), bool)
    missing[rows] = False
    values = embeddings
    if missing.any():
        values = np.zeros((len(block), settings.width), embeddings.dtype)
        values[rows] = embeddings
    columns = {ID: pyarrow.array(block.ids, pyarrow.string() if block.id_type is str else pyarrow.int64())}
    if settings.keep_text:
        columns[TEXT] = pyarrow.array(block.texts, pyarrow.large_string())
    mask = pyarrow.array(missing) if missing.any() else None
    columns[EMBEDDING] = pyarrow.FixedSizeListArray.from_arrays(values.ravel(), settings.width, mask=mask)
    about = {
        **settings.to_dict(),
        "shard": {
            "number": block.number,
            "first_row": block.first_row,
            "not_finite": not_finite,
            "rows_sha256": block.digest,
        },
    }
    return pyarrow.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(about)})


def check_finished(shard: Shard, block: Block, settings: Settings) -> None:
    """Checks that a finished shard is what this block would give.

    Raises:
        ResumeError: It was made from other rows, or with other settings.
    """
    own = dict(shard.metadata)
    about = own.pop("shard")
    check_same(own, settings.to_dict(), shard.path)
    if about["rows_sha256"] != block.digest or shard.rows != len(block):
        raise ResumeError(
            f"{shard.path} was made from other rows than the input has now (rows {block.first_row} to "
            f"{block.end_row - 1}): the input was changed. Name another output, or pass --force."
        )


def batches(paths: list[Path], columns: list[str], rows: int = 4096) -> Iterator[tuple[Path, pyarrow.RecordBatch]]:
    """The shards' rows, some at a time.

    Raises:
        DataError: A shard is broken.
    """
    for path in paths:
        with _opened(path) as file:
            for batch in file.iter_batches(rows, columns=columns):
                yield path, batch


def read_rows(path: Path, columns: list[str], rows: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Some rows of a shard.

    Raises:
        DataError: It is broken.
    """
    with _opened(path) as file:
        return list(file.read(columns).take(rows).to_pylist())


def vectors(batch: pyarrow.RecordBatch) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Embeddings (n, H) of a batch, NaN where there is none, and which rows have one (n,)."""
    column = batch.column(EMBEDDING)
    width = column.type.list_size
    present = np.asarray(column.is_valid())
    values = np.full((len(column), width), np.nan, column.type.value_type.to_pandas_dtype())
    values[present] = column.drop_null().flatten().to_numpy().reshape(-1, width)
    return values, present
