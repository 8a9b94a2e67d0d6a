"""Suite heads: all L N heads scored in one pass, against a run for each head, ours and the authors'."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from heads_probe import ONE_PASS
from job import Job, Row, failure
from measure import in_process

from ditto_fast.errors import ParityError
from ditto_fast.evaluation.with_torch.states_graph import cached_states

CASE = "heads"
SEPARATE = ("fp32", "eager")
_ROUNDS = 3
_PAIRS, _QUICK_PAIRS = 1500, 100  # the whole of STS-B dev
_TOLERANCE = 1e-4  # of a Spearman correlation: ranks of nearly equal cosines may swap
_PROBE = Path(__file__).parent / "heads_probe.py"


def suite(job: Job) -> Iterator[Row]:
    """A row a way with the heads that one run scores; each in a process of its own, for its memory."""
    if job.senteval is None:
        yield {"case": CASE, "contender": ONE_PASS, "missing": "needs STS-B dev: --senteval DIR"}
        return
    with TemporaryDirectory() as cache:
        started = time.perf_counter()
        states = cached_states(str(job.setting.checkpoint), Path(cache))
        exported = time.perf_counter() - started
        ours = _probed(job, ONE_PASS, states)
        yield {**_row(job, ONE_PASS, ours), "export_seconds": exported}
        for key in SEPARATE:
            try:
                theirs = _probed(job, key, states)
                _require_same(key, theirs["scores"], ours["scores"])
                yield _row(job, key, theirs)
            except Exception as error:  # whatever ended that process: it becomes a row
                yield failure(CASE, key, error)


def _pairs(job: Job) -> int:
    return _QUICK_PAIRS if job.quick else _PAIRS


def _probed(job: Job, key: str, states: Path) -> Row:
    setting = job.setting
    where = (setting.checkpoint, setting.export, states, setting.head, setting.threads, job.senteval)
    return in_process(_PROBE, [key, *map(str, where), str(_pairs(job)), str(min(job.rounds, _ROUNDS))])


def _row(job: Job, key: str, found: Row) -> Row:
    figures = {name: value for name, value in found.items() if name != "scores"}
    return {"case": CASE, "contender": key, "pairs": _pairs(job), "heads": len(found["scores"]), **figures}


def _require_same(key: str, scores: dict[str, float], ours: dict[str, float]) -> None:
    """Passes scores that are those of the one pass.

    Raises:
        ParityError: They are not: no time is worth printing.
    """
    for head, score in scores.items():
        if not abs(ours[head] - score) < _TOLERANCE:
            raise ParityError(f"Head {head}: one pass gives {ours[head]:.5f}, {key} {score:.5f}.")
