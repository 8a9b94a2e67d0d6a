"""Tables of docs/benchmarks.md that need to know nothing of a suite: times, a GPU's rates, and who has no figures."""

from __future__ import annotations

from collections.abc import Iterable

from contenders import floor_of
from job import Row
from measure import median
from names import name_of
from records import Records, spread

_RATES = (("gb_per_second", "{:.0f}"), ("tflops", "{:.1f}"), ("of_floor", "{:.0%}"))


def table(header: Iterable[str], rows: Iterable[Iterable[str]], text_columns: int = 1) -> str:
    """A Markdown table; all but the first columns are figures."""
    names = list(header)
    marks = ["---"] * text_columns + ["---:"] * (len(names) - text_columns)
    lines = [f"| {' | '.join(names)} |", f"|{'|'.join(marks)}|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def of_floor(records: Records, suite: str, case: str, key: str) -> str:
    """The fraction of its floor that a contender reaches, nothing where the case has none."""
    ratio = records.ratio(suite, case, floor_of(key), key)
    return f"{ratio[0]:.0%}" if ratio else ""


def times(records: Records, suite: str) -> str:
    """Sentences a second, ratios to the first row of each case, and fractions of the floor where the suite has one."""
    rows = []
    first: dict[str, str] = {}
    for row in records.timed(suite):
        case, key = row["case"], row["contender"]
        ratio = records.ratio(suite, case, first.setdefault(case, key), key)
        speed = f"{row['sentences'] / median(row['seconds']):.0f}" if "sentences" in row else ""
        fraction = of_floor(records, suite, case, key)
        rows.append([case, name_of(key), f"{median(row['seconds']):.2f}", speed, spread(ratio), fraction])
    header = ["case", "", "seconds", "sentences/s", "against the first of the case", "of its floor"]
    width = len(header) if any(row[-1] for row in rows) else len(header) - 1
    return table(header[:width], (row[:width] for row in rows), 2)


def on_gpu(records: Records, suite: str, floor: str) -> str:
    """Milliseconds and rates on a card, and the fraction of a floor that is told in words."""
    timed = records.timed(suite)
    rows = []
    for row in timed:
        rates = [form.format(row[name]) if name in row else "" for name, form in _RATES]
        rows.append([row["case"], name_of(row["contender"]), f"{1000 * median(row['seconds']):.3f}", *rates])
    card = next((f"{row['gpu']}. " for row in timed if "gpu" in row), "")
    return f"{card}{floor}\n\n{table(['case', '', 'ms', 'GB/s', 'TFLOP/s', 'of the floor'], rows, 2)}"


def not_measured(records: Records) -> str:
    """A line for each contender that has no figures, and why."""
    lines = [
        f"- {row['suite']}, {row['model']}, {row['case']}, {name_of(row['contender'])}: {reason(row)}"
        for row in records.rows
        if "missing" in row or "error" in row
    ]
    return "\n".join(lines) or "Nothing."


def reason(row: Row) -> str:
    """Why a row has no figures, in one line."""
    return str(row["missing"]) if "missing" in row else f"failed: {row['error'].splitlines()[0][:100]}"
