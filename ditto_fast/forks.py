"""What a forked process must not use of its parent's: locks that another thread held, sessions, worker processes."""

from __future__ import annotations

import os
from typing import Any, Protocol
from weakref import WeakSet

# What a child got from its parent and must neither use nor take apart: both can hang.
_inherited: list[Any] = []


class Renewable(Protocol):
    """What has a state of its process."""

    def renew(self) -> None:
        """Makes that state anew, in a child that has one thread yet."""


_renewables: WeakSet[Renewable] = WeakSet()


def renew_after_fork(what: Renewable) -> None:
    """Calls `renew` of it in every child that is forked from now on."""
    _renewables.add(what)


def leave_to_parent(*what: object) -> None:
    """Keeps objects of the parent from being taken apart in this child."""
    _inherited.extend(each for each in what if each is not None)


def _renew() -> None:
    for each in list(_renewables):
        each.renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew)
