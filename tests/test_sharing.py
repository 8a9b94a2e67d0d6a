from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto_fast.batches import CPU_RULE, BatchRule, plan_batches
from ditto_fast.scheduler import Scheduler
from ditto_fast.sharing import share_batches


def _end(batches: list, lengths: list[int], threads: int) -> int:
    free = [0] * threads
    for batch in batches:
        first = free.index(min(free))
        free[first] += CPU_RULE.run_tokens + len(batch) * lengths[int(batch[0])]
    return max(free)


@given(
    lengths=st.lists(st.integers(0, 300), max_size=40),
    batch_size=st.none() | st.integers(1, 10),
    uniform=st.booleans(),
    threads=st.integers(1, 20),
)
def test_every_text_is_in_one_batch_and_the_costliest_batch_first(
    lengths: list[int], batch_size: int | None, uniform: bool, threads: int
):
    rule = BatchRule(100, 8, batch_size, uniform)
    batches = share_batches(lengths, rule, threads)
    assert sorted(int(i) for batch in batches for i in batch) == list(range(len(lengths)))
    costs = [len(batch) * max(lengths[i] for i in batch) for batch in batches]
    assert costs == sorted(costs, reverse=True)
    for batch, cost in zip(batches, costs, strict=True):
        assert len(batch) <= (batch_size or len(batch))
        assert batch_size is not None or len(batch) == 1 or cost <= 100
        assert not uniform or len({lengths[i] for i in batch}) == 1


@given(lengths=st.lists(st.integers(1, 200), min_size=200, max_size=300), threads=st.integers(1, 16))
def test_threads_are_done_no_later_than_with_full_batches(lengths: list[int], threads: int):
    full = plan_batches(lengths, CPU_RULE)
    assert _end(share_batches(lengths, CPU_RULE, threads), lengths, threads) <= _end(full, lengths, threads) * 1.05


@pytest.mark.parametrize(
    ("lengths", "threads", "counts"),
    [
        ([128] * 8, 2, [2] * 4),  # not 3, 3, 2
        ([64] * 32, 2, [4] * 8),  # not 6, 6, 6, 6, 6, 2
        ([60, 50, 10, 10, 10], 2, [1, 1, 2, 1]),  # two batches would pad the three short texts to fifty tokens
        ([16] * 32, 8, [4] * 8),
        ([16], 8, [1]),
        ([], 8, []),
    ],
)
def test_a_short_list_leaves_no_thread_without_work(lengths: list[int], threads: int, counts: list[int]):
    assert [len(batch) for batch in share_batches(lengths, CPU_RULE, threads)] == counts


def test_only_a_short_list_is_shared_out_and_only_where_it_may_be():
    scheduler = Scheduler(lambda _: [], lambda _: np.zeros((1, 1)), 1, num_threads=2)
    eight = [np.zeros(128, np.int64)] * 8
    assert [len(batch) for batch in scheduler._plan(eight, CPU_RULE, 1)] == [2, 2, 2, 2]
    assert [len(batch) for batch in scheduler._plan(eight, CPU_RULE, 2)] == [3, 3, 2]
    assert [len(batch) for batch in scheduler._plan(eight, replace(CPU_RULE, spread=False), 1)] == [3, 3, 2]
