"""One way to score heads on STS-B dev, in a process of its own: prints a JSON object."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from contenders import BY_KEY
from job import Row, Setting
from resident import resident_mb, sampled

from ditto_fast.evaluation.head_scores import candidates, heads_of, pair_cosines
from ditto_fast.evaluation.protocol import spearman
from ditto_fast.evaluation.states import open_states
from ditto_fast.evaluation.tasks import Subset, load_sts_b_dev
from ditto_fast.heads import Head
from ditto_fast.similarity import similarity_pairwise

ONE_PASS = "one-pass"
Scores = dict[str, float]
Score = Callable[[Subset], Scores]
_WARM = 8  # pairs


def one_pass(states: Path) -> Score:
    """Makes the function that scores all heads; three poolings are scored, of which first-last is returned."""
    source = open_states(states)

    def score(pairs: Subset) -> Scores:
        ranking = candidates(heads_of(source), pair_cosines(source, pairs), pairs.gold)
        return {str(c.head): c.score for c in ranking if c.head is not None and c.variant == "first-last"}

    return score


def one_head(key: str, setting: Setting) -> Score:
    """Makes the function that scores the setting's head by a contender."""
    encode = BY_KEY[key].build(setting)

    def score(pairs: Subset) -> Scores:
        cosines = similarity_pairwise(encode(pairs.first), encode(pairs.second))
        return {str(setting.head): float(spearman(cosines, pairs.gold))}

    return score


def measured(build: Callable[[], Score], dev: Subset) -> Row:
    """Seconds of one run that finds the way warm, its scores, and memory, imports alone and at the peak."""
    imports = resident_mb()
    with sampled() as samples:
        score = build()
        score(dev.take(np.arange(_WARM)))
        started = time.perf_counter()
        scores = score(dev)
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "scores": scores, "imports_mb": imports, "peak_mb": max(mb for _, mb in samples)}


def main(arguments: list[str]) -> None:
    """Prints what is measured of the way that the arguments name."""
    key, checkpoint, export, states, head, threads, senteval, pairs = arguments
    # the pass takes as many threads as there are CPUs: all ways get as many CPUs as threads
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
    setting = Setting(Path(checkpoint), Path(export), Head.parse(head), int(threads))
    dev = load_sts_b_dev(Path(senteval)).take(np.arange(int(pairs)))
    build = partial(one_pass, Path(states)) if key == ONE_PASS else partial(one_head, key, setting)
    sys.stdout.write(json.dumps(measured(build, dev)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
