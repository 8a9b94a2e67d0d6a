"""Launch settings: one pure function and one small table, no tuning at run time.

The table was chosen without a GPU: by what the compiler reports (`python -m ditto_fast.kernels.aot`: no
spilled register, matrix instructions for 16-bit inputs) and by reasoning, which is beside each column.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

# Up to here one launch: a sequence is a few score tiles, so one program owns it from the scores to the
# embedding, and a launch (a few microseconds, as much as the whole work at these sizes) is saved. Longer
# sequences take two: their tiles are spread over many programs, which one program would do in a row.
ONE_LAUNCH_MAX_TOKENS = 128

# Blocks of hidden values: 256 of 16 bits are whole cache lines for every warp; few sequences get smaller
# blocks until each multiprocessor (132 on an H100) has two programs, but no smaller than a cache line.
MAX_POOL_BLOCK_H, MIN_POOL_BLOCK_H, ENOUGH_PROGRAMS = 256, 64, 264


@dataclass(frozen=True)
class LaunchSettings:
    """Tile sizes and launch options of one kernel.

    Args:
        block_t: Edge of the square tile of scores, in tokens.
        block_d: Head size, rounded up to a power of two.
        rows: Tokens whose hidden states are added in one step.
        block_h: Hidden values a program pools.
        num_warps: Warps of a program.
        num_stages: Key tiles in flight.
    """

    block_t: int = 16
    block_d: int = 16
    rows: int = 1
    block_h: int = 16
    num_warps: int = 4
    num_stages: int = 1


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Args:
        block_t: Largest score tile; smaller ones serve fewer tokens. 64 is what wgmma and tcgen05 want.
        score_values: Most values of a tile of queries or keys, block_t x D: twice as many spill registers.
        state_values: Values of a tile of hidden states, rows x block_h: 8 to 32 sums a thread.
        num_warps: Warps of a program.
        num_stages: Key tiles in flight.
    """

    block_t: int
    score_values: int
    state_values: int
    num_warps: int
    num_stages: int


TABLE: dict[tuple[str, int], Row] = {
    # (kernel, bytes of an element)
    ("diagonal", 2): Row(block_t=64, score_values=8192, state_values=0, num_warps=4, num_stages=2),
    ("diagonal", 4): Row(block_t=32, score_values=4096, state_values=0, num_warps=4, num_stages=3),
    ("pool", 2): Row(block_t=0, score_values=0, state_values=4096, num_warps=8, num_stages=1),
    ("pool", 4): Row(block_t=0, score_values=0, state_values=2048, num_warps=4, num_stages=1),
    ("ditto", 2): Row(block_t=64, score_values=8192, state_values=4096, num_warps=4, num_stages=2),
    ("ditto", 4): Row(block_t=32, score_values=4096, state_values=2048, num_warps=4, num_stages=3),
}


def next_power_of_2(number: int) -> int:
    """Smallest power of two that is at least `number`.

    Example:
        >>> [next_power_of_2(number) for number in (1, 3, 64, 65)]
        [1, 4, 64, 128]
    """
    return 1 << (number - 1).bit_length()


def launch_settings(
    kernel: str,
    *,
    dtype: torch.dtype,
    tokens: int = 1,
    head_dim: int = 1,
    batch: int = 1,
    hidden: int = 1,
    whole_row: bool = False,
) -> LaunchSettings:
    """Chooses the tiles of one launch.

    Args:
        kernel: "diagonal", "pool" or "ditto" (both in one launch).
        dtype: Of what the kernel reads most of: query and key, or the hidden states.
        tokens: T, tokens of the longest sequence.
        head_dim: D.
        batch: B, the number of sequences.
        hidden: H.
        whole_row: One program pools all of H, as the L2 norm needs.

    Example:
        >>> launch_settings("diagonal", dtype=torch.float16, tokens=20, head_dim=48).block_t
        32
    """
    row = TABLE[kernel, dtype.itemsize]
    block_d = max(16, next_power_of_2(head_dim))
    block_t = min(row.block_t, row.score_values // block_d, next_power_of_2(tokens))
    block_h = next_power_of_2(hidden)
    if kernel == "pool" and not whole_row:
        block_h = min(block_h, MAX_POOL_BLOCK_H)
        while block_h > MIN_POOL_BLOCK_H and batch * -(-hidden // block_h) < ENOUGH_PROGRAMS:
            block_h //= 2
    return LaunchSettings(
        block_t=max(16, block_t),  # tl.dot takes 16 rows or more
        block_d=block_d,
        rows=max(1, row.state_values // block_h),
        block_h=block_h,
        num_warps=row.num_warps,
        num_stages=row.num_stages,
    )
