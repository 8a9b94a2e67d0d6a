"""What similarity and quantize_embeddings take: arrays, tensors, lists of either, none at all."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from ditto_fast.errors import NonFiniteError, OptionError
from ditto_fast.quantization import quantize_embeddings
from ditto_fast.similarity import similarity, similarity_pairwise
from ditto_fast.tolerances import within

ROWS = np.random.default_rng(0).standard_normal((120, 16)).astype(np.float32)
RANGES = np.stack([ROWS.min(axis=0), ROWS.max(axis=0)])
FORMS = {
    "rows": list(ROWS),
    "nested lists": ROWS.tolist(),
    "tensor": torch.from_numpy(ROWS),
    "tensor with a gradient": torch.from_numpy(ROWS).requires_grad_(),
    "tensors": list(torch.from_numpy(ROWS)),
    "float64": ROWS.astype(np.float64),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_embeddings(form: str):
    given = FORMS[form]
    assert within(similarity(given, given), similarity(ROWS, ROWS))
    assert within(similarity_pairwise(given, given), np.ones(120, np.float32))
    for precision in ("int8", "ubinary"):
        assert np.array_equal(quantize_embeddings(given, precision), quantize_embeddings(ROWS, precision))
    assert np.array_equal(quantize_embeddings(ROWS, "uint8", RANGES.tolist()), quantize_embeddings(ROWS, "uint8"))


def test_bfloat16_has_no_array_of_numpy_and_is_taken():
    half = torch.from_numpy(ROWS).bfloat16()
    assert within(similarity(half, half), similarity(half.float().numpy(), half.float().numpy()))


def test_no_embeddings_have_no_similarity():
    assert similarity([], []).shape == (0, 0)
    assert similarity([], ROWS).shape == (0, 120)
    assert similarity(ROWS, np.empty((0, 16), np.float32)).shape == (120, 0)
    assert similarity_pairwise([], []).shape == (0,)
    assert similarity_pairwise([], ROWS[:0]).shape == (0,)
    with pytest.raises(OptionError, match="same width"):
        similarity(ROWS[:0], ROWS[:, :8])
    with pytest.raises(OptionError, match="same shape"):
        similarity_pairwise([], ROWS)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([[1.0, 2.0], [3.0]], "rows of one width"),
        ([torch.ones(2), torch.ones(3)], "rows of one width"),
        ([["a", "b"]], "must be numbers"),
        ({"a": 1.0}, "must be numbers; got .*dict.* object"),
        (None, "must be numbers"),
    ],
)
def test_what_are_no_embeddings_is_said(wrong, message: str):
    for ask in (lambda: similarity(ROWS, wrong), lambda: similarity_pairwise(wrong, ROWS)):
        with pytest.raises(OptionError, match=message):
            ask()
    with pytest.raises(OptionError, match=message):
        quantize_embeddings(wrong, "ubinary")


@pytest.mark.parametrize(
    ("embeddings", "precision", "ranges", "message"),
    [
        (ROWS[0], "int8", None, "one embedding"),
        (ROWS, "int8", RANGES[:, :1], r"\(2, 16\); got shape \(2, 1\)"),
        (ROWS, "uint8", RANGES[::-1], r"least values first; got 2\.\d+ and -\d.* for dimension 0\. Take"),
        (ROWS, "int8", RANGES * [[1], [np.nan]], "finite, .* and nan for"),
        (ROWS, "int8", np.where(np.arange(16) == 3, np.inf, RANGES), "got inf and inf for dimension 3"),
        (ROWS.astype(np.uint8), "ubinary", None, "floats .* got uint8"),
        (ROWS[None], "float16", None, r"\(n, H\) or \(H,\); got float32 of shape \(1, 120, 16\)"),
    ],
)
def test_what_cannot_be_quantized_is_said(embeddings, precision: str, ranges, message: str):
    with pytest.raises(OptionError, match=message):
        quantize_embeddings(embeddings, precision, ranges)


@pytest.mark.parametrize("precision", ["int8", "uint8"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_embeddings_that_are_not_finite_are_named(precision: str, value: float):
    rows = ROWS.copy()
    rows[[7, 9], 2] = value
    for ranges in (None, RANGES):
        with pytest.raises(NonFiniteError, match=r"2 have NaN or infinity: rows \[7, 9\]") as raised:
            quantize_embeddings(rows, precision, ranges)
        assert raised.value.rows == [7, 9]
    with pytest.raises(NonFiniteError, match=r"rows \[0\]"):
        quantize_embeddings(rows[7], precision, RANGES)


def test_one_embedding_among_given_ranges():
    assert np.array_equal(quantize_embeddings(ROWS[3], "int8", RANGES), quantize_embeddings(ROWS, "int8")[3])
    assert np.array_equal(quantize_embeddings(ROWS[3], "binary"), quantize_embeddings(ROWS, "binary")[3])


def test_ranges_of_few_embeddings_are_warned_of():
    with pytest.warns(UserWarning, match="from 2 embeddings"):
        quantize_embeddings(ROWS[:2], "int8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quantize_embeddings(ROWS, "int8")
        quantize_embeddings(ROWS[:2], "int8", RANGES)
        quantize_embeddings(ROWS[:2], "binary")
