"""What users pass as sentences, checked and turned into a list of strings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from ditto_fast.errors import TextTypeError, TextValueError

Sentences = str | Sequence[str] | Iterable[str]

_WANTED = "sentences must be a string or a sequence of strings (list, tuple, array, Series, generator)"


def describe(value: object) -> str:
    """A value's type and the begin of its form, for messages."""
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 40 else shown[:37] + '...'}"


def _items(sentences: Any) -> list[Any]:
    if isinstance(sentences, (Mapping, AbstractSet, bytes, bytearray, memoryview)):
        next_step = (
            "decode it first"
            if isinstance(sentences, (bytes, bytearray, memoryview))
            else ("pass list(...) of what you mean, since its order is not that of rows")
        )
        raise TextTypeError(f"{_WANTED}; got {describe(sentences)}: {next_step}.")
    if isinstance(sentences, np.ndarray) and sentences.ndim != 1:
        raise TextTypeError(f"{_WANTED}; got an array of shape {sentences.shape}: pass a 1-D array.")
    if hasattr(sentences, "__iter__"):
        return list(sentences)
    if hasattr(sentences, "__getitem__") and hasattr(sentences, "__len__"):
        return [sentences[i] for i in range(len(sentences))]
    raise TextTypeError(f"{_WANTED}; got {describe(sentences)}.")


def as_texts(sentences: Sentences, first_position: int = 0) -> tuple[list[str], bool]:
    """Returns the texts in order, and whether a single string was given.

    Sequences are taken by position, whatever their index; generators are consumed once.

    Args:
        sentences: What the user passed.
        first_position: Position of the first item, for messages about a part of a longer input.

    Raises:
        TextTypeError: A container without order (dict, set), bytes, or an item that is no string; the
            message gives its position and type.
        TextValueError: A string with lone surrogates, which has no UTF-8 form.

    Example:
        >>> as_texts("one text"), as_texts(("a", "b"))
        ((['one text'], True), (['a', 'b'], False))
    """
    single = isinstance(sentences, str) or (
        isinstance(sentences, np.ndarray) and sentences.ndim == 0 and isinstance(sentences.item(), str)
    )
    items: list[Any] = [str(sentences)] if single else _items(sentences)
    for position, item in enumerate(items, first_position):
        if not isinstance(item, str):
            raise TextTypeError(
                f"item {position}: {describe(item)}, expected str. Remove or convert it before encoding."
            )
        if not item.isascii():
            _check_unicode(position, item)
    return items, single


def _check_unicode(position: int, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextValueError(
            f"item {position}: lone surrogate {text[error.start]!r} at character {error.start} has no UTF-8 "
            "form. Decode the source with the right encoding, or with errors='replace'."
        ) from error
