"""README.md's table and docs/benchmarks.md with its plots, written from the records alone."""

from __future__ import annotations

from pathlib import Path

from pages import document, summary
from plots import write_plots
from records import Records

from ditto_fast.errors import DataError

ROOT = Path(__file__).resolve().parents[1]
START, END = "<!-- benchmark: python benchmarks/run.py --report -->", "<!-- end of benchmark -->"
README, DOCUMENT, FOLDER = ROOT / "README.md", ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "benchmarks"


def committed() -> Records:
    """The newest runs in benchmarks/results.

    Raises:
        DataError: One is a quick run, whose figures are not for publishing.
    """
    records = Records.read(*sorted((ROOT / "benchmarks" / "results").glob("*.jsonl")))
    if quick := sorted({row["suite"] for row in records.rows if row.get("quick")}):
        raise DataError(f"benchmarks/results has --quick runs of {', '.join(quick)}: run without, and remove these.")
    return records


def updated(readme: str, table: str) -> str:
    """The README's text with the table between the markers."""
    before, rest = readme.split(START)
    return f"{before}{START}\n{table}\n{END}{rest.split(END)[1]}"


def write_report() -> None:
    """Writes both files and the plots."""
    records = committed()
    README.write_text(updated(README.read_text(encoding="utf-8"), summary(records)), encoding="utf-8")
    DOCUMENT.write_text(document(records), encoding="utf-8")
    write_plots(records, FOLDER)
