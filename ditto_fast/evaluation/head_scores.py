"""Every head at once: one pass over sentence pairs gives the cosine of each under each head and each pooling.

A batch's diagonals (B, T, L, N) weigh its token states for all L N heads in one matrix product. A pair's cosines need
not even the embeddings, L N vectors a sentence: they follow from the products of its tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ditto_fast.errors import EmbeddingError
from ditto_fast.evaluation.protocol import spearman
from ditto_fast.evaluation.states import States, StateSource
from ditto_fast.evaluation.tasks import Subset
from ditto_fast.heads import Head

FloatArray = NDArray[np.float32]

# pooling -> token states that are averaged; "ditto-" and "mean-" before it name the poolers
VARIANTS: dict[str, tuple[str, ...]] = {"first-last": ("first", "last"), "last": ("last",), "static": ("static",)}


def heads_of(source: StateSource) -> list[Head]:
    """The L N heads in the order of the scores, layer first."""
    sizes = source.sizes
    return [Head(layer + 1, number + 1) for layer in range(sizes.num_layers) for number in range(sizes.num_heads)]


def head_weights(states: States) -> FloatArray:
    """Weights (B, L N + 1, T) of tokens: each head's diagonal, and last the plain mean's."""
    mask = states["mask"]
    diagonals = states["diagonals"].reshape(*mask.shape, -1).transpose(0, 2, 1)
    mean = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    return np.concatenate([diagonals, mean[:, None, :].astype(np.float32)], axis=1)


def head_embeddings(states: States, variant: str) -> FloatArray:
    """Embeddings (B, L N + 1, H) under every head, and last the plain mean, up to their scale."""
    weights = head_weights(states)
    total: FloatArray = sum(np.matmul(weights, states[name]) for name in VARIANTS[variant])
    return total


def _pair_cosines(states: States) -> dict[str, FloatArray]:
    """Cosines (pairs, L N + 1) of rows 0 and 1, 2 and 3, and so on.

    With x = w S, w a head's weights (T,) and S the token states (T, H), x.y = w_x (S_x S_y^T) w_y^T: one matrix of
    tokens by tokens serves all heads, whose embeddings are never made.
    """
    weights = head_weights(states)
    pairs = weights[0::2], weights[1::2]
    cosines = {}
    for variant, names in VARIANTS.items():
        rows = states[names[0]] if len(names) == 1 else np.add(*(states[name] for name in names))
        first, second = (pairs[0], rows[0::2]), (pairs[1], rows[1::2])
        lengths = [np.sqrt(np.maximum(_products(side, side), np.finfo(np.float32).tiny)) for side in (first, second)]
        cosines[variant] = _products(first, second) / (lengths[0] * lengths[1])
    return cosines


def _products(left: tuple[FloatArray, FloatArray], right: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Dot products (pairs, L N + 1) of embeddings given as weights (pairs, L N + 1, T) and states (pairs, T, H)."""
    between = np.matmul(left[1], right[1].transpose(0, 2, 1))
    products: FloatArray = np.einsum("pkt,pkt->pk", np.matmul(left[0], between), right[0])
    return products


def pair_cosines(source: StateSource, subset: Subset, progress: bool = False) -> dict[str, FloatArray]:
    """Cosines (L N + 1, n) of the n pairs by pooling: a row a head, the plain average last.

    Raises:
        EmbeddingError: One is not finite; the message names the pair.
    """
    count = source.sizes.num_layers * source.sizes.num_heads + 1
    result = {variant: np.zeros((count, len(subset)), np.float32) for variant in VARIANTS}
    groups = list(zip(subset.first, subset.second, strict=True))
    for positions, cosines in source.map(groups, _pair_cosines, "heads" if progress else ""):
        for variant, rows in cosines.items():
            result[variant][:, positions] = rows.T
    for variant, table in result.items():
        wrong = np.flatnonzero(~np.isfinite(table).all(axis=0))
        if len(wrong):
            raise EmbeddingError(
                f"{subset.name}: {len(wrong)} of {len(subset)} pairs have {variant} embeddings that are not finite, "
                f"the first in row {wrong[0]} ({subset.first[wrong[0]][:60]!r})."
            )
    return result


@dataclass(frozen=True)
class Candidate:
    """A pooler that was scored.

    Args:
        head: The head, None for the plain average.
        variant: A key of `VARIANTS`.
        score: Its Spearman correlation.
        row: Its row among the cosines.
    """

    head: Head | None
    variant: str
    score: float
    row: int

    @property
    def pooler(self) -> str:
        """Its name as a pooler."""
        return f"{'mean' if self.head is None else 'ditto'}-{self.variant}"

    def __str__(self) -> str:
        return self.pooler if self.head is None else f"{self.pooler} with head {self.head}"


def candidates(
    heads: list[Head], cosines: dict[str, FloatArray], gold: NDArray[np.float64], rows: NDArray[np.int64] | None = None
) -> list[Candidate]:
    """Everything scored, best first; on some of the pairs only where `rows` names them."""

    def scored() -> Iterator[Candidate]:
        for variant, table in cosines.items():
            part, wanted = (table, gold) if rows is None else (table[:, rows], gold[rows])
            scores = spearman(part, np.broadcast_to(wanted, part.shape))
            for row, score in enumerate(scores.tolist()):
                yield Candidate(heads[row] if row < len(heads) else None, variant, score, row)

    return sorted(scored(), key=lambda candidate: -candidate.score)
