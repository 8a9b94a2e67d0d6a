"""A suite's rows as a table on the terminal: medians, and ratios to the first contender of each case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contenders import floor_of
from job import Row
from measure import median, ratios
from names import name_of
from rich.table import Table

from ditto_fast.cli.console import stdout

_SHOWN = (
    ("p50_ms", "p50 {:.2f} ms"),
    ("p95_ms", "p95 {:.2f} ms"),
    ("extra_mb", "{:.0f} MB over the loaded model"),
    ("peak_mb", "peak {:.0f} MB"),
    ("end_mb", "end {:.0f} MB"),
    ("spearman_dev", "STS-B dev {:.2f}"),
    ("spearman_test", "STS-B test {:.2f}"),
    ("cosine_alone", "cosine alone and in a batch {:.5f}"),
    ("gb_per_second", "{:.0f} GB/s"),
    ("tflops", "{:.1f} TFLOP/s"),
    ("of_floor", "{:.0%} of the floor"),
)
_OPERATORS = 5  # of a profile


def print_suite(name: str, rows: Sequence[Row], common: dict[str, Any]) -> None:
    """Prints one suite; a contender that failed or is not installed has a line too."""
    table = Table(title=f"suite {name}: {common['model']}, head {common['head']}, {common['threads']} threads")
    for column in ("case", "contender"):
        table.add_column(column, no_wrap=True)
    for column in ("seconds", "against the first", "of the floor"):
        table.add_column(column, justify="right")
    table.add_column("")
    for row in rows:
        table.add_row(row["case"], name_of(row["contender"]), *_timings(row, rows), _words(row))
    stdout.print(table)


def _timings(row: Row, rows: Sequence[Row]) -> tuple[str, str, str]:
    if not row.get("seconds"):
        return "", "", ""
    peers = [other for other in rows if other["case"] == row["case"] and other.get("seconds")]
    floors = [other["seconds"] for other in peers if other["contender"] == floor_of(row["contender"])]
    of_floor = _ratio(floors[0], row["seconds"], "{:.0%}") if floors else ""
    return f"{median(row['seconds']):.4f}", _ratio(peers[0]["seconds"], row["seconds"], "{:.2f}x"), of_floor


def _ratio(slow: Sequence[float], fast: Sequence[float], form: str) -> str:
    """The median ratio, nothing where the two did not do the same rounds."""
    return form.format(ratios(slow, fast)[0]) if len(slow) == len(fast) else ""


def _words(row: Row) -> str:
    said = [row[key] for key in ("error", "missing") if key in row]
    if row.get("seconds") and "sentences" in row:
        said.append(f"{row['sentences'] / median(row['seconds']):.0f} sentences/s")
    if row.get("seconds") and "tokens" in row:
        said.append(f"{row['tokens'] / median(row['seconds']):.0f} tokens/s")
    said += [form.format(row[key]) for key, form in _SHOWN if key in row]
    largest = sorted(row.get("shares", {}).items(), key=lambda item: -item[1])[:_OPERATORS]
    said += [f"{name} {share:.0%}" for name, share in largest]
    return ", ".join(said)
