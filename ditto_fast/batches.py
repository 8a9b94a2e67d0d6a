"""Batches of similar length, padded on the right to the longest of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


def plan_batches(lengths: Sequence[int], batch_size: int) -> list[IntArray]:
    """Positions of the texts of each batch, longest texts first, so that little padding is needed.

    Longest first also makes the largest allocation the first one. Equal lengths keep their order.

    Args:
        lengths: Number of tokens of each text.
        batch_size: Texts of a batch at most.

    Example:
        >>> [batch.tolist() for batch in plan_batches([3, 9, 3, 8], batch_size=2)]
        [[1, 3], [0, 2]]
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").astype(np.int64)
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def pad(rows: Sequence[IntArray], pad_id: int) -> tuple[IntArray, IntArray]:
    """Pads token ids on the right to the longest row.

    Args:
        rows: Token ids, one array (T,) a text.
        pad_id: Id of the padding token.

    Returns:
        input_ids (B, T) and attention_mask (B, T), 1 on real tokens.

    Example:
        >>> ids, mask = pad([np.array([5, 6]), np.array([7])], pad_id=0)
        >>> ids.tolist(), mask.tolist()
        ([[5, 6], [7, 0]], [[1, 1], [1, 0]])
    """
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    mask = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
    input_ids = np.full(mask.shape, pad_id, dtype=np.int64)
    input_ids[mask] = np.concatenate(rows) if len(rows) else []
    return input_ids, mask.astype(np.int64)
