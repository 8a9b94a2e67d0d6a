"""What users pass as sentences, checked and turned into a list of strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from ditto_fast.errors import TextTypeError, TextValueError

Sentences = str | Sequence[str] | Iterable[str]

_PART = 8192  # items
_WANTED = "sentences must be a string or a sequence of strings (list, tuple, array, Series, generator)"


def describe(value: object) -> str:
    """A value's type and the begin of its form, for messages."""
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 40 else shown[:37] + '...'}"


def items_of(sentences: Any) -> Iterable[Any]:
    """The items in the order of rows, by position whatever their index; none is looked at or taken yet.

    Raises:
        TextTypeError: It has no such order (dict, set, bytes) or more dimensions than one.
    """
    if isinstance(sentences, (bytes, bytearray, memoryview)):
        raise TextTypeError(f"{_WANTED}; got {describe(sentences)}: decode it first.")
    if isinstance(sentences, (Mapping, AbstractSet)):
        raise TextTypeError(
            f"{_WANTED}; got {describe(sentences)}: pass list(...) of what you mean, since its order is not that "
            "of rows."
        )
    if getattr(sentences, "ndim", 1) != 1:
        raise TextTypeError(
            f"{_WANTED}; got {type(sentences).__name__} of shape {sentences.shape}: pass one column, or a 1-D array."
        )
    if hasattr(sentences, "to_pylist"):  # Arrow's arrays and the like, whose items are no strings
        arrow = type(sentences).__module__.startswith("pyarrow")
        return _arrow_items(sentences) if arrow else list(sentences.to_pylist())
    if hasattr(sentences, "__iter__"):
        items: Iterable[Any] = sentences
        return items
    if hasattr(sentences, "__getitem__") and hasattr(sentences, "__len__"):
        return (sentences[i] for i in range(len(sentences)))
    raise TextTypeError(f"{_WANTED}; got {describe(sentences)}.")


def _arrow_items(column: Any) -> Iterator[Any]:
    """Items by parts: a column may be mapped from a file larger than memory."""
    for start in range(0, len(column), _PART):
        yield from column.slice(start, _PART).to_pylist()


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
    if isinstance(sentences, np.ndarray) and sentences.ndim == 0:
        sentences = sentences.item()
    single = isinstance(sentences, str)
    items = [sentences] if single else items_of(sentences)
    return [_checked(position, item) for position, item in enumerate(items, first_position)], single


def _checked(position: int, item: object) -> str:
    """A string itself, never of a subclass: those may compare, and be printed, in ways of their own."""
    if not isinstance(item, str):
        raise TextTypeError(f"item {position}: {describe(item)}, expected str. Remove or convert it before encoding.")
    text = item if type(item) is str else str.__str__(item)
    if not text.isascii():
        _check_unicode(position, text)
    return text


def _check_unicode(position: int, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextValueError(
            f"item {position}: lone surrogate {text[error.start]!r} at character {error.start} has no UTF-8 "
            "form. Decode the source with the right encoding, or with errors='replace'."
        ) from error
