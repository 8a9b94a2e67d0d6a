"""All threads inside one run, for a call of few texts: in a session of its own, opened by the second such call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ditto_fast.errors import ExportDirectoryError
from ditto_fast.forks import renew_after_fork
from ditto_fast.runner import GraphRunner

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


def goes_wide(texts: int, threads: int) -> bool:
    """Whether a call of so many texts has all threads inside each run, of which half at least would be idle else."""
    return texts <= max(1, threads // 2)


class WideRunner:
    """Runs a batch on all threads where no other call has them, else on one.

    The first call does not wait until the second session is there, since many programs make one call only.

    Args:
        narrow: The open graph, one thread a run.
        open_wide: Opens it with all threads inside a run.
    """

    def __init__(self, narrow: GraphRunner, open_wide: Callable[[], GraphRunner]) -> None:
        self._narrow = narrow
        self._open_wide = open_wide
        self._asked = False
        self.wide: GraphRunner | None = None
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """In a forked child the lock may be another thread's of the parent."""
        self.lock = Lock()

    def embed(self, token_ids: Sequence[IntArray]) -> FloatArray:
        """Embeddings (B, H) of texts given as token ids, one array (T,) each."""
        if not self.lock.acquire(blocking=False):
            return self._narrow.embed(token_ids)
        try:
            if self.wide is None and self._asked:
                self.wide = self._opened()
            self._asked = True
            return (self.wide or self._narrow).embed(token_ids)
        finally:
            self.lock.release()

    def _opened(self) -> GraphRunner:
        try:
            return self._open_wide()
        except (ExportDirectoryError, OSError):  # moved, deleted or unreadable since: the open session still serves
            return self._narrow
