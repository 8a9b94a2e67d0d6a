"""Two files of records side by side: what became slower, and by more than its own spread."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from job import Row
from measure import median
from names import name_of
from records import Records
from rich.table import Table

from ditto_fast.cli.console import stderr, stdout

Key = tuple[str, str, str, str]

SLOWER, FASTER, WITHIN, ONE_SAMPLE, FAILED = "slower", "faster", "within the spread", "one sample", "no longer measured"


@dataclass(frozen=True)
class Compared:
    """One row of both files.

    Args:
        key: Model, suite, case, contender.
        ratio: Time after over time before, None where it has none after.
        verdict: SLOWER or FASTER where all samples of one lie above all of the other.
    """

    key: Key
    ratio: float | None
    verdict: str

    @property
    def regression(self) -> bool:
        """Whether it is worse, and not by noise."""
        return self.verdict in (SLOWER, FAILED)


def comparison(before: Path, after: Path) -> list[Compared]:
    """What the newest runs of both files hold; who was timed before and then failed counts too."""
    old, new = _rows(before), _rows(after)
    return [_compared(key, row["seconds"], new[key]) for key, row in old.items() if row.get("seconds") and key in new]


def _rows(path: Path) -> dict[Key, Row]:
    return {(row["model"], row["suite"], row["case"], row["contender"]): row for row in Records.read(path).rows}


def _compared(key: Key, old: list[float], row: Row) -> Compared:
    new = row.get("seconds")
    if not new:
        return Compared(key, None, FAILED)
    if min(len(old), len(new)) == 1:
        verdict = ONE_SAMPLE
    elif min(new) > max(old):
        verdict = SLOWER
    else:
        verdict = FASTER if max(new) < min(old) else WITHIN
    return Compared(key, median(new) / median(old), verdict)


def print_comparison(before: Path, after: Path) -> int:
    """Prints the table of `comparison` and returns how many regressions it has."""
    rows = comparison(before, after)
    table = Table(title=f"{after.name} against {before.name}: time, 1.00x is the same")
    for column in ("model", "suite", "case", "contender", "time", ""):
        table.add_column(column)
    for row in rows:
        *where, contender = row.key
        time = "" if row.ratio is None else f"{row.ratio:.2f}x"
        table.add_row(*where, name_of(contender), time, row.verdict, style="bold" if row.regression else None)
    stdout.print(table)
    machines = [{(row["cpu"], row["threads"]) for row in _rows(path).values()} for path in (before, after)]
    if machines[0] != machines[1]:
        stderr.print(f"Not the same machine or threads: {machines[0]} and {machines[1]}.", highlight=False)
    count = sum(row.regression for row in rows)
    stdout.print(f"{count} of {len(rows)} became slower by more than the spread, or failed.", highlight=False)
    return count
