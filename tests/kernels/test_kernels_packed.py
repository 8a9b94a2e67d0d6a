"""The packed operators: what each sequence gives alone, in the padded operators."""

from itertools import pairwise

import pytest
import torch

from ditto_fast.errors import OptionError
from ditto_fast.kernels import (
    diagonal_attention,
    diagonal_attention_packed,
    ditto_pool,
    ditto_pool_packed,
    weighted_pool,
    weighted_pool_packed,
)

# One tile, several tiles, nothing, one token, and (with 200) beyond what one launch takes.
LENGTHS = [[20, 70, 0, 1], [0], [5, 200, 33]]


def packed(lengths, dtype, device, make):
    x = make(1, sum(lengths), 24, 40, dtype, device)
    cu_seqlens = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32, device=device)
    return [tensor[0] for tensor in x.tensors], cu_seqlens


def alone(tensors, cu_seqlens):
    """Each sequence as a padded batch of one, without padding."""
    positions = cu_seqlens.tolist()
    return [[tensor[None, start:stop] for tensor in tensors] for start, stop in pairwise(positions)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_diagonal(lengths, dtype, device, make, close):
    tensors, cu_seqlens = packed(lengths, dtype, device, make)
    got = diagonal_attention_packed(*tensors[:2], cu_seqlens, max(lengths))
    expected = torch.cat([diagonal_attention(*one[:2])[0] for one in alone(tensors, cu_seqlens)])
    assert close(got, expected.double(), dtype)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_embeddings(lengths, dtype, normalize, device, make, close):
    tensors, cu_seqlens = packed(lengths, dtype, device, make)
    got, diagonal = ditto_pool_packed(
        *tensors, cu_seqlens.long(), max(lengths), normalize=normalize, return_diagonal=True
    )
    expected = torch.cat([ditto_pool(*one, normalize=normalize) for one in alone(tensors, cu_seqlens)])
    assert close(got, expected.double(), dtype)
    scores = diagonal_attention_packed(*tensors[:2], cu_seqlens, max(lengths))
    assert close(diagonal, scores.double(), dtype)
    again = weighted_pool_packed(diagonal, *tensors[2:], cu_seqlens, normalize=normalize)
    assert close(again, expected.double(), dtype)


def test_weighted_pool_leaves_out_what_weighs_nothing(device, make, close):
    tensors, cu_seqlens = packed([3, 40], torch.float32, device, make)
    weights = (torch.arange(43, device=device) % 3).float()
    for state in tensors[2:]:
        state[weights == 0] = torch.nan
    got = weighted_pool_packed(weights, *tensors[2:], cu_seqlens)
    parts = alone([weights, *tensors[2:]], cu_seqlens)
    assert close(got, torch.cat([weighted_pool(*one) for one in parts]).double())


@pytest.mark.parametrize("max_seqlen", [0, 1, 16, 1000])
def test_results_do_not_depend_on_max_seqlen(max_seqlen, device, make, close):
    tensors, cu_seqlens = packed([20, 70], torch.float32, device, make)
    expected = ditto_pool_packed(*tensors, cu_seqlens, 70)
    assert close(ditto_pool_packed(*tensors, cu_seqlens, max_seqlen), expected.double())
    expected = diagonal_attention_packed(*tensors[:2], cu_seqlens, 70)
    assert close(diagonal_attention_packed(*tensors[:2], cu_seqlens, max_seqlen), expected.double())


@pytest.mark.parametrize("longest", [40, 130])  # one launch, two
def test_strides(longest, device, make, close):
    tensors, cu_seqlens = packed([20, longest], torch.float32, device, make)
    transposed = [tensor.t().contiguous().t() for tensor in tensors]
    sliced = torch.stack([cu_seqlens, cu_seqlens + 9], dim=1)[:, 0]
    got = ditto_pool_packed(*transposed, sliced, longest)
    assert close(got, ditto_pool_packed(*tensors, cu_seqlens, longest).double())


def test_no_sequence(device):
    empty = torch.zeros(0, 8, device=device)
    zero = torch.tensor([0], device=device)
    assert ditto_pool_packed(empty, empty, empty, empty, zero, 0).shape == (0, 8)
    assert diagonal_attention_packed(empty, empty, zero, 0).shape == (0,)


def test_positions_past_the_end_stay_inside(device, make, close):
    tensors, cu_seqlens = packed([20, 40], torch.float32, device, make)
    beyond = cu_seqlens.clone()
    beyond[-1] = 10_000
    expected = ditto_pool_packed(*tensors, cu_seqlens, 40)
    assert close(ditto_pool_packed(*tensors, beyond, 40), expected.double())


def test_wrong_positions_are_refused():
    tensors = [torch.zeros(3, 8)] * 4
    with pytest.raises(OptionError, match=r"cu_seqlens must hold sequences \+ 1 positions"):
        ditto_pool_packed(*tensors, torch.zeros(0, dtype=torch.int64), 3)
    for wrong in (-1, 2.5, torch.tensor(3)):
        with pytest.raises(OptionError, match="max_seqlen must be an int"):
            ditto_pool_packed(*tensors, torch.tensor([0, 3]), wrong)
