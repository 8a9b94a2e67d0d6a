"""Suite cpu: every way on the same sentences, in one run, beside the floor."""

from __future__ import annotations

from collections.abc import Iterator

from contenders import chosen
from gate import admit, timed
from gemm_floor import floors
from job import Job, Row

CASE = "throughput"


def suite(job: Job) -> Iterator[Row]:
    """One row a contender, and one of each floor."""
    admitted = admit(chosen(job), job.setting, job.texts, CASE)
    yield from timed(admitted, job.texts, CASE, job.rounds, floors(job.setting, job.texts))
