"""How fast the kernels could be at best: bytes and operations of each, and the time a GPU needs for them.

    floor = max(bytes / bandwidth, score flops / matrix rate, sum flops / fp32 rate, exponentials / exp rate)

    python -m ditto_fast.kernels.roofline [--write docs/kernels.md]

A model, not a measurement: real kernels also launch (a few microseconds), fill and drain.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ditto_fast.kernels.markdown import header, row, write_table
from ditto_fast.kernels.settings import ONE_LAUNCH_MAX_TOKENS, launch_settings

RESULT_BYTES = 4  # diagonals and embeddings are float32


@dataclass(frozen=True)
class Gpu:
    """Published vendor figures of one GPU (data sheets of the SXM form; dense, without sparsity).

    Args:
        name: Product.
        bandwidth: Bytes a second of its memory.
        matrix_rate: fp16 and bf16 matrix operations a second.
        fp32_rate: float32 operations a second outside the matrix units.
    """

    name: str
    bandwidth: float
    matrix_rate: float
    fp32_rate: float

    @property
    def exp_rate(self) -> float:
        """Exponentials a second: a multiprocessor makes 16 a cycle beside 128 fused multiply-adds."""
        return self.fp32_rate / (2 * 128 / 16)


GPUS = (
    Gpu("A100 80GB", 2.039e12, 312e12, 19.5e12),
    Gpu("H100", 3.35e12, 989e12, 67e12),
    Gpu("H200", 4.8e12, 989e12, 67e12),
    Gpu("B200", 8.0e12, 2250e12, 75e12),
)


@dataclass(frozen=True)
class Work:
    """What one call does.

    Args:
        least_bytes: Each input read once, each result written once.
        design_bytes: What our programs read and write, most repeats of it from cache.
        matrix_flops: Multiplications and additions of q k^T.
        plain_flops: Those of the weighted sum.
        exponentials: One a score.
        dtype: Of the inputs; float32 scores are not made by matrix units.
    """

    least_bytes: int
    design_bytes: int
    matrix_flops: int
    plain_flops: int
    exponentials: int
    dtype: torch.dtype

    def seconds(self, gpu: Gpu) -> dict[str, float]:
        """Time that each resource needs by itself."""
        score_rate = gpu.fp32_rate if self.dtype == torch.float32 else gpu.matrix_rate
        return {
            "memory": self.least_bytes / gpu.bandwidth,
            "scores": self.matrix_flops / score_rate,
            "sum": self.plain_flops / gpu.fp32_rate,
            "exp": self.exponentials / gpu.exp_rate,
        }

    def floor_us(self, gpu: Gpu) -> float:
        """Microseconds that these units need at least, launches not counted."""
        return 1e6 * max(self.seconds(gpu).values())

    def limit(self, gpu: Gpu) -> str:
        """The resource that sets the floor."""
        seconds = self.seconds(gpu)
        return max(seconds, key=lambda name: seconds[name])


def diagonal_work(
    *, batch: int, tokens: int, head_dim: int, dtype: torch.dtype, heads: int = 1, kernel: str = "diagonal"
) -> Work:
    """Work of the diagonals of `heads` heads: (B, T, N, D) twice in, (B, N, T) out.

    Example:
        >>> diagonal_work(batch=1, tokens=2, head_dim=4, dtype=torch.float16).least_bytes
        40
    """
    tile = launch_settings(kernel, dtype=dtype, tokens=tokens, head_dim=head_dim).block_t
    rows = batch * heads * tokens
    row_bytes = head_dim * dtype.itemsize
    programs = -(-tokens // tile)  # each of them reads all keys
    return Work(
        least_bytes=rows * (2 * row_bytes + RESULT_BYTES),
        design_bytes=rows * ((1 + programs) * row_bytes + RESULT_BYTES),
        matrix_flops=2 * rows * tokens * head_dim,
        plain_flops=0,
        exponentials=rows * tokens,
        dtype=dtype,
    )


def pool_work(*, batch: int, tokens: int, hidden: int, dtype: torch.dtype) -> Work:
    """Work of the weighted sum: (B, T) and (B, T, H) twice in, (B, H) out.

    Example:
        >>> pool_work(batch=1, tokens=2, hidden=4, dtype=torch.float16).least_bytes
        56
    """
    block_h = launch_settings("pool", dtype=dtype, batch=batch, hidden=hidden).block_h
    states = 2 * batch * tokens * hidden * dtype.itemsize
    results = batch * hidden * RESULT_BYTES
    weights = batch * tokens * RESULT_BYTES
    return Work(
        least_bytes=states + weights + results,
        design_bytes=states + weights * -(-hidden // block_h) + results,
        matrix_flops=0,
        plain_flops=3 * batch * tokens * hidden,  # first + last, times the weight, to the sum
        exponentials=0,
        dtype=dtype,
    )


def ditto_work(*, batch: int, tokens: int, head_dim: int, hidden: int, dtype: torch.dtype) -> Work:
    """Work of ditto_pool, whose diagonal is no result: it is written and read by the design alone."""
    one_launch = tokens <= ONE_LAUNCH_MAX_TOKENS
    kernel = "ditto" if one_launch else "diagonal"
    scores = diagonal_work(batch=batch, tokens=tokens, head_dim=head_dim, dtype=dtype, kernel=kernel)
    pool = pool_work(batch=batch, tokens=tokens, hidden=hidden, dtype=dtype)
    diagonal = batch * tokens * RESULT_BYTES
    pool_bytes = pool.least_bytes if one_launch else pool.design_bytes  # one launch: whole rows of H at once
    return Work(
        least_bytes=scores.least_bytes + pool.least_bytes - 2 * diagonal,
        design_bytes=scores.design_bytes + pool_bytes,
        matrix_flops=scores.matrix_flops,
        plain_flops=pool.plain_flops,
        exponentials=scores.exponentials,
        dtype=dtype,
    )


def cases(dtype: torch.dtype, head_dim: int = 64, hidden: int = 768) -> list[tuple[str, Work]]:
    """Calls of a base-sized encoder, from short sentences to documents."""
    named = []
    for batch, tokens in ((4096, 16), (1024, 32), (1024, 128), (256, 512), (32, 4096)):
        work = ditto_work(batch=batch, tokens=tokens, head_dim=head_dim, hidden=hidden, dtype=dtype)
        named.append((f"ditto_pool, B {batch}, T {tokens}", work))
    for batch, tokens, heads in ((1024, 128, 1), (256, 512, 1), (256, 128, 12)):
        work = diagonal_work(batch=batch, tokens=tokens, head_dim=head_dim, dtype=dtype, heads=heads)
        name = "diagonal_attention" if heads == 1 else f"all_head_diagonals, N {heads}"
        named.append((f"{name}, B {batch}, T {tokens}", work))
    named.append(("weighted_pool, B 1024, T 128", pool_work(batch=1024, tokens=128, hidden=hidden, dtype=dtype)))
    return named


def table() -> list[str]:
    """The Markdown table of `cases` in fp16."""
    lines = header(["call (fp16, D 64, H 768)", "least MB", "our MB", "GFLOP", "Gexp", *(gpu.name for gpu in GPUS)])
    for name, work in cases(torch.float16):
        floors = [f"{work.floor_us(gpu):.1f} ({work.limit(gpu)})" for gpu in GPUS]
        flops = (work.matrix_flops + work.plain_flops) / 1e9
        sizes = [f"{work.least_bytes / 1e6:.1f}", f"{work.design_bytes / 1e6:.1f}"]
        lines.append(row([name, *sizes, f"{flops:.2f}", f"{work.exponentials / 1e9:.3f}", *floors]))
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m ditto_fast.kernels.roofline", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="also put the table into this file")
    options = parser.parse_args(arguments)
    sys.stdout.write("\n".join(table()) + "\n")
    if options.write is not None:
        write_table(options.write, "roofline", table())


if __name__ == "__main__":
    main()
