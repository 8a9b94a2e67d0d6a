"""Checks of arguments, each with one message: what is wanted, what came, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from ditto_fast.errors import OptionError


def positive_int(name: str, value: object, maximum: int | None = None, why: str = "") -> int:
    """Returns `value` if it is an int from 1 to `maximum`.

    Raises:
        OptionError: It is not.

    Example:
        >>> positive_int("batch_size", 32)
        32
    """
    valid = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not valid or (maximum is not None and int(str(value)) > maximum):
        limits = "at least 1" if maximum is None else f"from 1 to {maximum}{f' ({why})' if why else ''}"
        raise OptionError(f"{name} must be an integer {limits}; got {value!r}.")
    return int(str(value))


def one_of(name: str, value: str, choices: Iterable[str]) -> str:
    """Returns `value` if it is one of `choices`.

    Raises:
        OptionError: It is not; the message lists them and the nearest.

    Example:
        >>> one_of("pooling", "cls", ["cls", "mean-last"])
        'cls'
    """
    names = list(choices)
    if value not in names:
        near = get_close_matches(str(value), names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise OptionError(f"{name} must be one of {', '.join(names)}; got {value!r}.{hint}")
    return value
