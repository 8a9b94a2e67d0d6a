"""Suite latency: one sentence now and then, as a search box asks, and one after another, as a service does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

from contenders import chosen, in_calls
from gate import admit
from gemm_floor import FLOORS, floor_of_each
from job import Job, Row, failure, parts
from measure import interleaved, percentile

Call = Callable[[list[str]], object]
PAUSED, IN_A_ROW = "after a pause", "one after another"
CASES = (PAUSED, IN_A_ROW)
_RUN = 20  # sentences one after another
_AMONG = ("eager", "sdpa", "st", "st-onnx", "openvino", "fastembed", "fp32", "int8")


def suite(job: Job) -> Iterator[Row]:
    """A row a case and contender or floor, with each sentence's seconds; all do a part of them before the next part."""
    texts = job.texts[: _RUN if job.quick else 10 * _RUN]
    contenders = [replace(contender, build=cache(contender.build)) for contender in chosen(job, _AMONG)]
    # one text may take another way than many: what is checked and warmed is what is timed
    admitted = admit([in_calls(contender, 1) for contender in contenders], job.setting, texts, PAUSED)
    yield from admitted.rows
    encoders: dict[str, Call] = {
        each.key: each.build(job.setting) for each in contenders if each.key in admitted.encoders
    }
    for precision, key in FLOORS.items():
        try:
            products = floor_of_each(job.setting, texts, precision)
            products(texts)  # warm, as the check has made the others
            encoders[key] = products
        except Exception as error:  # such as a model that it is not known for
            yield failure(PAUSED, key, error)
    for case, size in zip(CASES, (1, _RUN), strict=True):
        samples: dict[str, list[float]] = {key: [] for key in encoders}
        errors: dict[str, Exception] = {}
        for part in parts(texts, size):
            rest = {key: encode for key, encode in encoders.items() if key not in errors}
            interleaved({key: partial(_each, rest[key], part, samples[key]) for key in rest}, 1, errors)
        for key, seconds in samples.items():
            if key in errors:
                yield failure(case, key, errors[key])
                continue
            yield {
                "case": case,
                "contender": key,
                "seconds": seconds,
                "p50_ms": 1000 * percentile(seconds, 50),
                "p95_ms": 1000 * percentile(seconds, 95),
                **admitted.checks.get(key, {}),
            }


def _each(encode: Call, texts: list[str], samples: list[float]) -> None:
    """Adds the seconds of each text, one a call."""
    for text in texts:
        started = time.perf_counter()
        encode([text])
        samples.append(round(time.perf_counter() - started, 6))
