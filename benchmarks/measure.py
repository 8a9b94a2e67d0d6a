"""Interleaved timing, and the figures that need a process of their own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_PAUSE = 0.05  # seconds
_INSIDE = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"


def interleaved(
    functions: Mapping[str, Callable[[], object]], rounds: int, errors: dict[str, Exception] | None = None
) -> dict[str, list[float]]:
    """Seconds of each function in each round; A B C A B C, so that a noisy machine hits all alike.

    A pause before each lets the threads of the one before, which spin for a while, go to sleep.

    Args:
        functions: What to time, by name.
        rounds: Calls of each.
        errors: Gets what a function raises; that function runs no more and has no samples. Without it all end there.
    """
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name in list(samples):
            time.sleep(_PAUSE)
            started = time.perf_counter()
            try:
                functions[name]()
            except Exception as error:  # of any library
                if errors is None:
                    raise
                errors[name] = error
                del samples[name]
            else:
                samples[name].append(time.perf_counter() - started)
    return samples


def fresh_process_seconds(
    statements: Mapping[str, str], rounds: int, inside: bool, errors: dict[str, Exception] | None = None
) -> dict[str, list[float]]:
    """Seconds of Python statements, each time in a new process, interleaved.

    Args:
        statements: What to run, by name.
        rounds: Processes of each.
        inside: Time the statement alone; else the process from its start to its end.
        errors: As in `interleaved`.
    """
    codes = {name: _INSIDE.format(code) if inside else code for name, code in statements.items()}
    commands = {name: [sys.executable, "-c", code] for name, code in codes.items()}
    printed: dict[str, list[float]] = {name: [] for name in commands}

    def process(name: str) -> Callable[[], None]:
        def start() -> None:
            out = _stdout(commands[name], "A new process")
            printed[name] += [float(out)] if inside else []

        return start

    samples = interleaved({name: process(name) for name in commands}, rounds, errors)
    return {name: printed[name] for name in samples} if inside else samples


def printed(code: str, timeout: float = 600) -> Any:
    """The JSON value that Python statements print on their last line, in a new process.

    Raises:
        RuntimeError: As `in_process`.
    """
    return json.loads(_stdout([sys.executable, "-c", code], "A new process", timeout).splitlines()[-1])


def in_process(script: Path, arguments: Sequence[str], timeout: float = 1800) -> dict[str, Any]:
    """The JSON object that a script prints on its last line.

    Raises:
        RuntimeError: It failed; the message ends with what it wrote on stderr.
    """
    out = _stdout([sys.executable, str(script), *arguments], script.name, timeout)
    return dict(json.loads(out.splitlines()[-1]))


def _stdout(command: Sequence[str], name: str, timeout: float | None = None) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if result.returncode:
        raise RuntimeError(f"{name} exited with {result.returncode}: {result.stderr.strip()[-400:]}")
    return result.stdout


def median(samples: Sequence[float]) -> float:
    """The middle sample."""
    return statistics.median(samples)


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least `percent` of 100 samples do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, -int(-len(ordered) * percent // 100) - 1)]


def ratios(slow: Sequence[float], fast: Sequence[float]) -> tuple[float, float, float]:
    """Median, least and largest of slow/fast, round by round: a noisy round hits both."""
    each = sorted(a / b for a, b in zip(slow, fast, strict=True))
    return median(each), each[0], each[-1]
