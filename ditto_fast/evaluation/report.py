"""The evaluation's table: on screen, as Markdown, as LaTeX, as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from ditto_fast.evaluation.cited import Cited
from ditto_fast.evaluation.evaluate import Row
from ditto_fast.evaluation.protocol import SETTINGS, TaskScores, printed
from ditto_fast.evaluation.tasks import TASKS

Lines = list[list[str]]


def score_lines(rows: Sequence[Row], setting: str, beside: Sequence[Cited | None] = ()) -> Lines:
    """Head and body of the table in one setting, x100.

    Args:
        rows: What was measured.
        setting: One of `ditto_fast.evaluation.protocol.SETTINGS`.
        beside: For each row what is cited for it, which follows on a line of its own with its source.
    """
    tasks = [scores.task for scores in rows[0].scores]
    lines = [["pooler", *tasks, "Avg"]]
    for number, row in enumerate(rows):
        lines.append([row.pooler, *(f"{100 * s.spearman[setting]:.2f}" for s in row.scores)])
        lines[-1].append(f"{row.average(setting):.2f}")
        known = beside[number] if beside else None
        if known is not None:
            by_task = dict(zip(TASKS, known.scores[:-1], strict=True))
            complete = len(tasks) == len(by_task)
            lines.append(
                [
                    f"  cited [{known.source}]",
                    *(f"{by_task[task]:.2f}" for task in tasks),
                    f"{known.scores[-1]:.2f}" if complete else "",
                ]
            )
    return lines


def detail_lines(rows: Sequence[Row]) -> Lines:
    """Pearson, alignment, uniformity and mean cosine by task, every pooler."""
    lines = [["pooler", "task", "pairs", "Pearson", "alignment", "uniformity", "mean cosine"]]
    for row in rows:
        for scores in row.scores:
            shape = scores.geometry
            lines.append(
                [
                    row.pooler,
                    scores.task,
                    str(scores.pairs),
                    f"{100 * scores.pearson:.2f}",
                    f"{shape.alignment:.3f}",
                    f"{shape.uniformity:.3f}",
                    f"{shape.mean_cosine:.3f}",
                ]
            )
    return lines


def screen(lines: Lines, title: str) -> Table:
    """The table for rich."""
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(lines[0]):
        table.add_column(name, justify="left" if number == 0 else "right")
    for cells in lines[1:]:
        table.add_row(*(cell.replace("[", r"\[") for cell in cells))
    return table


def markdown(lines: Lines) -> str:
    """The table in GitHub's Markdown."""
    rule = ["---", *["---:"] * (len(lines[0]) - 1)]
    return "\n".join(f"| {' | '.join(cell.strip() for cell in cells)} |" for cells in (lines[0], rule, *lines[1:]))


def latex(lines: Lines) -> str:
    """The table as a LaTeX tabular with booktabs' rules."""
    body = [" & ".join(_escape(cell.strip()) for cell in cells) + r" \\" for cells in lines]
    columns = "l" + "r" * (len(lines[0]) - 1)
    parts = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", body[0], r"\midrule", *body[1:]]
    return "\n".join([*parts, r"\bottomrule", r"\end{tabular}"])


def _escape(text: str) -> str:
    return "".join(f"\\{character}" if character in "&%$#_{}" else character for character in text)


def to_json(rows: Sequence[Row], about: dict[str, Any], beside: Sequence[Cited | None] = ()) -> dict[str, Any]:
    """Everything: "printed" is x100 with two decimals, "exact" the correlation itself."""
    return {
        **about,
        "rows": [
            {
                "pooler": row.pooler,
                "average": {setting: row.average(setting) for setting in SETTINGS},
                "tasks": {scores.task: _task(scores) for scores in row.scores},
                "cited": _cited(beside[number]) if beside else None,
            }
            for number, row in enumerate(rows)
        ],
    }


def _task(scores: TaskScores) -> dict[str, Any]:
    shape = scores.geometry
    return {
        "pairs": scores.pairs,
        "printed": {setting: printed(scores.spearman[setting]) for setting in SETTINGS},
        "exact": scores.spearman,
        "pearson": scores.pearson,
        "alignment": None if math.isnan(shape.alignment) else shape.alignment,
        "uniformity": shape.uniformity,
        "mean_cosine": shape.mean_cosine,
    }


def _cited(row: Cited | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {"scores": list(row.scores), "source": row.source, "differs": row.differs}
