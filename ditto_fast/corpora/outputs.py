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


def _write_npy(temporary: Path, shards: list[Path], rows: int, settings: Settings) -> None:
    """Writes (rows, H); rows without embedding are NaN."""
    header = {"descr": np.dtype(settings.dtype).str, "fortran_order": False, "shape": (rows, settings.width)}
    # not through a memory map: a disk that fills up under one ends the process without a word
    with temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for _, batch in batches(shards, [EMBEDDING]):
            file.write(vectors(batch)[0].tobytes())


def _write_jsonl(temporary: Path, shards: list[Path], rows: int, settings: Settings) -> None:  # noqa: ARG001
    """Writes an object a row: id, text where it is kept, and embedding, null where there is none."""
    columns = [ID, *([TEXT] if settings.keep_text else []), EMBEDDING]
    with temporary.open("w", encoding="utf-8") as file:
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
SINGLE_FILES: dict[str, Assemble] = {".npy": _write_npy, ".jsonl": _write_jsonl}


def assemble(path: Path, folder: Path, shards: list[Path], rows: int, settings: Settings) -> None:
    """Writes the one file that an output's name asks for, in the shards' folder until it is whole.

    Raises:
        OutputError: The disk is full, or does not take the file.
    """
    try:
        with atomic_file(path, folder) as temporary:
            SINGLE_FILES[path.suffix](temporary, shards, rows, settings)
    except OSError as error:
        raise OutputError(
            f"{path} could not be written: {error}. Its shards are whole: make room, and the same command "
            "goes on from there."
        ) from error
