"""Launch settings: pure, and within what Triton accepts for every size."""

import pytest
import torch

from ditto_fast.kernels.settings import TABLE, launch_settings

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def is_power_of_two(number):
    return number > 0 and number & (number - 1) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", ["diagonal", "pool", "ditto"])
def test_tiles_are_powers_of_two_that_cover_the_sizes(kernel, dtype):
    for size in (1, 15, 16, 17, 64, 200, 256):
        chosen = launch_settings(kernel, dtype=dtype, tokens=size, head_dim=size, batch=size, hidden=size)
        tiles = (chosen.block_t, chosen.block_d, chosen.rows, chosen.block_h, chosen.num_warps)
        assert all(is_power_of_two(tile) for tile in tiles)
        assert chosen.block_d >= max(16, size)
        assert chosen.block_t >= 16  # the least that tl.dot takes
        assert chosen == launch_settings(kernel, dtype=dtype, tokens=size, head_dim=size, batch=size, hidden=size)


def test_a_tile_is_no_larger_than_the_sequence_needs():
    blocks = [launch_settings("diagonal", dtype=torch.float16, tokens=t).block_t for t in (1, 17, 33, 64, 4096)]
    assert blocks == [16, 32, 64, 64, 64]


def test_wide_heads_take_smaller_tiles():
    blocks = [launch_settings("diagonal", dtype=torch.float16, tokens=512, head_dim=d).block_t for d in (64, 128, 256)]
    assert blocks == [64, 64, 32]


@pytest.mark.parametrize("hidden", [1, 100, 768, 1024, 5000])
def test_the_norm_needs_the_whole_row_in_one_program(hidden):
    for kernel in ("pool", "ditto"):
        chosen = launch_settings(kernel, dtype=torch.float16, batch=1, hidden=hidden, whole_row=True)
        assert chosen.block_h >= hidden


def test_few_sequences_are_spread_over_more_programs():
    def programs(batch):
        return batch * -(-768 // launch_settings("pool", dtype=torch.float16, batch=batch, hidden=768).block_h)

    assert programs(1) == 12
    assert programs(64) >= 264
    assert programs(4096) == 3 * 4096


def test_the_table_has_one_row_for_each_kernel_and_element_size():
    assert sorted(TABLE) == [(kernel, size) for kernel in ("diagonal", "ditto", "pool") for size in (2, 4)]
