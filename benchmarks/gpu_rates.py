"""A GPU's own limits: time by its events, copy bandwidth and matrix rate as measured, published rates by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from measure import median

from ditto_fast.kernels.roofline import GPUS, Gpu

NEEDS_CUDA = "needs CUDA"
_COPIED = 2**30  # bytes
_SIDE = 8192  # of the matrices that are multiplied
_HEAD_START = 10**8  # cycles that the device sleeps, so that the host queues every call before the first runs


def seconds_of(call: Callable[[], object], device: str, repeats: int) -> list[float]:
    """Seconds of each call after two warm ones, by CUDA's events where there is a GPU."""
    for _ in range(2):
        call()
    if device == "cpu":
        samples = []
        for _ in range(repeats):
            started = time.perf_counter()
            call()
            samples.append(time.perf_counter() - started)
        return samples
    event: Any = torch.cuda.Event  # untyped
    marks = [event(enable_timing=True) for _ in range(repeats + 1)]
    torch.cuda.synchronize()
    sleep: Any = torch.cuda._sleep  # torch's own benchmarks use it; without it, short calls would time the host
    sleep(_HEAD_START)
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1000 for before, after in pairwise(marks)]


def copy_bandwidth(device: str, repeats: int, size: int = _COPIED) -> tuple[float, list[float]]:
    """Bytes a second, read and written, of a copy within the device's memory, and its samples."""
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    samples = seconds_of(lambda: target.copy_(source), device, repeats)
    return 2 * size / median(samples), samples


def matrix_rate(device: str, repeats: int, dtype: torch.dtype, side: int = _SIDE) -> tuple[float, list[float]]:
    """Operations a second of a large matrix product, and its samples."""
    a = torch.randn(side, side, dtype=dtype, device=device)
    samples = seconds_of(lambda: a @ a, device, repeats)
    return 2 * side**3 / median(samples), samples


def card(name: str, bandwidth: float, rate: float) -> Gpu:
    """The published figures of a GPU that is known by its name, else those measured.

    A card that is not known is taken to do fp32 at a sixteenth of its matrix rate.
    """
    known = [gpu for gpu in GPUS if gpu.name.split()[0] in name]
    return replace(known[0], name=name) if known else Gpu(name, bandwidth, rate, rate / 16)
