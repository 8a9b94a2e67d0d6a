"""encode_corpus over a file of short rows, in a process of its own: peak memory and rate, printed as JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from resident import resident_mb, sampled

from ditto_fast import FastEncoder
from ditto_fast.corpora import encode_corpus
from ditto_fast.corpora.shards import EMBEDDING, ID, batches, find_shards, vectors
from ditto_fast.tolerances import MIN_COSINES

_CHECKED = 1000  # rows whose vectors are compared with those of encode


def short_rows(count: int) -> Iterator[str]:
    """Distinct texts of a few tokens."""
    return (f"row {number}" for number in range(count))


def _check(folder: Path, encoder: FastEncoder, count: int) -> None:
    """No time is worth printing unless every row is there, once, in order, and has its vector."""
    ids = np.concatenate([batch.column(0).to_numpy() for _, batch in batches(find_shards(folder), [ID])])
    if not np.array_equal(ids, np.arange(count)):
        raise SystemExit(f"wanted rows 0 to {count - 1} in order; got {len(ids)}.")
    _, batch = next(batches(find_shards(folder), [EMBEDDING], _CHECKED))
    found, _ = vectors(batch)
    wanted = encoder.encode(list(short_rows(len(found))), normalize_embeddings=True)
    cosines = (found * wanted).sum(axis=1) / np.linalg.norm(found, axis=1)
    if not cosines.min() >= MIN_COSINES[encoder.precision]:
        raise SystemExit(f"a row's vector differs from encode's: cosine {cosines.min():.4f}.")


def main(arguments: list[str]) -> None:
    """Writes the rows to a temporary folder, embeds them there and samples resident memory meanwhile."""
    export, precision, threads, count = arguments
    encoder = FastEncoder(Path(export), precision=precision, num_threads=int(threads))
    encoder.encode("Warm.")
    loaded = resident_mb()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with (folder / "rows.txt").open("w", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in short_rows(int(count)))
        with sampled() as samples:
            encode_corpus(folder / "rows.txt", encoder, folder / "embeddings")
        _check(folder / "embeddings", encoder, int(count))
    peak = max(mb for _, mb in samples)
    result = {"loaded_mb": loaded, "peak_mb": peak, "seconds": [samples[-1][0]], "sentences": int(count)}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
