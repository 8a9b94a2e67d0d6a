"""How much a head chosen without labels loses: against the best head, and against the plain average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.evaluation.head_scores import heads_of, pair_cosines
from ditto_fast.evaluation.protocol import spearman
from ditto_fast.evaluation.states import StateSource
from ditto_fast.evaluation.tasks import Subset, Task
from ditto_fast.heads import Head

Scores = NDArray[np.float64]
_VARIANT = "first-last"


@dataclass(frozen=True)
class Pick:
    """A head that a criterion picked, Spearman x100 averaged over tasks.

    Args:
        criterion: What picked it.
        head: The head.
        spearman: Its score.
        regret: The best head's less its own: 0 is a perfect pick.
        over_plain: Its score less the plain average's: below 0 the pick hurts.
        rank: Its place among all heads, 1 the best.
        agreement: Spearman correlation, over all heads, of the criterion with the scores.
    """

    criterion: str
    head: str
    spearman: float
    regret: float
    over_plain: float
    rank: int
    agreement: float


@dataclass(frozen=True)
class Regret:
    """All picks, and what they are held against, Spearman x100 averaged over tasks."""

    tasks: tuple[str, ...]
    best_head: str
    best: float
    plain: float
    random_head: float
    picks: tuple[Pick, ...]

    def to_dict(self) -> dict[str, Any]:
        """The record for machines."""
        return asdict(self)


def head_task_scores(source: StateSource, tasks: Sequence[Task], progress: bool = False) -> Scores:
    """Spearman ("all") of each head with first-last pooling, the plain average last: (tasks, L N + 1)."""
    rows = []
    for task in tasks:
        first, second = ([text for subset in task.subsets for text in getattr(subset, side)] for side in _SIDES)
        gold = np.concatenate([subset.gold for subset in task.subsets])
        cosines = pair_cosines(source, Subset(task.name, first, second, gold), progress)[_VARIANT]
        rows.append(spearman(cosines, np.broadcast_to(gold, cosines.shape)))
    return np.stack(rows)


_SIDES = ("first", "second")


def regret(heads: Sequence[Head], criteria: dict[str, Scores], scores: Scores, tasks: Sequence[str]) -> Regret:
    """Holds each criterion's pick against labels.

    Args:
        heads: The L N heads.
        criteria: What each criterion says of them (L N,).
        scores: Their Spearman by task, the plain average last: (tasks, L N + 1).
        tasks: Names of the tasks.
    """
    means = 100 * scores.mean(axis=0)
    own, plain = means[:-1], float(means[-1])
    best = int(own.argmax())
    picks = []
    for name, values in criteria.items():
        pick = int(np.argmax(values))
        picks.append(
            Pick(
                name,
                str(heads[pick]),
                float(own[pick]),
                float(own[best] - own[pick]),
                float(own[pick] - plain),
                int((own > own[pick]).sum()) + 1,
                float(spearman(values, own)),
            )
        )
    return Regret(tuple(tasks), str(heads[best]), float(own[best]), plain, float(own.mean()), tuple(picks))


def regret_lines(result: Regret) -> list[list[str]]:
    """The table, head and body."""
    lines = [["chosen by", "head", "Avg", "regret", "over plain average", "rank", "agreement"]]
    lines.append(["plain average", "", f"{result.plain:.2f}", "", f"{0:+.2f}", "", ""])
    lines.append(
        ["labels (best)", result.best_head, f"{result.best:.2f}", "0.00", f"{result.best - result.plain:+.2f}", "1", ""]
    )
    for pick in sorted(result.picks, key=lambda pick: pick.regret):
        figures = [f"{pick.spearman:.2f}", f"{pick.regret:.2f}", f"{pick.over_plain:+.2f}"]
        lines.append([pick.criterion, pick.head, *figures, str(pick.rank), f"{pick.agreement:+.2f}"])
    lines.append(
        [
            "a head at random",
            "",
            f"{result.random_head:.2f}",
            f"{result.best - result.random_head:.2f}",
            f"{result.random_head - result.plain:+.2f}",
            "",
            "",
        ]
    )
    return lines


def measure_regret(
    source: StateSource, criteria: dict[str, Scores], tasks: Sequence[Task], progress: bool = False
) -> Regret:
    """Scores every head on every task and holds the criteria's picks against them."""
    scores = head_task_scores(source, tasks, progress)
    return regret(heads_of(source), criteria, scores, [task.name for task in tasks])
