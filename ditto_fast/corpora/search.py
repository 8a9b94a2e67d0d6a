"""Exact search by cosine over a folder of shards, block by block: nothing is indexed and nothing kept in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ditto_fast.checks import integer
from ditto_fast.corpora.rows import Id
from ditto_fast.corpora.settings import Model
from ditto_fast.corpora.shards import EMBEDDING, ID, TEXT, batches, read_rows, read_shard, vectors, whole_corpus
from ditto_fast.errors import DataError, OptionError
from ditto_fast.pooling import normalize

About = dict[int, tuple[Id | None, str | None]]  # row -> id and text


@dataclass(frozen=True)
class Hit:
    """A row that was found.

    Args:
        score: Cosine of its embedding and the query's.
        row: Its row in the corpus, from 0.
        id: Its id.
        text: Its text, None where the shards have none.
    """

    score: float
    row: int
    id: Id | None
    text: str | None


def search_corpus(index: str | os.PathLike[str], queries: ArrayLike, k: int = 10) -> list[list[Hit]]:
    r"""The k rows nearest to each query by cosine, best first; of equal scores the first row.

    Args:
        index: A folder that `ditto-encode` wrote.
        queries: Embeddings (n, H) of queries, or one (H,).
        k: Hits of a query; fewer where the corpus is smaller. Rows without embedding are never hits.

    Returns:
        The hits of each query.

    Raises:
        DataError: The folder has no shards, or a broken one.
        OptionError: k is no positive integer, or the widths differ.

    Example:
        >>> from ditto_fast import FastEncoder
        >>> from ditto_fast.corpora import encode_corpus
        >>> encoder = FastEncoder("minilm-ditto", pooling="mean-first-last")
        >>> lines = "The cat is asleep.", "The bank raised rates."
        >>> _ = Path("lines.txt").write_text("\n".join(lines))
        >>> _ = encode_corpus("lines.txt", encoder, "lines", keep_text=True)
        >>> search_corpus("lines", encoder.encode("monetary policy"), k=1)[0][0].text
        'The bank raised rates.'
    """
    integer("k", k)
    paths = whole_corpus(Path(index))
    wanted = normalize(np.atleast_2d(np.asarray(queries, np.float32)))
    scores = np.empty((len(wanted), 0), np.float32)
    rows = np.empty((len(wanted), 0), np.int64)
    start = 0
    for path, batch in batches(paths, [EMBEDDING]):
        values, present = vectors(batch)
        if values.shape[1] != wanted.shape[1]:
            raise OptionError(f"The query has {wanted.shape[1]} dimensions, {path} has {values.shape[1]}.")
        found = wanted @ normalize(values[present].astype(np.float32)).T
        numbers = np.broadcast_to(start + np.flatnonzero(present), found.shape)
        scores, rows = _best(np.hstack([scores, found]), np.hstack([rows, numbers]), k)
        start += len(batch)
    return _hits(paths, scores, rows)


def _best(
    scores: NDArray[np.float32], rows: NDArray[np.int64], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The k best columns of each row; earlier columns are rows that come first, and stay so at equal scores."""
    if scores.shape[1] > 8 * k:  # what is below the k-th best can go before the rest is sorted
        bound = np.partition(scores, -k, axis=1)[:, -k].min()
        keep = (scores >= bound).any(axis=0)
        scores, rows = scores[:, keep], rows[:, keep]
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _hits(paths: Sequence[Path], scores: NDArray[np.float32], rows: NDArray[np.int64]) -> list[list[Hit]]:
    """Ids and texts are read again, of the shards that have hits alone."""
    about: About = {}
    wanted = np.unique(rows)
    start = 0
    for path in paths:
        shard = read_shard(path)
        within = wanted[(wanted >= start) & (wanted < start + shard.rows)] - start
        if len(within):
            about |= _read(path, within, start, shard.metadata["keep_text"])
        start += shard.rows
    return [
        [Hit(score, row, *about[row]) for score, row in zip(of_query.tolist(), numbers.tolist(), strict=True)]
        for of_query, numbers in zip(scores, rows, strict=True)
    ]


def _read(
    path: Path, within: NDArray[np.int64], start: int, with_text: bool
) -> dict[int, tuple[Id | None, str | None]]:
    records = read_rows(path, [ID, TEXT] if with_text else [ID], within)
    return {start + i: (record[ID], record.get(TEXT)) for i, record in zip(within.tolist(), records, strict=True)}


def check_model(index: str | os.PathLike[str], model: Model) -> None:
    """Checks that queries of a model can be compared with a corpus.

    Raises:
        DataError: The corpus was embedded by another, or otherwise; the message says what differs.
    """
    metadata = read_shard(whole_corpus(Path(index))[0]).metadata
    names = ("manifest_sha256", "head", "pooling")
    differs = [name for name in names if metadata[name] != getattr(model, name)]
    if differs:
        raise DataError(
            f"{index} was embedded by {metadata['model']}, head {metadata['head']}, {metadata['pooling']}; the query's "
            f"model differs in {', '.join(differs)}. Use the export and the pooling that the corpus was embedded by."
        )
