"""The STS sets from the hub, where there is no SentEval folder: THE table of dataset ids and revisions.

They are MTEB's copies, whose subsets are merged, so "mean" and "wmean" equal "all". SICK-R is not among them: its copy
there merges train, trial and test (9927 pairs by MTEB's own statistics) where the protocol scores the 4927 of the test
file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ditto_fast.checks import one_of
from ditto_fast.errors import DataError, MissingDependencyError
from ditto_fast.evaluation.tasks import SICK_R, TASKS, Subset, Task


@dataclass(frozen=True)
class HubSet:
    """A dataset's id and revision, and how many pairs its test split must have."""

    dataset: str
    revision: str
    pairs: int


HUB_SETS = {
    "STS12": HubSet("mteb/sts12-sts", "a0d554a64d88156834ff5ae9920b964011b16384", 3108),
    "STS13": HubSet("mteb/sts13-sts", "7e90230a92c190f1bf69ae9002b8cea547a64cca", 1500),
    "STS14": HubSet("mteb/sts14-sts", "6031580fec1f6af667f0bd2da0a551cf4f0b2375", 3750),
    "STS15": HubSet("mteb/sts15-sts", "ae752c7c21bf194d8b67fd573edf7ae58183cbe3", 3000),
    "STS16": HubSet("mteb/sts16-sts", "4d8694f8f0e0100860b497b999b3dbed754a0513", 1186),
    "STS-B": HubSet("mteb/stsbenchmark-sts", "b0fddb56ed78048fa8b90373c8a3cfc37b684831", 1379),
}


def load_hub_task(name: str) -> Task:
    """Downloads one task's test split.

    Args:
        name: One of `ditto_fast.evaluation.tasks.TASKS` but SICK-R.

    Raises:
        DataError: The hub cannot be reached, lacks the task, or has another number of pairs than the protocol.
        MissingDependencyError: The package datasets is not installed.
        OptionError: There is no such task.
    """
    one_of("tasks", name, TASKS)
    if name == SICK_R:
        raise DataError(
            "The hub's copy of SICK-R merges its splits, so its figure would be another. Take it from a SentEval "
            f"folder with --senteval, or leave it out: --tasks {','.join(HUB_SETS)}."
        )
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingDependencyError(f"--hub needs: pip install datasets ({error}).") from error
    entry = HUB_SETS[name]
    try:
        split = load_dataset(entry.dataset, revision=entry.revision, split="test")
    except Exception as error:  # it raises classes of several packages
        raise DataError(
            f"{entry.dataset} at {entry.revision[:10]} could not be loaded ({error}). Without a network, name a "
            "SentEval folder with --senteval."
        ) from error
    columns = [list(split[column]) for column in ("sentence1", "sentence2", "score")]
    if len(columns[0]) != entry.pairs:
        raise DataError(f"{entry.dataset} has {len(columns[0])} pairs where the protocol has {entry.pairs}.")
    first, second = ([" ".join(text.split()) for text in side] for side in columns[:2])
    return Task(name, (Subset(name, first, second, np.array(columns[2], np.float64)),))
