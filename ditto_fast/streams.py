"""An iterable cut into chunks, checked and encoded as it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import islice
from typing import Any

from tqdm import tqdm

from ditto_fast.errors import NonFiniteError, TextTypeError
from ditto_fast.texts import as_texts, items_of


def chunks_of(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yields lists of `size` texts, the last perhaps shorter; positions in messages count from the start.

    Raises:
        TextTypeError: At once where it is a single string, which would be walked letter by letter, or a container
            without the order of rows; where it is reached, for an item that is no string.

    Example:
        >>> list(chunks_of(iter("abc"), 2))
        [['a', 'b'], ['c']]
    """
    if isinstance(texts, str):
        raise TextTypeError("A stream is an iterable of strings; got one string: pass [text].")
    return _chunks(iter(items_of(texts)), size)


def _chunks(items: Iterator[Any], size: int) -> Iterator[list[str]]:
    position = 0
    while chunk := list(islice(items, size)):
        yield as_texts(chunk, position)[0]
        position += len(chunk)


def encoded_chunks(
    encode: Callable[[list[str]], Any], texts: Iterable[str], size: int, show_progress_bar: bool
) -> Iterator[Any]:
    """Yields what `encode` makes of one chunk after another; rows in messages count from the start, too."""
    encoded = _encoded(encode, chunks_of(texts, size))
    if not show_progress_bar:
        return encoded
    return _shown(encoded, len(texts) if isinstance(texts, Sized) else None)


def _encoded(encode: Callable[[list[str]], Any], chunks: Iterator[list[str]]) -> Iterator[Any]:
    position = 0
    for chunk in chunks:
        try:
            yield encode(chunk)
        except NonFiniteError as error:
            raise NonFiniteError.of([position + row for row in error.rows], position + len(chunk)) from None
        position += len(chunk)


def _shown(encoded: Iterator[Any], total: int | None) -> Iterator[Any]:
    with tqdm(total=total, unit="sentence") as progress:
        for rows in encoded:
            progress.update(len(rows))
            yield rows
