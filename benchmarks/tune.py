"""Rewrites the kernels' table of launch settings from measurements on this machine's GPU: python benchmarks/tune.py."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from ditto_fast.cli.console import run, stderr, stdout
from ditto_fast.errors import ProviderError
from ditto_fast.kernels import diagonal_attention, ditto_pool, weighted_pool
from ditto_fast.kernels import settings as launch
from ditto_fast.kernels.settings import TABLE, Row

SETTINGS = Path(launch.__file__)
TYPES = {2: torch.float16, 4: torch.float32}
# (B, T, H): a search engine's short texts, a corpus's paragraphs, the position table's end; D = 64
SHAPES = ((1024, 16, 768), (256, 64, 768), (128, 128, 768), (32, 512, 768))


def candidates(kernel: str, row: Row) -> Iterator[Row]:
    """Rows around the table's: each of tile, warps, stages and state values halved, kept and doubled, within reason."""
    tiles = (0,) if kernel == "pool" else sorted({16, 32, 64, row.block_t})
    states = (0,) if kernel == "diagonal" else sorted({1024, 2048, 4096, 8192})
    stages = (1,) if kernel == "pool" else (1, 2, 3)
    for block_t, state_values, num_warps, num_stages in itertools.product(tiles, states, (2, 4, 8), stages):
        yield replace(row, block_t=block_t, state_values=state_values, num_warps=num_warps, num_stages=num_stages)


def work(kernel: str, dtype: torch.dtype, shape: tuple[int, int, int], device: str) -> Callable[[], torch.Tensor]:
    """The operator on seeded tensors of one shape."""
    batch, tokens, hidden = shape
    generator = torch.Generator(device).manual_seed(0)

    def random(width: int) -> torch.Tensor:
        return torch.randn(batch, tokens, width, generator=generator, device=device).to(dtype)

    query, key, first, last = random(64), random(64), random(hidden), random(hidden)
    weights = torch.rand(batch, tokens, generator=generator, device=device)
    if kernel == "diagonal":
        return lambda: diagonal_attention(query, key)
    if kernel == "pool":
        return lambda: weighted_pool(weights, first, last)
    return lambda: ditto_pool(query, key, first, last)


def milliseconds(kernel: str, size: int, row: Row) -> float:
    """Geometric mean over the shapes; infinite where the row does not compile or gives another result."""
    from triton.testing import do_bench

    total = 0.0
    for shape in SHAPES:
        if kernel == "ditto" and shape[1] > launch.ONE_LAUNCH_MAX_TOKENS:
            continue
        function = work(kernel, TYPES[size], shape, "cuda")
        expected = function()
        kept = TABLE[kernel, size]
        TABLE[kernel, size] = row
        try:
            if not torch.allclose(function(), expected, rtol=1e-3, atol=1e-4):
                return math.inf
            total += math.log(do_bench(function))
        except Exception as error:  # what a compiler or a launch refuses has no class of its own
            stderr.print(f"{kernel} {size} {row}: {error}", style="dim", markup=False)
            return math.inf
        finally:
            TABLE[kernel, size] = kept
    return math.exp(total / len(SHAPES))


def rewritten(source: str, best: dict[tuple[str, int], Row]) -> str:
    """The text of settings.py with the rows of `best` in the table."""
    for (kernel, size), row in best.items():
        pattern = rf'\("{kernel}", {size}\): Row\(.*\),'
        source, count = re.subn(pattern, f'("{kernel}", {size}): {row},', source)
        if count != 1:
            raise ValueError(f"settings.py has {count} rows for {kernel} of {size} bytes; 1 was expected.")
    return source


def _tune(write: Annotated[bool, typer.Option("--write", help="Rewrite the table in settings.py.")] = False) -> None:
    """Measure every row of the table and its neighbours, and print the fastest."""
    if not torch.cuda.is_available():
        raise ProviderError("Tuning needs a CUDA device, and torch sees none here. The table stays as it is.")
    best: dict[tuple[str, int], Row] = {}
    for (kernel, size), row in TABLE.items():
        times = {candidate: milliseconds(kernel, size, candidate) for candidate in candidates(kernel, row)}
        best[kernel, size] = min(times, key=lambda candidate: times[candidate])
        gain = times.get(row, math.nan) / times[best[kernel, size]]
        stdout.print(f"{kernel}, {size} bytes: {best[kernel, size]} ({gain:.2f}x the table's)", highlight=False)
    if write:
        SETTINGS.write_text(rewritten(SETTINGS.read_text(encoding="utf-8"), best), encoding="utf-8")


if __name__ == "__main__":
    run(_tune)
