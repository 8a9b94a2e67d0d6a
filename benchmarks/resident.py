"""Resident memory of this process, sampled while something runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

_INTERVAL = 0.002  # seconds


def resident_mb() -> float:
    """Megabytes (10^6) of this process in memory now."""
    return float(psutil.Process().memory_info().rss) / 1e6


@contextmanager
def sampled() -> Iterator[list[tuple[float, float]]]:
    """Yields a list that grows by (seconds since the start, megabytes) until the end of the block."""
    samples = [(0.0, resident_mb())]
    started, ended = time.perf_counter(), threading.Event()

    def watch() -> None:
        while not ended.wait(_INTERVAL):
            samples.append((time.perf_counter() - started, resident_mb()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield samples
    finally:
        ended.set()
        watcher.join()
        samples.append((time.perf_counter() - started, resident_mb()))


def thinned(samples: list[tuple[float, float]], count: int) -> list[tuple[float, float]]:
    """At most `count` stretches of samples, of each the largest."""
    size = max(1, -(-len(samples) // count))
    stretches = [samples[start : start + size] for start in range(0, len(samples), size)]
    return [(round(part[0][0], 2), round(max(mb for _, mb in part), 1)) for part in stretches]
