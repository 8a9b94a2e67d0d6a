"""Every pooler of the paper's tables by name: the one registry.

A pooler is a weighted sum over tokens of the average of some token states. The six of `FastEncoder` are taken from
`ditto_fast.pooling`; the rest are the authors' other poolers and the paper's baselines. "static" is the row E of
the word embedding table, without position, segment or layer normalisation, as in the authors' code (the paper
writes h0); "first" is h0, after them. A name may go on with "+whitening", "+whitening-K" or "+flow".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.checks import one_of
from ditto_fast.evaluation.prompts import manual_prompt, without_biases
from ditto_fast.evaluation.states import States
from ditto_fast.pooling import POOLINGS

FloatArray = NDArray[np.float32]

# what needs a text changed before it is encoded: (text, encodings, template) -> text
Preparation = Callable[[str, Any, str], str]


@dataclass(frozen=True)
class Pooler:
    """A pooler.

    Args:
        name: As users write it.
        formula: What it computes; m is the attention mask, n the number of tokens.
        weights: What weighs the tokens, a key of `WEIGHTS`, or a per-token table of the source.
        states: The token states that are averaged; none where the result is no sum over tokens.
        row: What the paper's table calls it.
        prepare: How its texts are changed first.
    """

    name: str
    formula: str
    weights: str
    states: tuple[str, ...]
    row: str
    prepare: Preparation | None = None

    @property
    def needs(self) -> frozenset[str]:
        """Names of the states that it takes."""
        computed = () if self.weights in WEIGHTS else (self.weights,)
        return frozenset((*self.states, *computed))


def _mean(mask: NDArray[np.int64]) -> FloatArray:
    weights: FloatArray = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    return weights.astype(np.float32)


def _first(mask: NDArray[np.int64]) -> FloatArray:
    return np.eye(1, mask.shape[1], dtype=np.float32).repeat(len(mask), axis=0)


def _inner_mean(mask: NDArray[np.int64]) -> FloatArray:
    """The mean without the first and last real token, which are special."""
    positions = np.arange(mask.shape[1])
    last = mask.sum(axis=1, keepdims=True) - 1
    return _mean((mask > 0) & (positions > 0) & (positions < last))


WEIGHTS: dict[str, Callable[[NDArray[np.int64]], FloatArray]] = {
    "mean": _mean,
    "first token": _first,
    "inner mean": _inner_mean,
}

_ROWS = {
    "ditto-first-last": "Ditto first-last",
    "ditto-last": "Ditto last",
    "mean-first-last": "first-last avg",
    "mean-last": "last avg",
    "cls": "[CLS] (no pooler)",
}
GLOVE = "glove"

POOLERS: dict[str, Pooler] = {
    pooler.name: pooler
    for pooler in (
        *(Pooler(p.name, p.formula, p.weights, p.states, _ROWS.get(p.name, p.name)) for p in POOLINGS.values()),
        Pooler("ditto-static", "sum_i A_ii E_i", "diagonal", ("static",), "Ditto static"),
        Pooler("mean-static", "sum_i m_i E_i / n", "mean", ("static",), "static avg"),
        Pooler("mean-top2", "1/2 sum_i m_i (hL-1_i + hL_i) / n", "mean", ("second_last", "last"), "top-2 avg"),
        Pooler("cls-pooler", "tanh(W hL_1 + b)", "mean", ("pooler_output",), "[CLS]"),
        Pooler(
            "static-remove-biases",
            "mean of E over the words' first pieces, without frequent tokens and punctuation",
            "inner mean",
            ("static",),
            "static remove biases avg",
            without_biases,
        ),
        Pooler(
            "prompt", "hL at the mask token of a template", "mask token", ("last",), "last manual prompt", manual_prompt
        ),
        Pooler("tfidf-first-last", "1/2 sum_i idf_i (h0_i + hL_i)", "idf", ("first", "last"), "TF-IDF first-last"),
        Pooler(GLOVE, "mean of the words' vectors in a file", "vectors", (), "GloVe avg"),
    )
}
AUTHORS = (
    "ditto-static",
    "ditto-last",
    "ditto-first-last",
    "mean-static",
    "mean-last",
    "mean-first-last",
    "mean-top2",
    "cls",
    "cls-pooler",
)
"""The nine poolers of the authors' code."""


def find_pooler(name: str) -> Pooler:
    """The pooler of a name, without what follows a "+".

    Raises:
        OptionError: There is none.
    """
    return POOLERS[one_of("poolers", name.partition("+")[0], POOLERS)]


def pool_states(pooler: Pooler, states: States) -> FloatArray:
    """Embeddings (B, H) of a batch's token states."""
    if pooler.states == ("pooler_output",):
        return states["pooler_output"]
    mask = states["mask"]
    weights = WEIGHTS[pooler.weights](mask) if pooler.weights in WEIGHTS else states[pooler.weights] * mask
    rows = weights.astype(np.float32)[:, None, :]
    total: FloatArray = sum(np.matmul(rows, states[name]) for name in pooler.states)
    return total[:, 0] / np.float32(len(pooler.states))
