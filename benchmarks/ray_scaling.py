"""Rates of encode_dataset with one and two workers of one thread, beside the prediction of docs/distributed.md.

python benchmarks/ray_scaling.py --out benchmarks/results/distributed/ray.jsonl
"""

from __future__ import annotations

import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import ray
import typer
from numpy.typing import NDArray
from record import append, environment
from sentences import synthetic_sentences
from workspace import HEAD, exported, minilm

from ditto_fast import FastEncoder
from ditto_fast.cli.console import run, stdout
from ditto_fast.cpus import available_cpus
from ditto_fast.distributed import encode_dataset
from ditto_fast.errors import ParityError
from ditto_fast.tolerances import within

FloatArray = NDArray[np.float32]

_BATCH = 512
_WORKERS = (1, 2)


def _alone(encoder: FastEncoder, texts: list[str]) -> float:
    """Seconds of one process on the batches that a worker gets."""
    started = time.perf_counter()
    for start in range(0, len(texts), _BATCH):
        encoder.encode(texts[start : start + _BATCH])
    return time.perf_counter() - started


def _on_ray(export: Path, texts: list[str], workers: int) -> tuple[float, FloatArray]:
    """Seconds from the start of the workers to the last block, and the vectors in the order of the texts."""
    rows = [{"id": i, "text": text} for i, text in enumerate(texts)]
    dataset = ray.data.from_items(rows, override_num_blocks=-(-len(texts) // _BATCH))
    encoded = encode_dataset(dataset, export, concurrency=workers, batch_size=_BATCH)
    started = time.perf_counter()
    encoded = encoded.materialize()
    seconds = time.perf_counter() - started
    by_id = sorted(encoded.take_all(), key=lambda row: int(row["id"]))
    return seconds, np.array([row["embedding"] for row in by_id], np.float32)


def _scaling(export: Path, texts: list[str], workers: int, rounds: int, expected: FloatArray) -> dict[str, Any]:
    """Rates of so many workers once they run: the first batch of each, with their start, is timed and taken off."""
    first, starts, rates = workers * _BATCH, [], []
    for _ in range(rounds):
        start, _ = _on_ray(export, texts[:first], workers)
        seconds, vectors = _on_ray(export, texts, workers)
        if not within(vectors, expected):
            raise ParityError(f"{workers} workers do not give the vectors of one process; nothing is recorded.")
        starts.append(start)
        rates.append((len(texts) - first) / (seconds - start))
    return {"workers": workers, "first_batch_seconds": starts, "rates": rates, "rate": float(np.median(rates))}


def _measure(
    sentences: Annotated[int, typer.Option(min=8 * _BATCH, help="Synthetic sentences to encode.")] = 20000,
    rounds: Annotated[int, typer.Option(help="Rounds; the median is reported.")] = 3,
    out: Annotated[Path | None, typer.Option(help="A JSON line is added to it; nothing is written without.")] = None,
) -> None:
    """Measure one process alone, then 1 and 2 workers, and compare with workers x the rate of one process."""
    export, texts = exported(minilm(), HEAD), synthetic_sentences(sentences)
    found = environment()
    encoder = FastEncoder(export, num_threads=1)
    expected = encoder.encode(texts)
    alone = float(np.median([sentences / _alone(encoder, texts) for _ in range(rounds)]))
    ray.init(num_cpus=max(_WORKERS) + 1, include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    stdout.print(f"one process, one thread: {alone:.0f} sentences/s", highlight=False)
    rows = []
    for workers in _WORKERS:
        row = _scaling(export, texts, workers, rounds, expected)
        rows.append({**row, "predicted": alone * min(workers, available_cpus())})
        efficiency, first = row["rate"] / rows[-1]["predicted"], np.median(row["first_batch_seconds"])
        stdout.print(
            f"{workers} worker(s): {row['rate']:.0f} sentences/s, predicted {rows[-1]['predicted']:.0f} (efficiency "
            f"{efficiency:.2f}); start and first batch {first:.1f} s",
            highlight=False,
        )
    ray.shutdown()
    if out is not None:
        record = {"model": "all-MiniLM-L6-v2", "sentences": sentences, "batch_size": _BATCH, "alone": alone}
        append(out, [{**found, "ray": version("ray"), **record, "workers": rows}])
        stdout.print(f"recorded in {out}", highlight=False)


if __name__ == "__main__":
    run(_measure)
