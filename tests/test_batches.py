from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto_fast.batches import BatchRule, pad, plan_batches


@given(
    lengths=st.lists(st.integers(0, 50)),
    max_tokens=st.integers(1, 200),
    run_tokens=st.integers(0, 100),
    batch_size=st.none() | st.integers(1, 10),
    uniform=st.booleans(),
)
def test_every_text_is_in_one_batch_that_keeps_the_rule(
    lengths: list[int], max_tokens: int, run_tokens: int, batch_size, uniform: bool
):
    batches = plan_batches(lengths, BatchRule(max_tokens, run_tokens, batch_size, uniform))
    order = [int(i) for batch in batches for i in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[i] for i in order] == sorted(lengths, reverse=True)
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        if batch_size is None:
            assert len(batch) == 1 or len(batch) * longest <= max_tokens
        else:
            assert len(batch) <= batch_size
        if uniform:
            assert {lengths[i] for i in batch} == {longest}


@pytest.mark.parametrize(
    ("lengths", "run_tokens", "batches"),
    [
        ([20] * 5 + [10] * 5, 8, [5, 5]),  # one batch of ten would pad 50 tokens for the 8 of a second run
        ([20] * 5 + [10] * 5, 1000, [10]),
        ([20, 19, 19, 18], 8, [4]),
        ([7, 7, 7], 0, [3]),  # equal cost: no more runs than needed
    ],
)
def test_a_batch_ends_where_a_run_of_its_own_is_cheaper_than_padding(
    lengths: list[int], run_tokens: int, batches: list[int]
):
    assert [len(batch) for batch in plan_batches(lengths, BatchRule(384, run_tokens))] == batches


@given(rows=st.lists(st.lists(st.integers(0, 99), max_size=7), min_size=1, max_size=6))
def test_pad_puts_each_row_first_and_masks_the_rest(rows: list[list[int]]):
    ids, mask = pad([np.array(row, np.int64) for row in rows], pad_id=7)
    assert ids.shape == mask.shape == (len(rows), max(1, *map(len, rows), 1))
    for row, row_ids, row_mask in zip(rows, ids, mask, strict=True):
        assert row_ids.tolist() == row + [7] * (ids.shape[1] - len(row))
        assert row_mask.tolist() == [1] * len(row) + [0] * (ids.shape[1] - len(row))
