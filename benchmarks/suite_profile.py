"""Suite profile: where our graph's time goes, by operator, from ONNX Runtime's own profiler."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import suite_cpu
from contenders import BY_KEY, OURS
from gate import gate
from job import Job, Row, Setting, failure
from sentences import text_of

from ditto_fast import FastEncoder
from ditto_fast.artifact import Manifest

# what the floor is made of: FusedMatMul is q k^T, and A v is in the fused attention
PRODUCTS = ("MatMul", "Gemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "MatMulInteger")
_CONTAINERS = ("If",)  # its time is that of the operators in it, which have events of their own
_LONG, _LONG_TEXTS = 512, 8


def cases(job: Job) -> dict[str, tuple[Setting, list[str]]]:
    """The sentences of suite cpu, and long texts as far as the model goes."""
    tokens = min(_LONG, Manifest.read(job.setting.export).max_positions)
    long = [text_of(tokens, seed) for seed in range(1 if job.quick else _LONG_TEXTS)]
    return {
        suite_cpu.CASE: (job.setting, job.texts),
        f"T = {tokens}": (replace(job.setting, max_seq_length=tokens), long),
    }


def suite(job: Job) -> Iterator[Row]:
    """A row a precision and case, with each operator's share of the time inside operators."""
    for case, (setting, texts) in cases(job).items():
        for key in OURS:
            try:
                yield {"case": case, "contender": key, "sentences": len(texts), **_profiled(key, setting, texts)}
            except Exception as error:  # such as a precision that the export lacks: it becomes a row
                yield failure(case, key, error)


def _profiled(key: str, setting: Setting, texts: list[str]) -> Row:
    contender = BY_KEY[key]
    with TemporaryDirectory() as folder:

        def configure(options: Any) -> None:
            options.enable_profiling = True
            options.profile_file_prefix = str(Path(folder) / "profile")

        # one thread: an operator that waits for a core would count its waiting
        with FastEncoder(
            setting.export,
            precision=contender.precision,
            max_seq_length=setting.max_seq_length,
            num_threads=1,
            session_options=configure,
        ) as encoder:
            checks = gate(contender, encoder.encode(texts), contender.expected(setting)(texts))
        (path,) = Path(folder).iterdir()  # written when the session is closed
        seconds = operator_seconds(json.loads(path.read_text(encoding="utf-8")))
    total = sum(seconds.values())
    return {"shares": {name: round(value / total, 4) for name, value in seconds.most_common()}, **checks}


def operator_seconds(events: list[dict[str, Any]]) -> Counter[str]:
    """Seconds inside each type of operator, from a profile's events."""
    seconds: Counter[str] = Counter()
    for event in events:
        operator = event.get("args", {}).get("op_name")
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time") and operator not in _CONTAINERS:
            seconds[operator] += event["dur"] / 1e6
    return seconds
