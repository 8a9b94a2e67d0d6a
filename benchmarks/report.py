"""The README's table, written from a recorded run: python benchmarks/report.py."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from contenders import BASELINE, CONTENDERS
from measure import median

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "results" / "cpu.jsonl"
START, END = "<!-- benchmark: python benchmarks/report.py -->", "<!-- end of benchmark -->"


def last_run(path: Path) -> list[dict[str, Any]]:
    """The rows of the newest run in a .jsonl file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["started"] == rows[-1]["started"]]


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table of one run, in Markdown."""
    seconds: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for row in rows:
        seconds[row["case"]][row["contender"]] = row["seconds"]
    first = rows[0]
    base = seconds["throughput"][BASELINE]
    lines = [
        "| contender | how | sentences/s | against the first row |",
        "|---|---|---:|---:|",
    ]
    for contender in CONTENDERS:
        own = seconds["throughput"][contender.name]
        ratios = sorted(a / b for a, b in zip(base, own, strict=True))
        lines.append(
            f"| {contender.name} | {contender.how} | {first['sentences'] / median(own):.0f} "
            f"| {median(ratios):.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f}) |"
        )
    startup = {case: median(seconds[case]["ditto_fast"]) for case in ("import", "cold")}
    versions = ", ".join(f"{name} {first['versions'][name]}" for name in ("onnxruntime", "torch", "transformers"))
    lines += [
        "",
        f"{first['model']}, head {first['head']}, fp32, {first['sentences']} sentences ({first['source']}), "
        f"{first['threads']} threads of {first['cpu']}; {versions}; median (and range) of {len(base)} interleaved "
        f"rounds; commit {first['commit'][:10]}. `import ditto_fast` {startup['import']:.2f} s; a cold process to its "
        f"first vector {startup['cold']:.2f} s.",
    ]
    return "\n".join(lines)


def updated(readme: str, table: str) -> str:
    """The README's text with the table between the markers."""
    before, rest = readme.split(START)
    return f"{before}{START}\n{table}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(updated(path.read_text(encoding="utf-8"), markdown(last_run(RECORDS))), encoding="utf-8")
