"""Suite budget: what CPU_RULE and the sharing of short lists rest on, the threads' layout, and OpenVINO's batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial

import numpy as np
from contenders import BY_KEY, missing_rows
from gate import compared
from job import Encode, Job, Row, Setting, Vectors, parts
from peers_onnx import OPENVINO_TOKENS, openvino, openvino_requests
from peers_ours import encoder_of

from ditto_fast import FastEncoder
from ditto_fast.batches import CPU_RULE, BatchRule

_BUDGETS = (CPU_RULE.max_tokens, 64, 128, 256, 512, 1024, 2048)
_RUNS = (CPU_RULE.run_tokens, 0, 4, 16, 32)
_CALLS = (20, 100)  # texts
_OPENVINO = "OpenVINO on our graph, latency hint"
_OPENVINO_BUDGETS = (OPENVINO_TOKENS, 256, 1024, 2048)


def _inside(setting: Setting) -> Encode:
    """One batch at a time, all threads inside it."""

    def configure(options: object) -> None:
        options.intra_op_num_threads = setting.threads  # type: ignore[attr-defined]

    return FastEncoder(setting.export, precision="fp32", num_threads=1, session_options=configure).encode


def _by_rule(encoder: FastEncoder, rule: BatchRule, size: int | None = None) -> Encode:
    """Encodes by a rule, so many texts a call; all in one by default."""

    def encode(texts: list[str]) -> Vectors:
        calls = parts(texts, size or len(texts))
        return np.concatenate([encoder.embed_texts(part, rule, lambda _, __: None) for part in calls])

    return encode


def _when_called(build: Callable[[], Encode]) -> Encode:
    """Builds at its first call, so that what cannot be built costs its own row alone."""
    built = cache(build)
    return lambda texts: built()(texts)


def cases(setting: Setting, encoder: FastEncoder) -> Iterator[tuple[str, Mapping[str, Encode]]]:
    """What is compared, the default first in each case."""
    threads = setting.threads
    yield (
        "budget",
        {f"{tokens} tokens": _by_rule(encoder, replace(CPU_RULE, max_tokens=tokens)) for tokens in _BUDGETS},
    )
    full = replace(CPU_RULE, spread=False)
    for size in _CALLS:
        sharing = {"shared out": _by_rule(encoder, CPU_RULE, size), "full batches": _by_rule(encoder, full, size)}
        yield f"sharing among threads, {size} texts a call", sharing
    runs = {f"{tokens} tokens": _by_rule(encoder, replace(CPU_RULE, run_tokens=tokens), size) for tokens in _RUNS}
    yield f"what a run counts as, {size} texts a call", runs
    layouts = {f"{threads} x 1": encoder.encode, f"1 x {threads}": _when_called(partial(_inside, setting))}
    yield "layout, batches x threads in each", layouts
    if not BY_KEY["openvino"].missing():
        builds = {f"{tokens} tokens": partial(openvino, setting, tokens) for tokens in _OPENVINO_BUDGETS}
        builds[f"{OPENVINO_TOKENS} tokens, throughput hint, one request a thread"] = partial(openvino_requests, setting)
        yield _OPENVINO, {name: _when_called(build) for name, build in builds.items()}


def suite(job: Job) -> Iterator[Row]:
    """A row a rule or layout of each case; the vectors are checked against the encoder's by its defaults."""
    encoder = encoder_of(job.setting)
    expected = encoder.encode(job.texts)
    for case, ways in cases(job.setting, encoder):
        runs = {name: partial(encode, job.texts) for name, encode in ways.items()}
        for row in compared(case, runs, expected, job.rounds):
            yield {**row, "sentences": len(job.texts)}
    yield from missing_rows([BY_KEY["openvino"]], _OPENVINO)
