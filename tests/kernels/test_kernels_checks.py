"""Wrong arguments: each message says what is wanted, what came and what to do."""

import re

import numpy as np
import pytest
import torch

from ditto_fast.errors import DittoError, OptionError
from ditto_fast.kernels import all_head_diagonals, diagonal_attention, ditto_pool, weighted_pool
from ditto_fast.kernels.errors import TensorTypeError

X = torch.zeros(2, 5, 8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: diagonal_attention(X[0], X[0]),
            OptionError,
            "query must be (B, T, D); got shape (5, 8). Pass one head's queries",
        ),
        (
            lambda: diagonal_attention(X, X[:, :4]),
            OptionError,
            "key must be (B, T, D) with B = 2, T = 5, D = 8; got shape (2, 4, 8). Pass the keys of the same",
        ),
        (
            lambda: diagonal_attention(X[:, :, None], X[:, :, None]),
            OptionError,
            "or all of them to all_head_diagonals.",
        ),
        (
            lambda: ditto_pool(X, X, X, X[:, 0]),
            OptionError,
            "last must be (B, T, H) with B = 2, T = 5, H = 8; got shape (2, 8). Pass last_hidden_state, not",
        ),
        (
            lambda: diagonal_attention(X, X, bias=torch.zeros(3, 5, 5)),
            OptionError,
            "bias must be (B|1, T, T) with B = 2, T = 5; got shape (3, 5, 5).",
        ),
        (
            lambda: diagonal_attention(X, X, attention_mask=torch.zeros(2, 5)),
            TensorTypeError,
            "attention_mask must be of type bool, uint8, int8, int16, int32, int64; got torch.float32. "
            "Pass the tokenizer's mask: nonzero on real tokens, not 0 and -inf to add.",
        ),
        (
            lambda: diagonal_attention(X, X, lengths=torch.zeros(2)),
            TensorTypeError,
            "lengths must be of type int32, int64; got torch.float32.",
        ),
        (
            lambda: diagonal_attention(X.double(), X.double()),
            TensorTypeError,
            "query must be of type float32, float16, bfloat16; got torch.float64.",
        ),
        (
            lambda: weighted_pool(np.zeros((2, 5)), X, X),
            TensorTypeError,
            "weights must be a torch tensor; got ndarray.",
        ),
        (
            lambda: diagonal_attention(X, X.half()),
            TensorTypeError,
            "query and key must be of one type; got torch.float32 and torch.float16. Cast one.",
        ),
        (
            lambda: diagonal_attention(X.expand(2, 5, 8).repeat(1, 1, 33), X.repeat(1, 1, 33)),
            OptionError,
            "The head size D must be 1 to 256; got 264. Pass one head, not all of them.",
        ),
        (lambda: all_head_diagonals(X[:, :, None, :0], X[:, :, None, :0]), OptionError, "got 0."),
        (
            lambda: diagonal_attention(X, X, scale=torch.tensor(1.0)),
            TensorTypeError,
            "scale must be a number; got Tensor. Pass a float, or None.",
        ),
        (
            lambda: diagonal_attention(X, X, attention_mask=X[..., 0].long(), lengths=X[:, 0, 0].long()),
            OptionError,
            "Pass attention_mask or lengths, not both; got both. A mask can have holes.",
        ),
    ],
)  # fmt: skip
def test_message(call, error, message):
    with pytest.raises(error, match=re.escape(message)) as caught:
        call()
    assert isinstance(caught.value, DittoError)
    assert isinstance(caught.value, TypeError if error is TensorTypeError else ValueError)
