"""Two files of records side by side: what became slower, and by more than its own spread, or is not measured now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from pathlib import Path

from job import Row
from measure import median, percentile
from names import name_of
from records import Records
from rich.table import Table

from ditto_fast.cli.console import stderr, stdout
from ditto_fast.errors import DataError

Key = tuple[str, str, str, str]

SLOWER, FASTER, WITHIN, ONE_SAMPLE = "slower", "faster", "within the spread", "one sample"
FAILED, ANOTHER = "no longer measured", "another workload"
_OF_A_RUN = ("head", "source", "quick")
_WORKLOAD = (*_OF_A_RUN, "sentences", "tokens", "heads", "pairs")


@dataclass(frozen=True)
class Compared:
    """One row that the first file has a time of, and whose suite the second has run.

    Args:
        key: Model, suite, case, contender.
        ratio: Time after over time before, None where there is none after, or one of another workload.
        verdict: SLOWER or FASTER where the middle halves of the samples lie apart, which of up to three are all.
    """

    key: Key
    ratio: float | None
    verdict: str

    @property
    def regression(self) -> bool:
        """Whether it is worse, and not by noise."""
        return self.verdict in (SLOWER, FAILED)


def comparison(before: Records, after: Records) -> list[Compared]:
    """What was timed before, in suites that ran after; who then failed, or has no row at all, is there too."""
    new = {_key(row): row for row in after.rows}
    ran = {_suite(row): {name: row[name] for name in _OF_A_RUN if name in row} for row in after.rows}
    timed = [row for row in before.rows if _timed(row) and _suite(row) in ran]
    return [_compared(row, new.get(_key(row), ran[_suite(row)])) for row in timed]


def _key(row: Row) -> Key:
    return row["model"], row["suite"], row["case"], row["contender"]


def _suite(row: Row) -> tuple[str, str]:
    return row["model"], row["suite"]


def _timed(row: Row) -> bool:
    return bool(row.get("seconds")) and all(0 < seconds < inf for seconds in row["seconds"])


def _compared(old: Row, new: Row) -> Compared:
    if not _same_workload(old, new):
        return Compared(_key(old), None, ANOTHER)
    if not _timed(new):
        return Compared(_key(old), None, FAILED)
    verdict = _verdict(old["seconds"], new["seconds"])
    return Compared(_key(old), median(new["seconds"]) / median(old["seconds"]), verdict)


def _same_workload(old: Row, new: Row) -> bool:
    """Whether they agree in all that both say of it; a row that failed says less, and an old one nothing of quick."""
    rows = [{"quick": False, **row} for row in (old, new)]
    return all(rows[0][name] == rows[1][name] for name in _WORKLOAD if name in rows[0] and name in rows[1])


def _verdict(old: list[float], new: list[float]) -> str:
    if min(len(old), len(new)) == 1:
        return ONE_SAMPLE
    if percentile(new, 25) > percentile(old, 75):
        return SLOWER
    return FASTER if percentile(new, 75) < percentile(old, 25) else WITHIN


def print_comparison(before: Path, after: Path) -> int:
    """Prints the table of `comparison` and returns how many regressions it has.

    Raises:
        DataError: There is nothing to compare.
    """
    old, new = Records.read(before), Records.read(after)
    rows = comparison(old, new)
    table = Table(title=f"{after.name} against {before.name}: time, 1.00x is the same")
    for column in ("model", "suite", "case", "contender", "time", ""):
        table.add_column(column)
    for row in rows:
        *where, contender = row.key
        time = "" if row.ratio is None else f"{row.ratio:.2f}x"
        table.add_row(*where, name_of(contender), time, row.verdict, style="bold" if row.regression else None)
    stdout.print(table)
    _print_differences(old.rows, new.rows)
    compared = [row for row in rows if row.verdict != ANOTHER]
    if not compared:
        raise DataError(f"Nothing to compare: no time in {before.name} is of a suite and workload of {after.name}.")
    count = sum(row.regression for row in compared)
    stdout.print(f"{count} of {len(compared)} became slower by more than the spread, or failed.", highlight=False)
    return count


def _print_differences(before: Iterable[Row], after: Iterable[Row]) -> None:
    """Says on stderr which suites only one file has, and whether the machines or threads are others."""
    suites = [{f"{suite} ({model})" for model, suite in map(_suite, rows)} for rows in (before, after)]
    if alone := sorted(suites[0] ^ suites[1]):
        stderr.print(f"Only in one of the files: {', '.join(alone)}.", highlight=False)
    machines = [{(row["cpu"], row["threads"]) for row in rows} for rows in (before, after)]
    if machines[0] != machines[1]:
        stderr.print(f"Not the same machine or threads: {machines[0]} and {machines[1]}.", highlight=False)
