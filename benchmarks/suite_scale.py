"""Suite scale: how the cost grows with the number of sentences, and what files of many rows take."""

from __future__ import annotations

from collections.abc import Iterator

from contenders import OURS, chosen
from corpus_files import corpus_rows
from gate import admit, timed
from gemm_floor import floors
from job import Job, Row
from measure import median
from sentences import synthetic_sentences

COUNTS = (1000, 3000, 10_000, 30_000, 100_000)
PATIENCE = 60  # seconds of a round, which a peer may take
_AMONG = ("eager", "st", "fp32", "int8")
_QUICK_COUNTS = (100, 300)
_MANY = 10_000  # sentences up to which there are several rounds; more are enough to average the machine's noise
_ROUNDS = 2


def case_of(count: int) -> str:
    """The case of so many sentences."""
    return f"{count} sentences"


def suite(job: Job) -> Iterator[Row]:
    """Calls of many sentences, then files of many rows."""
    yield from _calls(job)
    yield from corpus_rows(job)


def _calls(job: Job) -> Iterator[Row]:
    """For each number of synthetic sentences a row a contender, checked on the first of them."""
    counts = _QUICK_COUNTS if job.quick else COUNTS
    texts = synthetic_sentences(counts[-1])
    admitted = admit(chosen(job, _AMONG), job.setting, texts[: counts[0]], case_of(counts[0]))
    seconds: dict[str, float] = {}  # of a sentence
    for count in counts:
        for key in [key for key, each in seconds.items() if key not in OURS and each * count > PATIENCE]:
            if admitted.encoders.pop(key, None):
                said = f"left out: about {seconds[key] * count:.0f} s a round, over {PATIENCE} s"
                yield {"case": case_of(count), "contender": key, "missing": said}
        rounds = min(job.rounds, _ROUNDS) if count <= _MANY else 1
        for row in timed(admitted, texts[:count], case_of(count), rounds, floors(job.setting, texts[:count])):
            if row.get("seconds"):
                seconds[row["contender"]] = median(row["seconds"]) / count
            yield row
        admitted.rows.clear()  # who is missing is so once
