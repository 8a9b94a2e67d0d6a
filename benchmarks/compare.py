"""Two files of records side by side: what became slower by more than its spread, takes more memory, or has no row.

A machine is not equally fast at all hours. Where both files have the authors' path in a row's case, or else the floor,
the row's times are held against it, round by round. The floor is second: its batches and its session are ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from contenders import BASELINE, floor_of, meets
from gemm_floor import FLOORS
from job import Row
from measure import median, percentile
from names import name_of
from records import Records
from rich.table import Table

from ditto_fast.cli.console import stderr, stdout
from ditto_fast.errors import DataError

Key = tuple[str, str, str, str]

SLOWER, FASTER, WITHIN, ONE_SAMPLE = "slower", "faster", "within the spread", "one sample"
MORE, LESS, AS_MUCH = "more memory", "less memory", "about as much memory"
MACHINE = "the machine's"
FAILED, ANOTHER, NOT_ASKED = "no longer measured", "another workload", "not asked for now"
_TIMED = (SLOWER, FASTER, WITHIN)
MEMORY_MARGIN = 1.2  # times: peaks of two runs of the same code lie closer
_SECONDS, _PEAK = "seconds", "peak_mb"
_OF_A_RUN = ("head", "source", "quick")
_WORKLOAD = (*_OF_A_RUN, "sentences", "tokens", "heads", "pairs")


@dataclass(frozen=True)
class Compared:
    """One row that the first file has a time or a peak of, and whose suite the second has run.

    Args:
        key: Model, suite, case, contender.
        ratio: After over before, None where there is nothing after, or something of another workload.
        verdict: SLOWER or FASTER where the middle halves of the samples lie apart, which of up to three are all;
            MACHINE where those of the authors' path do, or of a floor that nothing is to be held against;
            MORE or LESS where the peaks differ by more than MEMORY_MARGIN.
        against: What its times were held against in each file, the key of a contender; nothing by default.
        relative: The ratio of the times held against that.
    """

    key: Key
    ratio: float | None
    verdict: str
    against: str = ""
    relative: float | None = None

    @property
    def regression(self) -> bool:
        """Whether it is worse, and not by noise."""
        return self.verdict in (SLOWER, MORE, FAILED)


def comparison(before: Records, after: Records) -> list[Compared]:
    """What was measured before, in suites that ran after; who then failed, or has no row at all, is there too."""
    new = {_key(row): row for row in after.rows}
    ran = {_suite(row): row for row in after.rows}
    measured = [row for row in before.rows if _samples(row, _kind(row)) and _suite(row) in ran]
    compared = [_compared(row, new.get(_key(row)), ran[_suite(row)]) for row in measured]
    return [_of_the_code(each, before, after) if each.verdict in _TIMED else each for each in compared]


def _of_the_code(compared: Compared, before: Records, after: Records) -> Compared:
    """The same with the machine's part taken off, where the files tell it."""
    model, suite, case, contender = compared.key
    for reference in () if contender == BASELINE else (BASELINE, floor_of(contender)):
        old, new = (_against(records, model, suite, case, contender, reference) for records in (before, after))
        if reference != contender and old and new:
            relative = median(new) / median(old)
            return replace(compared, verdict=_verdict(old, new), against=reference, relative=relative)
    machine = contender in (BASELINE, *FLOORS.values()) and compared.verdict != WITHIN
    return replace(compared, verdict=MACHINE) if machine else compared


def _against(records: Records, model: str, suite: str, case: str, contender: str, reference: str) -> list[float]:
    """Times of a contender over those of the reference, none where they did not do the same rounds."""
    rows = [records.row(suite, case, key, model) or {} for key in (contender, reference)]
    own, others = (_samples(row, _SECONDS) for row in rows)
    return [a / b for a, b in zip(own, others, strict=True)] if len(own) == len(others) else []


def _key(row: Row) -> Key:
    return row["model"], row["suite"], row["case"], row["contender"]


def _suite(row: Row) -> tuple[str, str]:
    return row["model"], row["suite"]


def _kind(row: Row) -> str:
    """Which of its figures is compared: its peak where it has one and no spread of times."""
    return _PEAK if _PEAK in row and len(_samples(row, _SECONDS)) < 2 else _SECONDS


def _samples(row: Row, kind: str) -> list[float]:
    """Its samples, a peak being the only one; none where one is not finite."""
    found = row.get(kind, [])
    samples = found if isinstance(found, list) else [found]
    return samples if all(0 < sample < inf for sample in samples) else []


def _compared(old: Row, new: Row | None, run: Row) -> Compared:
    """Compares a row with the one after, where there is one; any row of that run says what was run."""
    if not _same_workload(old, new or {name: run[name] for name in _OF_A_RUN if name in run}):
        return Compared(_key(old), None, ANOTHER)
    if new is None and not meets(old["contender"], run.get("peers"), run.get("quick", False)):
        return Compared(_key(old), None, NOT_ASKED)
    kind = _kind(old)
    samples = _samples(old, kind), _samples(new or {}, kind)
    if not samples[1]:
        return Compared(_key(old), None, FAILED)
    ratio = median(samples[1]) / median(samples[0])
    return Compared(_key(old), ratio, _verdict(*samples) if kind == _SECONDS else _memory_verdict(ratio))


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


def _memory_verdict(ratio: float) -> str:
    if ratio > MEMORY_MARGIN:
        return MORE
    return LESS if ratio * MEMORY_MARGIN < 1 else AS_MUCH


def print_comparison(before: Path, after: Path) -> int:
    """Prints the table of `comparison` and returns how many regressions it has.

    Raises:
        DataError: There is nothing to compare.
    """
    old, new = Records.read(before), Records.read(after)
    rows = comparison(old, new)
    table = Table(title=f"{after.name} against {before.name}: time or peak memory, 1.00x is the same")
    for column in ("model", "suite", "case", "contender", "ratio", "against", "ratio of that", ""):
        table.add_column(column)
    for row in rows:
        *where, contender = row.key
        ratios = ["" if ratio is None else f"{ratio:.2f}x" for ratio in (row.ratio, row.relative)]
        cells = [name_of(contender), ratios[0], row.against and name_of(row.against), ratios[1], row.verdict]
        table.add_row(*where, *cells, style="bold" if row.regression else None)
    stdout.print(table)
    _print_differences(old.rows, new.rows)
    compared = [row for row in rows if row.verdict not in (ANOTHER, NOT_ASKED)]
    if not compared:
        raise DataError(
            f"Nothing to compare: no figure in {before.name} is of a suite, workload and contender of {after.name}."
        )
    count = sum(row.regression for row in compared)
    stdout.print(
        f"{count} of {len(compared)} became slower by more than the spread, took more memory, or failed.",
        highlight=False,
    )
    return count


def _print_differences(before: Iterable[Row], after: Iterable[Row]) -> None:
    """Says on stderr which suites only one file has, and whether the machines or threads are others."""
    suites = [{f"{suite} ({model})" for model, suite in map(_suite, rows)} for rows in (before, after)]
    if alone := sorted(suites[0] ^ suites[1]):
        stderr.print(f"Only in one of the files: {', '.join(alone)}.", highlight=False)
    machines = [{(row["cpu"], row["threads"]) for row in rows} for rows in (before, after)]
    if machines[0] != machines[1]:
        stderr.print(f"Not the same machine or threads: {machines[0]} and {machines[1]}.", highlight=False)
