"""The bytes-and-operations model against counts made by hand."""

import pytest
import torch

from ditto_fast.kernels.markdown import read_table
from ditto_fast.kernels.roofline import GPUS, Gpu, Work, cases, diagonal_work, ditto_work, pool_work, table
from ditto_fast.kernels.settings import ONE_LAUNCH_MAX_TOKENS

HALF = torch.float16


def test_diagonal_counted_by_hand():
    work = diagonal_work(batch=2, tokens=3, head_dim=4, dtype=HALF)
    assert work.least_bytes == 2 * 3 * 4 * 2 * 2 + 2 * 3 * 4  # query and key, diagonal
    assert work.design_bytes == work.least_bytes  # one tile: every key is read once
    assert work.matrix_flops == 2 * (3 * 3) * (4 * 2)
    assert work.exponentials == 2 * 3 * 3


def test_the_design_reads_keys_once_for_each_tile_of_queries():
    work = diagonal_work(batch=1, tokens=128, head_dim=64, dtype=HALF)  # two tiles of 64
    assert work.design_bytes - work.least_bytes == 128 * 64 * 2


def test_all_heads_are_as_many_diagonals():
    one, twelve = (diagonal_work(batch=2, tokens=32, head_dim=64, dtype=HALF, heads=n) for n in (1, 12))
    assert twelve.least_bytes == 12 * one.least_bytes
    assert twelve.matrix_flops == 12 * one.matrix_flops


def test_pool_counted_by_hand():
    work = pool_work(batch=2, tokens=3, hidden=5, dtype=HALF)
    assert work.least_bytes == 2 * (2 * 3 * 5 * 2) + 2 * 3 * 4 + 2 * 5 * 4  # states, weights, embeddings
    assert work.plain_flops == 3 * 2 * 3 * 5


@pytest.mark.parametrize("tokens", [32, ONE_LAUNCH_MAX_TOKENS + 1])
def test_ditto_is_both_less_the_diagonal_in_between(tokens):
    shape = {"batch": 2, "tokens": tokens, "dtype": HALF}
    both = ditto_work(**shape, head_dim=64, hidden=768)
    scores, pool = diagonal_work(**shape, head_dim=64), pool_work(**shape, hidden=768)
    assert both.least_bytes == 2 * tokens * (2 * 64 + 2 * 768) * 2 + 2 * 768 * 4
    assert both.design_bytes >= both.least_bytes
    assert (both.matrix_flops, both.plain_flops) == (scores.matrix_flops, pool.plain_flops)


def test_the_floor_is_the_slowest_resource():
    gpu = Gpu("even", bandwidth=1e12, matrix_rate=1e12, fp32_rate=16e12)  # 1e12 exponentials
    assert gpu.exp_rate == 1e12
    for name, counts in {"memory": (9, 0, 0, 0), "scores": (1, 9, 0, 0), "exp": (1, 1, 1, 9)}.items():
        least, matrix, plain, exponentials = (count * 10**6 for count in counts)
        work = Work(least, 2 * least, matrix, plain, exponentials, HALF)
        assert (work.limit(gpu), work.floor_us(gpu)) == (name, pytest.approx(9))


def test_float32_scores_run_at_the_plain_rate():
    half, single = (diagonal_work(batch=1, tokens=512, head_dim=64, dtype=t) for t in (HALF, torch.float32))
    ratio = single.seconds(GPUS[1])["scores"] / half.seconds(GPUS[1])["scores"]
    assert ratio == pytest.approx(989 / 67)


def test_the_model_reads_at_least_the_least():
    for _, work in cases(HALF) + cases(torch.float32):
        assert work.design_bytes >= work.least_bytes > 0
        assert all(work.floor_us(gpu) > 0 for gpu in GPUS)


def test_the_table_in_the_docs_is_the_generated_one(docs):
    assert read_table(docs, "roofline") == table()
