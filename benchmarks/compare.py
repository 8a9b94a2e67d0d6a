"""Two files of records side by side: what became slower, and by more than its own spread."""

from __future__ import annotations

from pathlib import Path

from measure import median
from names import name_of
from records import Records
from rich.table import Table

from ditto_fast.cli.console import stdout

Key = tuple[str, str, str, str]


def comparison(before: Path, after: Path) -> list[tuple[Key, float, bool]]:
    """Rows of the newest runs in both files: (model, suite, case, contender), after/before, whether spreads part.

    The last is true where all samples of one lie above all samples of the other.
    """
    old, new = _seconds(before), _seconds(after)
    return [
        (key, median(new[key]) / median(old[key]), min(new[key]) > max(old[key]) or max(new[key]) < min(old[key]))
        for key in old
        if key in new
    ]


def _seconds(path: Path) -> dict[Key, list[float]]:
    rows = [row for row in Records.read(path).rows if row.get("seconds")]
    return {(row["model"], row["suite"], row["case"], row["contender"]): row["seconds"] for row in rows}


def print_comparison(before: Path, after: Path) -> None:
    """Prints the table of `comparison`."""
    table = Table(title=f"{after.name} against {before.name}: time, 1.00x is the same")
    for column in ("model", "suite", "case", "contender", "time", ""):
        table.add_column(column)
    for (model, suite, case, contender), ratio, apart in comparison(before, after):
        verdict = ("slower" if ratio > 1 else "faster") if apart else "within the spread"
        table.add_row(model, suite, case, name_of(contender), f"{ratio:.2f}x", verdict)
    stdout.print(table)
