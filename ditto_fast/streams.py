"""An iterable cut into chunks, checked and encoded as it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from ditto_fast.errors import NonFiniteError, TextTypeError
from ditto_fast.texts import as_texts, items_of


def chunks_of(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yields lists of `size` texts, the last perhaps shorter; positions in messages count from the start.

    Raises:
        TextTypeError: A single string, which would be walked letter by letter, a container without the order of
            rows, or an item that is no string.

    Example:
        >>> list(chunks_of(iter("abc"), 2))
        [['a', 'b'], ['c']]
    """
    if isinstance(texts, str):
        raise TextTypeError("A stream is an iterable of strings; got one string: pass [text].")
    iterator = iter(items_of(texts))
    position = 0
    while chunk := list(islice(iterator, size)):
        yield as_texts(chunk, position)[0]
        position += len(chunk)


def encoded_chunks(encode: Callable[[list[str]], Any], texts: Iterable[str], size: int) -> Iterator[Any]:
    """Yields what `encode` makes of one chunk after another; rows in messages count from the start, too."""
    position = 0
    for chunk in chunks_of(texts, size):
        try:
            yield encode(chunk)
        except NonFiniteError as error:
            raise NonFiniteError.of([position + row for row in error.rows], position + len(chunk)) from None
        position += len(chunk)
