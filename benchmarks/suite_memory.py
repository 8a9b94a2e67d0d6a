"""Suite memory: a process per contender; long texts over the loaded model, and a long steady run of ours.

What the processes computed is checked here, by the same independent code as in other suites.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from contenders import BY_KEY, Contender, chosen, missing_rows
from gate import gate
from job import Job, Row, Setting, failure
from measure import in_process
from memory_probe import ONE_BATCH, texts_of

from ditto_fast.artifact import Manifest

LENGTHS = (128, 256, 512)
STEADY = "steady"
NO_ARENA = "int8-no-arena"
_AMONG = ("eager", "sdpa", "st", "st-onnx", "fp32", "int8")
_TEXTS = 8
_STEADY_SENTENCES, _STEADY_QUICK = 100_000, 2_000
_FOLDER = Path(__file__).parent


def case_of(tokens: int) -> str:
    """The case of texts of so many tokens."""
    return f"{_TEXTS} texts of {tokens} tokens"


def suite(job: Job) -> Iterator[Row]:
    """For each length a row a contender; then ours with and without the runtime's arena."""
    longest = Manifest.read(job.setting.export).max_positions
    lengths = [tokens for tokens in LENGTHS if tokens <= longest]
    for tokens in lengths[-1:] if job.quick else lengths:
        yield from _long_texts(job, tokens)
    count = _STEADY_QUICK if job.quick else _STEADY_SENTENCES
    for key, arena in (("int8", "arena"), (NO_ARENA, "no arena")):
        arguments = [str(job.setting.export), BY_KEY["int8"].precision, arena, str(job.setting.threads), str(count)]
        try:
            yield {"case": STEADY, "contender": key, **in_process(_FOLDER / "steady_probe.py", arguments)}
        except Exception as error:  # whatever ended that process: it becomes a row
            yield failure(STEADY, key, error)


def _long_texts(job: Job, tokens: int) -> Iterator[Row]:
    """A row a contender, and one of ours that takes all texts in one batch."""
    setting = replace(job.setting, max_seq_length=tokens)
    contenders = chosen(job, _AMONG)
    yield from missing_rows(contenders, case_of(tokens))
    ways = {contender.key: contender for contender in contenders if not contender.missing()}
    expected = cache(lambda by: by(setting)(texts_of(tokens, _TEXTS)))
    for key, contender in {**ways, ONE_BATCH: BY_KEY["fp32"]}.items():
        try:
            found = in_process(_FOLDER / "memory_probe.py", _arguments(setting, key, contender, tokens))
            check = gate(contender, np.array(found.pop("vectors"), np.float32), expected(contender.expected))
            yield {"case": case_of(tokens), "contender": key, **found, **check}
        except Exception as error:  # whatever ended that process: it becomes a row
            yield failure(case_of(tokens), key, error)


def _arguments(setting: Setting, key: str, contender: Contender, tokens: int) -> list[str]:
    how = key if key == ONE_BATCH else f"{contender.build.__module__}:{contender.build.__name__}"
    where = [str(setting.checkpoint), str(setting.export), str(setting.head)]
    return [how, *where, str(setting.threads), str(tokens), str(_TEXTS)]
