"""From the graph's three outputs to one vector a sentence: every pooling by name, in numpy.

With A_ii the head's attention diagonal, h0 the first and hL the last hidden states, m the attention mask
and sums over tokens i, [CLS] and [SEP] included. Ditto is the paper's formula as its code has it: no
division by the number of tokens, 1/2 kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


def _weighted_sum(weights: FloatArray, states: Sequence[FloatArray]) -> FloatArray:
    """Sum over tokens of weights (B, T) times the average of `states` (B, T, H each): (B, H)."""
    rows = weights[:, None, :]
    total = np.matmul(rows, states[0])
    for state in states[1:]:
        total += np.matmul(rows, state)
    pooled: FloatArray = total[:, 0, :] / np.float32(len(states))
    return pooled


def _mean_weights(mask: IntArray) -> FloatArray:
    """1/n on the n real tokens of each row, 0 on padding and in a fully masked row: (B, T)."""
    real = mask.astype(np.float32)
    weights: FloatArray = real / np.maximum(real.sum(axis=1, keepdims=True), np.float32(1))
    return weights


@dataclass(frozen=True)
class Pooling:
    """A pooling: its name, formula, what weights the tokens and which hidden states are averaged."""

    name: str
    formula: str
    weights: Literal["diagonal", "mean", "first token"]
    states: tuple[Literal["first", "last"], ...]


DEFAULT_POOLING = "ditto-first-last"

POOLINGS: dict[str, Pooling] = {
    pooling.name: pooling
    for pooling in (
        Pooling(DEFAULT_POOLING, "1/2 sum_i A_ii (h0_i + hL_i)", "diagonal", ("first", "last")),
        Pooling("ditto-last", "sum_i A_ii hL_i", "diagonal", ("last",)),
        Pooling("ditto-first", "sum_i A_ii h0_i", "diagonal", ("first",)),
        Pooling("mean-first-last", "1/2 sum_i m_i (h0_i + hL_i) / sum_i m_i", "mean", ("first", "last")),
        Pooling("mean-last", "sum_i m_i hL_i / sum_i m_i", "mean", ("last",)),
        Pooling("cls", "hL_1", "first token", ("last",)),
    )
}


def pool(name: str, diagonal: FloatArray, first: FloatArray, last: FloatArray, mask: IntArray) -> FloatArray:
    """Pools a batch's token outputs by the named formula.

    Args:
        name: A key of `POOLINGS`.
        diagonal: A_ii (B, T), 0 on padding.
        first: h0 (B, T, H).
        last: hL (B, T, H).
        mask: attention mask (B, T), 1 on real tokens.

    Returns:
        Embeddings (B, H), float32.

    Example:
        >>> diagonal = np.array([[0.5, 1.0, 0.0]], np.float32)
        >>> first, last = np.ones((1, 3, 2), np.float32), np.full((1, 3, 2), 3, np.float32)
        >>> pool("ditto-first-last", diagonal, first, last, np.array([[1, 1, 0]]))
        array([[3., 3.]], dtype=float32)
    """
    pooling = POOLINGS[name]
    states = [{"first": first, "last": last}[state] for state in pooling.states]
    if pooling.weights == "first token":
        return np.ascontiguousarray(states[0][:, 0])
    return _weighted_sum(diagonal if pooling.weights == "diagonal" else _mean_weights(mask), states)


def normalize(embeddings: FloatArray) -> FloatArray:
    """Divides each row of (n, H) by its L2 norm, taken in float64; a zero row stays zero.

    Example:
        >>> normalize(np.array([[3, 4], [0, 0]], np.float32))
        array([[0.6, 0.8],
               [0. , 0. ]], dtype=float32)
    """
    norms = np.linalg.norm(embeddings.astype(np.float64), axis=-1, keepdims=True)
    return (embeddings / np.where(norms == 0, 1, norms)).astype(np.float32)
