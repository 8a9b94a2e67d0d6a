"""Batches of similar length, padded on the right to the longest of each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import neg

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

INPUTS = ("input_ids", "attention_mask", "token_type_ids")  # what graphs are fed, those that each declares


@dataclass(frozen=True)
class BatchRule:
    """How texts are put into batches.

    Args:
        max_tokens: Tokens of a batch at most, padding included; one text may have more.
        run_tokens: What a run costs besides its tokens, in tokens: the larger, the fewer batches and the more padding.
        batch_size: Texts of a batch at most; where it is given, `max_tokens` does not count and batches are full.
        uniform_length: Only texts of one length share a batch, so that nothing is padded.
        spread: A short list of texts is divided among threads and processes; else batches, and with them the last
            bits of the vectors, do not depend on how many there are.
    """

    max_tokens: int
    run_tokens: int
    batch_size: int | None = None
    uniform_length: bool = False
    spread: bool = True


# Suite budget of docs/benchmarks.md measures both; of budgets that are about equal a small one takes less memory.
CPU_RULE = BatchRule(max_tokens=384, run_tokens=8)
# not measured: a GPU wants far more at once, its runs cost far more to start, and it has no threads to share among
GPU_RULE = BatchRule(max_tokens=16384, run_tokens=512, spread=False)


def default_rule(precision: str, on_gpu: bool = False) -> BatchRule:
    """What FastEncoder goes by where it is given nothing else; in int8 padding could tip the rounding of a value."""
    return replace(GPU_RULE if on_gpu else CPU_RULE, uniform_length=precision == "int8")


def plan_batches(lengths: Sequence[int], rule: BatchRule) -> list[IntArray]:
    """Positions of the texts of each batch, longest texts first, so that little padding is needed.

    A batch ends where its cost for each real token, padding and the run itself included, is least.

    Longest first also makes the largest allocation the first one. Equal lengths keep their order.

    Args:
        lengths: Number of tokens of each text.
        rule: What a batch may hold.

    Example:
        >>> [batch.tolist() for batch in plan_batches([3, 9, 3, 8], BatchRule(max_tokens=30, run_tokens=8))]
        [[1, 3], [0, 2]]
    """
    order = longest_first(lengths)
    return [order[part.start : part.stop] for part in cut([lengths[i] for i in order], rule)]


def longest_first(lengths: Sequence[int]) -> IntArray:
    """Positions (n,) by length, the longest first."""
    return np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").astype(np.int64)


def cut(sizes: Sequence[int], rule: BatchRule) -> list[range]:
    """Where the batches are in a list of texts.

    Args:
        sizes: Number of tokens of each text, the longest first.
        rule: What a batch may hold.
    """
    parts = []
    start = 0
    while start < len(sizes):
        longest = sizes[start]
        most = rule.batch_size or max(1, rule.max_tokens // max(1, longest))
        batch = sizes[start : start + most]
        if rule.uniform_length:
            count = bisect_right(batch, -longest, key=neg)
        elif rule.batch_size is None:
            count = _cheapest(batch, rule.run_tokens)
        else:
            count = len(batch)
        parts.append(range(start, start + count))
        start += count
    return parts


def _cheapest(sizes: Sequence[int], run_tokens: int) -> int:
    """How many of the texts, longest first, make the batch that costs least for each real token; the most, if equal."""
    costs = [(run_tokens + sizes[0] * count) / (tokens or 1) for count, tokens in enumerate(accumulate(sizes), 1)]
    return len(costs) - costs[::-1].index(min(costs))


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


def graph_inputs(input_ids: IntArray, mask: IntArray, names: Iterable[str]) -> dict[str, IntArray]:
    """What a graph that declares `names` is fed for one batch, (B, T) each: token types are all zero, as in the paper.

    Example:
        >>> sorted(graph_inputs(np.array([[5]]), np.array([[1]]), ["input_ids", "attention_mask"]))
        ['attention_mask', 'input_ids']
    """
    every = dict(zip(INPUTS, (input_ids, mask, np.zeros_like(mask)), strict=True))
    return {name: every[name] for name in names}
