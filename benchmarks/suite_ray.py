"""Suite ray: encode_dataset with one and two workers of one thread, beside the prediction of docs/distributed.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from gate import require_equal
from job import Job, Row, Vectors, failure, parts
from measure import interleaved
from sentences import synthetic_sentences

from ditto_fast import FastEncoder

CASE = "encode_dataset"
ALONE = "one process"
WORKERS = (1, 2)
_BATCH = 512
_SENTENCES, _QUICK = 20_000, 8 * _BATCH
_ROUNDS = 3


def name_of_workers(workers: int) -> str:
    """The contender of so many workers."""
    return f"{workers} worker{'s' * (workers > 1)}"


def suite(job: Job) -> Iterator[Row]:
    """A row for FastEncoder alone on one thread, then one for each number of workers; they take turns."""
    if find_spec("ray") is None:
        yield {"case": CASE, "contender": name_of_workers(WORKERS[0]), "missing": "not installed: ray"}
        return
    import ray

    texts = synthetic_sentences(_QUICK if job.quick else _SENTENCES)
    encoder = FastEncoder(job.setting.export, num_threads=1)
    expected = encoder.encode(texts)
    rows: dict[str, Row] = {ALONE: {"case": CASE, "contender": ALONE, "sentences": len(texts)}}
    functions: dict[str, Callable[[], object]] = {ALONE: partial(_alone, encoder, texts)}
    for workers in WORKERS:
        name = name_of_workers(workers)
        rows[name] = _unscaled(workers, len(texts))
        functions[name] = partial(_scale, rows[name], job.setting.export, texts, expected)
    errors: dict[str, Exception] = {}
    # one CPU more than workers: what reads the dataset takes one, and next to no time
    ray.init(num_cpus=max(WORKERS) + 1, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        samples = interleaved(functions, 1 if job.quick else _ROUNDS, errors)
    finally:
        ray.shutdown()
    rows[ALONE]["seconds"] = samples.get(ALONE, [])
    yield from (failure(CASE, name, errors[name]) if name in errors else row for name, row in rows.items())


def _alone(encoder: FastEncoder, texts: list[str]) -> None:
    """One process on the batches that a worker gets."""
    for part in parts(texts, _BATCH):
        encoder.encode(part)


def _unscaled(workers: int, sentences: int) -> Row:
    """The row of so many workers before the first round."""
    return {
        "case": CASE,
        "contender": name_of_workers(workers),
        "workers": workers,
        "sentences": sentences - workers * _BATCH,
        "seconds": [],
        "start_seconds": [],
    }


def _scale(row: Row, export: Path, texts: list[str], expected: Vectors) -> None:
    """Adds a round of workers once they run: the start and first batch of each is timed by itself and taken off."""
    workers = row["workers"]
    start, _ = _on_ray(export, texts[: workers * _BATCH], workers)
    whole, vectors = _on_ray(export, texts, workers)
    require_equal(f"encode_dataset with {workers} workers", vectors, expected)
    row["start_seconds"].append(start)
    row["seconds"].append(whole - start)


def _on_ray(export: Path, texts: list[str], workers: int) -> tuple[float, Vectors]:
    """Seconds from the start of the workers to the last block, and the vectors in the order of the texts."""
    import ray

    from ditto_fast.distributed import encode_dataset

    rows = [{"id": i, "text": text} for i, text in enumerate(texts)]
    dataset = ray.data.from_items(rows, override_num_blocks=-(-len(texts) // _BATCH))
    encoded = encode_dataset(dataset, export, concurrency=workers, batch_size=_BATCH)
    started = time.perf_counter()
    encoded = encoded.materialize()
    seconds = time.perf_counter() - started
    by_id = sorted(encoded.take_all(), key=lambda row: int(row["id"]))
    return seconds, np.array([row["embedding"] for row in by_id], np.float32)
