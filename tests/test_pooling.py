from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto_fast.pooling import POOLINGS, normalize, pool


def _random(batch: int, tokens: int, hidden: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    mask = (np.arange(tokens) < rng.integers(1, tokens + 1, batch)[:, None]).astype(np.int64)
    diagonal = rng.random((batch, tokens), np.float32) * mask
    first, last = rng.standard_normal((2, batch, tokens, hidden), np.float32)
    return diagonal.astype(np.float32), first, last, mask


def _by_hand(name: str, a, h0, hl, m):
    """Each formula as science.md writes it, a token at a time, in fp64."""
    a, h0, hl, m = (x.astype(np.float64) for x in (a, h0, hl, m))
    n = m.sum()
    terms = {
        "ditto-first-last": lambda i: a[i] * (h0[i] + hl[i]) / 2,
        "ditto-last": lambda i: a[i] * hl[i],
        "ditto-first": lambda i: a[i] * h0[i],
        "mean-first-last": lambda i: m[i] * (h0[i] + hl[i]) / 2 / n,
        "mean-last": lambda i: m[i] * hl[i] / n,
        "cls": lambda i: hl[i] * (i == 0),
    }
    return sum(terms[name](i) for i in range(len(a)))


@pytest.mark.parametrize("name", POOLINGS)
def test_each_pooling_is_its_formula(name: str):
    inputs = _random(batch=5, tokens=9, hidden=8)
    expected = np.stack([_by_hand(name, *row) for row in zip(*inputs, strict=True)])
    actual = pool(name, *inputs)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, atol=1e-6)


@pytest.mark.parametrize("name", POOLINGS)
@given(seed=st.integers(0, 1000), padding=st.integers(1, 5))
def test_padding_weighs_nothing(name: str, seed: int, padding: int):
    a, h0, hl, m = _random(3, 6, 4, seed)
    tail = np.full((3, padding, 4), 1e6, np.float32)
    padded = pool(
        name,
        np.pad(a, ((0, 0), (0, padding))),
        np.concatenate([h0, tail], 1),
        np.concatenate([hl, tail], 1),
        np.pad(m, ((0, 0), (0, padding))),
    )
    np.testing.assert_allclose(padded, pool(name, a, h0, hl, m), atol=1e-6)


def test_normalize_keeps_a_zero_row_and_survives_tiny_and_huge_values():
    rows = np.array([[3, 4], [0, 0], [1e-30, 0], [3e38, 0]], np.float32)
    np.testing.assert_allclose(normalize(rows), [[0.6, 0.8], [0, 0], [1, 0], [1, 0]], atol=1e-6)
