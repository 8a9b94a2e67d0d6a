"""Records read back: the newest run of each suite and model, and ratios between its rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from job import Row
from measure import ratios

from ditto_fast.errors import DataError
from ditto_fast.texts import describe

MINILM = "all-MiniLM-L6-v2"
CRASHED = "suite"  # the case of the one row of a suite that an error ended
# what pages and comparisons take for granted of a row
_OF_EVERY = "model suite case contender started head cpu cpus threads load versions commit dirty".split()


@dataclass(frozen=True)
class Records:
    """Rows of the newest runs.

    Args:
        rows: In the order recorded.
    """

    rows: tuple[Row, ...]

    @classmethod
    def read(cls, *paths: Path) -> Records:
        """The newest run of each suite and model in .jsonl files.

        Raises:
            DataError: A line is no record; the message names it.
        """
        rows = [row for path in paths for row in _rows(path)]
        newest: dict[tuple[str, str], str] = {}
        for row in rows:
            key = (row["suite"], row["model"])
            newest[key] = max(newest.get(key, ""), row["started"])
        return cls(tuple(row for row in rows if row["started"] == newest[row["suite"], row["model"]]))

    def suite(self, suite: str, model: str = MINILM) -> list[Row]:
        """The rows of one suite, without the one that says that it crashed."""
        rows = [row for row in self.rows if (row["suite"], row["model"]) == (suite, model)]
        return [row for row in rows if row["case"] != CRASHED]

    def measured(self, suite: str, model: str = MINILM) -> list[Row]:
        """The rows of one suite that have figures."""
        return [row for row in self.suite(suite, model) if not {"error", "missing"} & set(row)]

    def timed(self, suite: str, model: str = MINILM) -> list[Row]:
        """Those of its rows that have times."""
        return [row for row in self.suite(suite, model) if row.get("seconds")]

    def row(self, suite: str, case: str, contender: str, model: str = MINILM) -> Row | None:
        """One row that was measured, None where there is none."""
        rows = self.measured(suite, model)
        return next((row for row in rows if (row["case"], row["contender"]) == (case, contender)), None)

    def ratio(
        self, suite: str, case: str, slow: str, fast: str, model: str = MINILM
    ) -> tuple[float, float, float] | None:
        """Median, least and largest of slow/fast over the rounds, None where they did not both do the same rounds."""
        rows = [self.row(suite, case, contender, model) or {} for contender in (slow, fast)]
        samples = [row.get("seconds", []) for row in rows]
        if not samples[0] or len(samples[0]) != len(samples[1]):
            return None
        return ratios(*samples)


def _rows(path: Path) -> Iterator[Row]:
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = _row(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path}, line {number}: {error}. A line is one record, a JSON object as benchmarks/run.py writes it: "
                "remove this one, and run its suite again."
            ) from error
        yield row


def _row(line: bytes) -> Row:
    """The row of a line.

    Raises:
        ValueError: It has none; the message says what there is instead.
    """
    try:
        row = json.loads(line.decode("utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON ({error.msg}, character {error.pos})") from error
    if not isinstance(row, dict):
        raise ValueError(f"{describe(row)}, no JSON object")
    if absent := [name for name in _OF_EVERY if name not in row]:
        raise ValueError(f"it has no {', '.join(absent)}")
    return row


def spread(ratio: tuple[float, float, float] | None, form: str = "{:.2f}x") -> str:
    """A ratio with its range, as tables have it."""
    if ratio is None:
        return ""
    middle, least, largest = (form.format(value) for value in ratio)
    return f"{middle} ({least} to {largest})"
