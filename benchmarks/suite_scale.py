"""Suite scale: how the cost grows with the number of sentences."""

from __future__ import annotations

from collections.abc import Iterator

from contenders import chosen
from gate import admit, timed
from job import Job, Row
from sentences import synthetic_sentences

_AMONG = ("st", "fp32", "int8")
_COUNTS = (1000, 2000, 5000, 10000, 20000)
_QUICK_COUNTS = (100, 200, 400)
_ROUNDS = 2  # of the larger counts, which are long enough to average the machine's noise


def suite(job: Job) -> Iterator[Row]:
    """For each number of synthetic sentences a row a contender."""
    counts = _QUICK_COUNTS if job.quick else _COUNTS
    texts = synthetic_sentences(counts[-1])
    admitted = admit(chosen(job, _AMONG), job.setting, texts[: counts[0]], f"{counts[0]} sentences")
    for count in counts:
        for row in timed(admitted, texts[:count], f"{count} sentences", min(job.rounds, _ROUNDS), floor=None):
            if count == counts[0] or row.get("seconds"):  # who is missing is so once
                yield {**row, "sentences": count}
