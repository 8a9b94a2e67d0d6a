"""Suite kernels: our fused operators against torch's, beside the floor that roofline.py gives."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from gpu_rates import NEEDS_CUDA, card, copy_bandwidth, matrix_rate, seconds_of
from job import Job, Row, Vectors, failure
from kernel_ways import Call, Tensors, ditto_expected, ditto_ways, pool_expected, pool_ways
from measure import median

from ditto_fast.errors import ParityError
from ditto_fast.kernels.roofline import Gpu, Work, ditto_work, pool_work
from ditto_fast.similarity import similarity_pairwise
from ditto_fast.tolerances import MAX_NORM_ERRORS, MIN_COSINES, norm_error

Shape = tuple[int, int]
SHAPES: tuple[Shape, ...] = ((4096, 16), (1024, 128), (256, 512))  # B, T
HEADS, HEAD_DIM = 12, 64
_REPEATS = 30


def suite(job: Job) -> Iterator[Row]:
    """The device's rates, then a row a way and case; one row that says so where there is no CUDA."""
    if not torch.cuda.is_available():
        yield {"case": "kernels", "contender": "ditto_pool", "missing": NEEDS_CUDA}
        return
    repeats = 5 if job.quick else _REPEATS
    bandwidth, copies = copy_bandwidth("cuda", repeats)
    rate, products = matrix_rate("cuda", repeats, torch.float16)
    name = torch.cuda.get_device_name()
    yield {"case": "device", "contender": "copy", "gpu": name, "seconds": copies, "gb_per_second": bandwidth / 1e9}
    yield {"case": "device", "contender": "matmul", "gpu": name, "seconds": products, "tflops": rate / 1e12}
    gpu = card(name, bandwidth, rate)
    for shape in SHAPES[:2] if job.quick else SHAPES:
        yield from kernel_rows(shape, torch.float16, "cuda", gpu, repeats)


def kernel_rows(
    shape: Shape, dtype: torch.dtype, device: str, gpu: Gpu, repeats: int, heads: int = HEADS, head_dim: int = HEAD_DIM
) -> Iterator[Row]:
    """Rows of both operators at one shape (B, T); each way is checked before it is timed."""
    batch, tokens = shape
    x = Tensors.random(batch, tokens, heads, head_dim, dtype, device)
    hidden = heads * head_dim
    where = f"B {batch}, T {tokens}"
    pool = pool_work(batch=batch, tokens=tokens, hidden=hidden, dtype=dtype)
    ditto = ditto_work(batch=batch, tokens=tokens, head_dim=head_dim, hidden=hidden, dtype=dtype)
    yield from _rows(f"ditto, {where}", ditto_ways(x, device == "cuda"), ditto_expected(x), ditto, device, gpu, repeats)
    yield from _rows(f"pool, {where}", pool_ways(x), pool_expected(x), pool, device, gpu, repeats)


def _rows(
    case: str, ways: dict[str, Call], expected: torch.Tensor, work: Work, device: str, gpu: Gpu, repeats: int
) -> Iterator[Row]:
    for name, call in ways.items():
        try:
            cosine = _checked(name, call(), expected)
            seconds = seconds_of(call, device, repeats)
        except Exception as error:  # such as out of memory: it becomes a row
            yield failure(case, name, error)
            continue
        yield {"case": case, "contender": name, "seconds": seconds, "cosine_min": cosine, **_rates(seconds, work, gpu)}


def _checked(name: str, actual: torch.Tensor, expected: torch.Tensor) -> float:
    as_array = partial(np.asarray, dtype=np.float32)
    rows: list[Vectors] = [as_array(tensor.float().cpu()) for tensor in (actual, expected)]
    cosine, off = float(similarity_pairwise(*rows).min()), norm_error(*rows)
    if not (cosine >= MIN_COSINES["fp16"] and off <= MAX_NORM_ERRORS["fp16"]):
        raise ParityError(f"{name}: smallest cosine with the reference is {cosine:.4f}, a norm is off by {off:.2%}.")
    return cosine


def _rates(seconds: list[float], work: Work, gpu: Gpu) -> dict[str, float | str]:
    middle = median(seconds)
    return {
        "gb_per_second": work.least_bytes / middle / 1e9,
        "tflops": (work.matrix_flops + work.plain_flops) / middle / 1e12,
        "of_floor": work.floor_us(gpu) / 1e6 / middle,
        "limit": work.limit(gpu),
    }
