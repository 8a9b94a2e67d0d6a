"""One way to score heads on STS-B dev, in a process of its own: prints a JSON object."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from contenders import BY_KEY
from job import Setting
from resident import resident_mb, sampled

from ditto_fast.evaluation.head_scores import candidates, heads_of, pair_cosines
from ditto_fast.evaluation.protocol import spearman
from ditto_fast.evaluation.states import open_states
from ditto_fast.evaluation.tasks import Subset, load_sts_b_dev
from ditto_fast.heads import Head
from ditto_fast.similarity import similarity_pairwise

ONE_PASS = "one-pass"
Scores = dict[str, float]


def one_pass(states: Path, dev: Subset) -> Callable[[], Scores]:
    """Makes the function that scores all heads; three poolings are scored, of which first-last is returned."""
    source = open_states(states)

    def score() -> Scores:
        ranking = candidates(heads_of(source), pair_cosines(source, dev), dev.gold)
        return {str(c.head): c.score for c in ranking if c.head is not None and c.variant == "first-last"}

    return score


def one_head(key: str, setting: Setting, dev: Subset) -> Callable[[], Scores]:
    """Makes the function that scores the setting's head by a contender."""
    encode = BY_KEY[key].build(setting)

    def score() -> Scores:
        cosines = similarity_pairwise(encode(dev.first), encode(dev.second))
        return {str(setting.head): float(spearman(cosines, dev.gold))}

    return score


def main(arguments: list[str]) -> None:
    """Seconds of each round, the scores of the last, and memory, imports alone and at the peak."""
    key, checkpoint, export, states, head, threads, senteval, pairs, rounds = arguments
    # the pass takes as many threads as there are CPUs: all ways get as many CPUs as threads
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
    setting = Setting(Path(checkpoint), Path(export), Head.parse(head), int(threads))
    dev = load_sts_b_dev(Path(senteval)).take(np.arange(int(pairs)))
    imports, seconds = resident_mb(), []
    with sampled() as samples:
        score = one_pass(Path(states), dev) if key == ONE_PASS else one_head(key, setting, dev)
        for _ in range(int(rounds)):
            started = time.perf_counter()
            scores = score()
            seconds.append(time.perf_counter() - started)
    memory = {"imports_mb": imports, "peak_mb": max(mb for _, mb in samples)}
    sys.stdout.write(json.dumps({"seconds": seconds, "scores": scores, **memory}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
