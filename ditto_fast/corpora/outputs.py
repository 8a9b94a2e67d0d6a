"""Outputs of one file, put together from finished shards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ditto_fast.corpora.settings import Settings
from ditto_fast.corpora.shards import EMBEDDING, ID, TEXT, batches, vectors
from ditto_fast.errors import OutputError
from ditto_fast.files import atomic_file


def write_npy(path: Path, shards: list[Path], rows: int, settings: Settings) -> None:
    """Writes (rows, H) through a memory map; rows without embedding are NaN."""
    with atomic_file(path) as temporary:
        array = np.lib.format.open_memmap(temporary, "w+", np.dtype(settings.dtype), (rows, settings.width))
        start = 0
        for _, batch in batches(shards, [EMBEDDING]):
            values, _ = vectors(batch)
            array[start : start + len(values)] = values
            start += len(values)
        array.flush()


def write_jsonl(path: Path, shards: list[Path], rows: int, settings: Settings) -> None:  # noqa: ARG001
    """Writes an object a row: id, text where it is kept, and embedding, null where there is none."""
    columns = [ID, *([TEXT] if settings.keep_text else []), EMBEDDING]
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for _, batch in batches(shards, columns):
            values, present = vectors(batch)
            records = batch.select(columns[:-1]).to_pylist()
            file.writelines(_lines(records, values, present))


def _lines(records: list[dict[str, Any]], values: np.ndarray[Any, Any], present: np.ndarray[Any, Any]) -> Iterator[str]:
    digits = "%.9g" if values.dtype == np.float32 else "%.5g"  # as many as tell any two values apart
    for record, row, there in zip(records, values.tolist(), present.tolist(), strict=True):
        embedding = f"[{', '.join([digits % value for value in row])}]" if there else "null"
        yield f"{json.dumps(record, ensure_ascii=False)[:-1]}, {json.dumps(EMBEDDING)}: {embedding}}}\n"


Assemble = Callable[[Path, list[Path], int, Settings], None]
SINGLE_FILES: dict[str, Assemble] = {".npy": write_npy, ".jsonl": write_jsonl}


def assemble(path: Path, shards: list[Path], rows: int, settings: Settings) -> None:
    """Writes the one file that an output's name asks for.

    Raises:
        OutputError: The disk is full, or does not take the file.
    """
    try:
        SINGLE_FILES[path.suffix](path, shards, rows, settings)
    except OSError as error:
        raise OutputError(
            f"{path} could not be written: {error}. Its shards are whole: make room, and the same command "
            "goes on from there."
        ) from error
