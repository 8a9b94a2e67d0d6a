from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ditto_fast.batches import pad, plan_batches


@given(lengths=st.lists(st.integers(0, 50)), batch_size=st.integers(1, 10))
def test_every_text_is_in_one_batch_and_lengths_fall(lengths: list[int], batch_size: int):
    batches = plan_batches(lengths, batch_size)
    order = [int(i) for batch in batches for i in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    sorted_lengths = [lengths[i] for i in order]
    assert sorted_lengths == sorted(lengths, reverse=True)


@given(rows=st.lists(st.lists(st.integers(0, 99), max_size=7), min_size=1, max_size=6))
def test_pad_puts_each_row_first_and_masks_the_rest(rows: list[list[int]]):
    ids, mask = pad([np.array(row, np.int64) for row in rows], pad_id=7)
    assert ids.shape == mask.shape == (len(rows), max(1, *map(len, rows), 1))
    for row, row_ids, row_mask in zip(rows, ids, mask, strict=True):
        assert row_ids.tolist() == row + [7] * (ids.shape[1] - len(row))
        assert row_mask.tolist() == [1] * len(row) + [0] * (ids.shape[1] - len(row))
