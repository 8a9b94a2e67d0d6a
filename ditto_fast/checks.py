"""Checks of arguments, each with one message: what is wanted, what came, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral

from ditto_fast.errors import OptionError


def integer(name: str, value: object, minimum: int = 1, maximum: int | None = None, why: str = "") -> int:
    """Returns `value` as an int if it is one from `minimum` to `maximum`, numpy's integers included.

    Raises:
        OptionError: It is not.

    Example:
        >>> integer("batch_size", 32)
        32
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or number < minimum or (maximum is not None and number > maximum):
        limits = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        limits += f" ({why})" if why else ""
        raise OptionError(f"{name} must be an integer {limits}; got {value!r}.")
    return number


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
