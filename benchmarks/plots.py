"""The plots of docs/benchmarks.md, SVG with text as text, each with the digest of what it shows."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import suite_cpu
import suite_length
import suite_memory
import suite_scale
from contenders import BY_KEY, floor_of
from gemm_floor import FLOORS
from measure import median
from names import name_of
from records import Records

_SIZE = 8  # texts of a call
THROUGHPUT = "throughput.svg"
PLOTS = {
    THROUGHPUT: "Sentences a second by contender",
    "floor.svg": "Fraction of the floor by contender",
    "length.svg": f"Tokens a second by length of the texts, {_SIZE} a call",
    "memory.svg": "Memory over the loaded model by length of the texts",
    "scale.svg": "Seconds by number of sentences",
}
Lines = dict[str, list[tuple[float, float]]]


def bars(records: Records, file: str) -> dict[str, float]:
    """Values by contender of the plots that have bars."""
    rows = records.timed("cpu")
    if file == THROUGHPUT:
        return {name_of(row["contender"]): row["sentences"] / median(row["seconds"]) for row in rows}
    keys = [row["contender"] for row in rows]
    fractions = {key: records.ratio("cpu", suite_cpu.CASE, floor_of(key), key) for key in keys}
    return {name_of(key): fraction[0] for key, fraction in fractions.items() if fraction}


def lines(records: Records, file: str) -> Lines:
    """Points by contender of the plots that have lines."""
    found: Lines = {}

    def add(suite: str, case: str, key: str, x: float, figure: str) -> None:
        row = records.row(suite, case, key)
        if row is not None:
            value = row["extra_mb"] if figure == "extra_mb" else median(row["seconds"])
            found.setdefault(name_of(key), []).append((x, row["tokens"] / value if figure == "rate" else value))

    for key in (*BY_KEY, *FLOORS.values()):
        if file == "length.svg":
            for tokens in suite_length.LENGTHS:
                add("length", suite_length.case_of(tokens, _SIZE), key, tokens, "rate")
        elif file == "memory.svg":
            for tokens in suite_memory.LENGTHS:
                add("memory", suite_memory.case_of(tokens), key, tokens, "extra_mb")
        else:
            counts = sorted({row["sentences"] for row in records.suite("scale") if "sentences" in row})
            for count in counts:
                add("scale", suite_scale.case_of(count), key, count, "seconds")
    return found


def values(records: Records, file: str) -> dict[str, float] | Lines:
    """What a plot shows."""
    return bars(records, file) if file in (THROUGHPUT, "floor.svg") else lines(records, file)


def drawn(records: Records) -> dict[str, str]:
    """The plots that there are records for, and their titles."""
    return {file: title for file, title in PLOTS.items() if values(records, file)}


def digest(records: Records, file: str) -> str:
    """A short hash of what a plot shows."""
    return hashlib.sha256(json.dumps(values(records, file), sort_keys=True).encode()).hexdigest()[:16]


def write_plots(records: Records, folder: Path) -> None:
    """Writes the plots that there are records for."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ditto_fast", "font.size": 9})
    folder.mkdir(parents=True, exist_ok=True)
    for file, title in drawn(records).items():
        figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
        axes.set_title(title)
        if file in (THROUGHPUT, "floor.svg"):
            _draw_bars(axes, bars(records, file), "{:.0f}" if file == THROUGHPUT else "{:.0%}")
        else:
            _draw_lines(axes, lines(records, file), "sentences" if file == "scale.svg" else "tokens of a text")
        figure.savefig(folder / file, metadata={"Date": None, "Description": digest(records, file)})
        pyplot.close(figure)


def _draw_bars(axes: Any, shown: dict[str, float], form: str) -> None:
    names = list(shown)[::-1]
    drawn = axes.barh(names, [shown[name] for name in names])
    axes.bar_label(drawn, [form.format(shown[name]) for name in names], padding=3)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_lines(axes: Any, shown: Lines, label: str) -> None:
    for name, points in shown.items():
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    axes.set_xscale("log", base=2 if label != "sentences" else 10)
    axes.set_xticks(sorted({x for points in shown.values() for x, _ in points}), minor=False)
    axes.get_xaxis().set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel(label)
    axes.legend(fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)
