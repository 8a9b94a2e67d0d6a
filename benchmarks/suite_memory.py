"""Suite memory: a process per contender; long texts over the loaded model, and a long steady run of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contenders import BY_KEY, chosen, missing_rows
from job import Job, Row, failure
from measure import in_process
from memory_probe import ONE_BATCH

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
        contenders = chosen(job, _AMONG)
        keys = [contender.key for contender in contenders if not contender.missing()]
        yield from missing_rows(contenders, case_of(tokens))
        for key in [*keys, ONE_BATCH]:
            yield _probed(case_of(tokens), key, "memory_probe.py", _memory_arguments(job, key, tokens))
    count = _STEADY_QUICK if job.quick else _STEADY_SENTENCES
    for key, arena in (("int8", "arena"), (NO_ARENA, "no arena")):
        arguments = [str(job.setting.export), BY_KEY["int8"].precision, arena, str(job.setting.threads), str(count)]
        yield _probed(STEADY, key, "steady_probe.py", arguments)


def _memory_arguments(job: Job, key: str, tokens: int) -> list[str]:
    setting = job.setting
    where = [str(setting.checkpoint), str(setting.export), str(setting.head)]
    return [key, *where, str(setting.threads), str(tokens), str(_TEXTS)]


def _probed(case: str, key: str, script: str, arguments: list[str]) -> Row:
    try:
        return {"case": case, "contender": key, **in_process(_FOLDER / script, arguments)}
    except Exception as error:  # whatever ended that process: it becomes a row
        return failure(case, key, error)
