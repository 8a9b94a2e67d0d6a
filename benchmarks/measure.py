"""Interleaved timing, and the figures that need a process of their own."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_COLD = "from ditto_fast import FastEncoder; FastEncoder({path!r}).encode('One sentence.')"
_IMPORT = "import time; t = time.perf_counter(); import ditto_fast; print(time.perf_counter() - t)"


def interleaved(functions: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each function in each round; A B C A B C, so that a noisy machine hits all alike."""
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            samples[name].append(time.perf_counter() - started)
    return samples


def import_seconds(repeats: int) -> list[float]:
    """Seconds that `import ditto_fast` takes in a fresh process."""
    command = [sys.executable, "-c", _IMPORT]
    return [float(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(repeats)]


def cold_seconds(export: Path, repeats: int) -> list[float]:
    """Seconds from the start of a process to the end of one that encodes one sentence."""
    command = [sys.executable, "-c", _COLD.format(path=str(export))]
    functions = {"cold": lambda: subprocess.run(command, check=True, capture_output=True)}
    return interleaved(functions, repeats)["cold"]


def median(samples: list[float]) -> float:
    """The middle sample."""
    return statistics.median(samples)
