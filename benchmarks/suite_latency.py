"""Suite latency: one sentence at a time, as a search box asks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from contenders import chosen
from gate import admit
from job import Job, Row
from measure import interleaved, percentile

CASE = "one sentence"
_AMONG = ("eager", "sdpa", "st", "st-onnx", "openvino", "fastembed", "fp32", "int8")


def suite(job: Job) -> Iterator[Row]:
    """A row a contender: seconds of each sentence, every sentence by all before the next."""
    texts = job.texts[: 20 if job.quick else 200]
    admitted = admit(chosen(job, _AMONG), job.setting, texts, CASE)
    yield from admitted.rows
    samples: dict[str, list[float]] = {key: [] for key in admitted.encoders}
    for text in texts:
        once = interleaved({key: partial(encode, [text]) for key, encode in admitted.encoders.items()}, 1)
        for key, seconds in once.items():
            samples[key] += [round(second, 6) for second in seconds]
    for key, seconds in samples.items():
        yield {
            "case": CASE,
            "contender": key,
            "seconds": seconds,
            "p50_ms": 1000 * percentile(seconds, 50),
            "p95_ms": 1000 * percentile(seconds, 95),
            **admitted.checks[key],
        }
