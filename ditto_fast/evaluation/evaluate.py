"""The table: poolers down, tasks across."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ditto_fast.evaluation.embed import NO_OPTIONS, PoolerOptions, check_poolers, embed
from ditto_fast.evaluation.poolers import find_pooler
from ditto_fast.evaluation.postprocess import check_postprocess, fit
from ditto_fast.evaluation.protocol import TaskScores, average, score_task
from ditto_fast.evaluation.states import StateSource
from ditto_fast.evaluation.tasks import Task

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class Row:
    """What one pooler gets on each task."""

    pooler: str
    scores: tuple[TaskScores, ...]

    def average(self, setting: str) -> float:
        """The mean of the rounded scores x100."""
        return average([scores.spearman[setting] for scores in self.scores])


def evaluate(
    source: StateSource,
    tasks: Sequence[Task],
    poolers: Sequence[str],
    options: PoolerOptions = NO_OPTIONS,
    fit_on: Sequence[str] | None = None,
    seed: int = 0,
    progress: bool = False,
) -> list[Row]:
    """Scores poolers on tasks; every unique sentence is encoded once.

    Args:
        source: The model.
        tasks: What to score on.
        poolers: Names, each with "+whitening", "+whitening-K" or "+flow" after it or not.
        options: What some poolers need.
        fit_on: Sentences that post-processing is fit on; by default, task by task, all of the task's ("target").
        seed: Of BERT-flow.
        progress: Show a bar on stderr.
    """
    processed = [name for name in poolers if "+" in name]
    for name in processed:
        check_postprocess(name.partition("+")[2])
    check_poolers(source, poolers, options)
    texts = dict.fromkeys(sentence for task in tasks for sentence in task.sentences)
    if processed:
        extra = [sentence for task in tasks for sentence in task.others] if fit_on is None else fit_on
        texts |= dict.fromkeys(extra)
    order = list(texts)
    vectors = embed(source, order, poolers, options, progress)
    row_of = {text: row for row, text in enumerate(order)}
    rows = []
    for name in poolers:
        base, _, process = name.partition("+")
        own = vectors[find_pooler(base).name]
        if process and fit_on is not None:
            own = fit(process, own[[row_of[text] for text in dict.fromkeys(fit_on)]], seed)(own)
        scores = tuple(_score(task, own, row_of, process if fit_on is None else "", seed) for task in tasks)
        rows.append(Row(name, scores))
    return rows


def _score(task: Task, vectors: FloatArray, row_of: dict[str, int], process: str, seed: int) -> TaskScores:
    """The task's scores, after fitting `process` on its own sentences where it is not empty."""
    if process:
        target = dict.fromkeys((*task.sentences, *task.others))
        vectors = fit(process, vectors[[row_of[text] for text in target]], seed)(vectors)
    return score_task(task, {text: vectors[row_of[text]] for text in task.sentences})
