"""Suite heads: all L N heads scored in one pass, against a run for each head, ours and the authors'."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from heads_probe import ONE_PASS
from job import Job, Row, failure
from measure import in_process, interleaved

from ditto_fast.errors import ParityError
from ditto_fast.evaluation.with_torch.states_graph import cached_states

CASE = "heads"
SEPARATE = ("fp32", "eager")
_ROUNDS = 3
_PAIRS, _QUICK_PAIRS = 1500, 100  # the whole of STS-B dev
_TOLERANCE = 1e-4  # of a Spearman correlation: ranks of nearly equal cosines may swap
_PROBE = Path(__file__).parent / "heads_probe.py"


def suite(job: Job) -> Iterator[Row]:
    """A row a way with the heads that one run scores; each run in a process of its own, for its memory."""
    if job.senteval is None:
        yield {"case": CASE, "contender": ONE_PASS, "missing": "needs STS-B dev: --senteval DIR"}
        return
    with TemporaryDirectory() as cache:
        started = time.perf_counter()
        states = cached_states(str(job.setting.checkpoint), Path(cache))
        exported = time.perf_counter() - started
        found, errors = _sampled(job, states)
    yield {**_row(job, ONE_PASS, found[ONE_PASS]), "export_seconds": exported}
    for key in SEPARATE:
        yield failure(CASE, key, errors[key]) if key in errors else _row(job, key, found[key])


def _sampled(job: Job, states: Path) -> tuple[dict[str, list[Row]], dict[str, Exception]]:
    """What the probes of each way found, one a round, and what ended a way; what ends the one pass ends the suite."""
    found: dict[str, list[Row]] = {key: [] for key in (ONE_PASS, *SEPARATE)}
    errors: dict[str, Exception] = {}
    ways = {key: partial(_probe, job, key, states, found) for key in found}
    for _ in range(1 if job.quick else min(job.rounds, _ROUNDS)):
        interleaved({ONE_PASS: ways[ONE_PASS]}, 1)
        interleaved({key: ways[key] for key in SEPARATE if key not in errors}, 1, errors)
    return found, errors


def _probe(job: Job, key: str, states: Path, found: dict[str, list[Row]]) -> None:
    """Adds what one more probe of a way found, whose scores must be those of the first one pass."""
    found[key].append(_probed(job, key, states))
    _require_same(key, found[key][-1]["scores"], found[ONE_PASS][0]["scores"])


def _pairs(job: Job) -> int:
    return _QUICK_PAIRS if job.quick else _PAIRS


def _probed(job: Job, key: str, states: Path) -> Row:
    setting = job.setting
    where = (setting.checkpoint, setting.export, states, setting.head, setting.threads, job.senteval)
    return in_process(_PROBE, [key, *map(str, where), str(_pairs(job))])


def _row(job: Job, key: str, found: Sequence[Row]) -> Row:
    """The seconds of every probe, and the memory of the one whose peak is the largest."""
    largest = max(found, key=lambda each: float(each["peak_mb"]))
    return {
        "case": CASE,
        "contender": key,
        "pairs": _pairs(job),
        "heads": len(largest["scores"]),
        "seconds": [each["seconds"] for each in found],
        "imports_mb": largest["imports_mb"],
        "peak_mb": largest["peak_mb"],
    }


def _require_same(key: str, scores: dict[str, float], ours: dict[str, float]) -> None:
    """Passes scores that are those of the one pass.

    Raises:
        ParityError: They are not: no time is worth printing.
    """
    for head, score in scores.items():
        if not abs(ours[head] - score) < _TOLERANCE:
            raise ParityError(f"Head {head}: one pass gives {ours[head]:.5f}, {key} {score:.5f}.")
