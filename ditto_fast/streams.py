"""An iterable cut into chunks, checked as it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from ditto_fast.errors import TextTypeError
from ditto_fast.texts import as_texts


def chunks_of(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yields lists of `size` texts, the last perhaps shorter; positions in messages count from the start.

    Raises:
        TextTypeError: A single string, which would be walked letter by letter, or an item that is none.

    Example:
        >>> list(chunks_of(iter("abc"), 2))
        [['a', 'b'], ['c']]
    """
    if isinstance(texts, str):
        raise TextTypeError("A stream is an iterable of strings; got one string: pass [text].")
    iterator = iter(texts)
    position = 0
    while chunk := list(islice(iterator, size)):
        yield as_texts(chunk, position)[0]
        position += len(chunk)
