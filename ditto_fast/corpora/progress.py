"""Rows, rates and the time left, on stderr."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from tqdm import tqdm

_FORMAT = "{percentage:3.0f}%|{bar}| {desc}[{elapsed}<{remaining}]"
_WITHOUT_SIZE = "{desc}[{elapsed}]"


class Progress:
    """Counts rows and tokens, and shows them.

    Args:
        size: Bytes of the input, None where it is not known: then no time left is shown.
        show: Whether to show anything.
    """

    def __init__(self, size: int | None, show: bool) -> None:
        self.rows = self.tokens = 0
        self.started = time.monotonic()
        self._size = size
        self._skipped = 0
        self._texts = 0  # of blocks under way
        self._bytes_per_row = 0.0
        self._lock = threading.Lock()
        self._bar = tqdm(
            total=size,
            disable=not show,
            file=sys.stderr,
            miniters=0,
            mininterval=0.5,
            bar_format=_FORMAT if size else _WITHOUT_SIZE,
        )

    def read(self, rows: int, position: int) -> None:
        """So many rows and bytes have been read; both count from the input's start."""
        self._bytes_per_row = position / max(rows, 1)

    def skip(self, rows: int) -> None:
        """Rows of a finished shard are neither counted nor part of a rate."""
        self._skipped += rows
        self.started = time.monotonic()
        self._bar.initial = self._position(0)

    def texts(self, texts: int, tokens: int) -> None:
        """Some texts of a block are embedded."""
        with self._lock:
            self.tokens += tokens
            self._texts += texts
            self._show()

    def block(self, rows: int) -> None:
        """A block is written."""
        with self._lock:
            self.rows += rows
            self._texts = 0
            self._show()

    @property
    def seconds(self) -> float:
        """Since the first row that is counted."""
        return max(time.monotonic() - self.started, 1e-9)

    def _position(self, rows: int) -> int:
        position = int((self._skipped + rows) * self._bytes_per_row)
        return position if self._size is None else min(position, self._size)

    def _show(self) -> None:
        rows, seconds = self.rows + self._texts, self.seconds
        rates = f"{rows / seconds:,.0f} rows/s, {self.tokens / seconds:,.0f} tokens/s"
        self._bar.set_description_str(f"{rows:,} rows, {rates} ", refresh=False)
        self._bar.update(self._position(rows) - self._bar.n)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bar.close()
