"""The references in float64, on request: the definition to 12 digits, from float16 inputs too."""

import pytest
import torch

from ditto_fast.kernels.reference import ditto_pool_reference, weighted_pool_reference
from ditto_fast.kernels.sequences import Sequences


def near(actual, expected):
    return actual.dtype == torch.float64 and float((actual - expected).abs().max()) < 1e-12


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_padded(dtype, normalize, make, definition):
    x = make(2, 20, 16, 24, dtype, valid=torch.arange(20) < torch.tensor([[20], [7]]))
    for sequences in (Sequences(2, 20, mask=x.valid), Sequences(2, 20, lengths=x.valid.sum(dim=1))):
        embeddings, diagonal = ditto_pool_reference(
            *x.tensors, sequences, scale=0.25, normalize=normalize, dtype=torch.float64
        )
        assert near(diagonal, x.diagonal)
        assert near(embeddings, definition[1](x.diagonal, x.first, x.last, x.valid, normalize))


def test_packed(make):
    x = make(1, 20, 16, 24)
    sequences = Sequences(1, 20, cu_seqlens=torch.tensor([0, 7, 20]), max_seqlen=13)
    embeddings, diagonal = ditto_pool_reference(*x.tensors, sequences, scale=0.25, dtype=torch.float64)
    for index, tokens in enumerate((slice(0, 7), slice(7, 20))):
        one = make(1, 20, 16, 24)
        one.valid[:, : tokens.start] = one.valid[:, tokens.stop :] = False
        assert near(diagonal[:, tokens], one.diagonal[:, tokens])
        weights = one.diagonal
        alone = weighted_pool_reference(weights, x.first, x.last, Sequences(1, 20), dtype=torch.float64)
        assert near(embeddings[index], alone[0])
