"""The diagonals against the definition in float64, on the CPU path and the GPU path."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ditto_fast.kernels import all_head_diagonals, diagonal_attention

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "tokens",
    [
        1,  # one token: A is 1
        16,  # one tile to the full
        17,  # one tile and a rest
        70,  # several tiles of every type, the last one partial
    ],
)
def test_equals_the_definition_in_every_type(tokens, dtype, device, make, close):
    x = make(2, tokens, 32, 1, dtype, device)
    assert close(diagonal_attention(x.query, x.key), x.diagonal, dtype)


# Field case 57: a head size that is no power of two must neither fail nor be cut.
@pytest.mark.parametrize("head_dim", [1, 3, 16, 24, 48, 65, 80, 96, 128, 255, 256])
def test_any_head_size(head_dim, device, make, close):
    x = make(1, 20, head_dim, 1, device=device)
    assert close(diagonal_attention(x.query, x.key), x.diagonal)


def test_every_dimension_of_the_head_counts(device):
    query = key = torch.zeros(1, 2, 100, device=device)
    query[0, :, 99] = key[0, 0, 99] = 10.0  # the last dimension alone tells the keys apart
    key[0, 1, 99] = -10.0
    assert diagonal_attention(query, key.clone())[0, 0] > 0.9


@pytest.mark.parametrize("mask_type", [torch.bool, torch.uint8, torch.int32, torch.int64])
def test_mask_with_holes_and_nan_in_the_padding(mask_type, device, make, close):
    valid = torch.rand(3, 40, generator=torch.Generator().manual_seed(1)) < 0.6
    valid[:, 0] = False  # left padding as well
    x = make(3, 40, 24, 1, device=device, valid=valid)
    got = diagonal_attention(x.query, x.key, attention_mask=x.valid.to(mask_type))
    assert close(got, x.diagonal)
    assert (got[~x.valid] == 0).all()


@pytest.mark.parametrize("lengths_type", [torch.int32, torch.int64])
def test_lengths_equal_the_mask_they_mean(lengths_type, device, make, close):
    lengths = torch.tensor([40, 1, 0, 33], device=device)
    valid = torch.arange(40) < lengths.cpu()[:, None]
    x = make(4, 40, 16, 1, device=device, valid=valid)
    assert close(diagonal_attention(x.query, x.key, lengths=lengths.to(lengths_type)), x.diagonal)


def test_lengths_beyond_the_row_are_the_row(device, make, close):
    x = make(1, 20, 16, 1, device=device)
    assert close(diagonal_attention(x.query, x.key, lengths=torch.tensor([99], device=device)), x.diagonal)


# Field case 61: -inf minus -inf, and a finite sentinel that padding outweighs.
def test_a_fully_masked_row_is_zero(device, make):
    x = make(2, 20, 16, 1, device=device, valid=torch.zeros(2, 20, dtype=torch.bool))
    for padding in (
        {"attention_mask": x.valid},
        {"lengths": torch.zeros(2, dtype=torch.int32, device=device)},
    ):
        assert (diagonal_attention(x.query, x.key, **padding) == 0).all()


@pytest.mark.parametrize("logit", [-3e4, 3e4, -1e30, 1e30])
def test_logits_of_any_size(logit, device):
    # All scores equal: the softmax is uniform over the real keys, whatever a masked key would score.
    query = torch.full((1, 40, 1), 1.0, device=device)
    key = torch.full((1, 40, 1), logit, device=device)
    mask = torch.arange(40, device=device)[None] < 32
    got = diagonal_attention(query, key, attention_mask=mask)
    assert (got[mask] == 1 / 32).all()
    assert (got[~mask] == 0).all()


def test_differences_of_logits_beyond_float32_exponents_give_one_and_zero(device):
    query = torch.tensor([[[1.0], [-1.0]]], device=device)
    key = torch.tensor([[[1e4], [2e4]]], device=device)  # rows: (1e4, 2e4) and (-1e4, -2e4)
    assert diagonal_attention(query, key).tolist() == [[0.0, 0.0]]
    assert diagonal_attention(query, key.flip(1)).tolist() == [[1.0, 1.0]]


def test_nan_in_a_real_token_is_not_hidden(device, make):
    x = make(1, 20, 16, 1, device=device)
    x.key[0, 3] = torch.nan
    assert diagonal_attention(x.query, x.key).isnan().all()


@pytest.mark.parametrize("batch", [1, 2])
def test_bias_is_added_after_scaling(batch, device, make, close, definition):
    x = make(2, 40, 16, 1, device=device)
    bias = torch.randn(batch, 40, 40, generator=torch.Generator().manual_seed(3)).to(device)
    expected = definition[0](x.query, x.key, x.valid, scale=0.5, bias=bias)
    assert close(diagonal_attention(x.query, x.key, scale=0.5, bias=bias), expected)


def test_bias_under_a_mask_is_not_read(device, make, close, definition):
    x = make(2, 24, 16, 1, device=device, valid=torch.arange(24) < torch.tensor([[20], [0]]))
    bias = torch.full((1, 24, 24), torch.nan, device=device)
    bias[:, :20, :20] = 0.25
    expected = definition[0](x.query, x.key, x.valid, bias=bias)
    assert close(diagonal_attention(x.query, x.key, attention_mask=x.valid, bias=bias), expected)


def test_bias_of_minus_infinity_forbids_a_key(device):
    query = key = torch.zeros(1, 3, 4, device=device)
    bias = torch.zeros(1, 3, 3, device=device)
    bias[0, 0, 0] = -torch.inf  # its own key
    bias[0, 1, 2] = -torch.inf  # another key
    assert diagonal_attention(query, key, bias=bias)[0].tolist() == pytest.approx([0, 1 / 2, 1 / 3])


@pytest.mark.parametrize("scale", [0.0, -1.0, 3.0])
def test_scale(scale, device, make, close, definition):
    x = make(1, 20, 16, 1, device=device)
    expected = definition[0](x.query, x.key, x.valid, scale=scale)
    assert close(diagonal_attention(x.query, x.key, scale=scale), expected)


@pytest.mark.parametrize("shape", [(0, 5, 8), (2, 0, 8)])
def test_nothing_in_nothing_out(shape, device):
    query = key = torch.zeros(shape, device=device)
    assert diagonal_attention(query, key).shape == shape[:2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_heads_equal_head_by_head_on_a_projection_viewed(dtype, device, make, close, definition):
    batch, tokens, heads, head_dim = 2, 20, 3, 8
    valid = torch.arange(tokens) < torch.tensor([[tokens], [11]])
    x = make(batch, tokens, heads * head_dim, 1, dtype, device, valid)
    query, key = (tensor.view(batch, tokens, heads, head_dim) for tensor in (x.query, x.key))
    got = all_head_diagonals(query, key, attention_mask=x.valid)
    assert got.shape == (batch, heads, tokens)
    for n in range(heads):
        assert close(got[:, n], definition[0](query[:, :, n], key[:, :, n], x.valid), dtype)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 3), (2, 3)])
def test_all_heads_take_a_bias_of_each_head_or_of_all(shape, device, make, close, definition):
    x = make(2, 20, 3 * 8, 1, device=device)
    query, key = (tensor.view(2, 20, 3, 8) for tensor in (x.query, x.key))
    bias = torch.randn(*shape, 20, 20, generator=torch.Generator().manual_seed(4)).to(device)
    got = all_head_diagonals(query, key, bias=bias)
    for n in range(3):
        head_bias = bias[:, n % shape[1]]
        assert close(got[:, n], definition[0](query[:, :, n], key[:, :, n], x.valid, bias=head_bias))


def restrided(tensor, order):
    """The same values (B, T, D) in memory of another order, every second element of twice as much."""
    shape = [tensor.shape[axis] for axis in order]
    memory = torch.full((*shape[:-1], 2 * shape[-1]), torch.nan, dtype=tensor.dtype, device=tensor.device)
    view = memory[..., ::2].permute(*np.argsort(order).tolist())
    view.copy_(tensor)
    return view


# 12 examples on each path: the interpreter takes about 10 ms a program.
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_lengths_strides_and_masks(data, device, make, close):
    batch, tokens, head_dim = (data.draw(st.integers(1, most)) for most in (3, 70, 40))
    valid = torch.tensor(
        data.draw(st.lists(st.lists(st.booleans(), min_size=tokens, max_size=tokens), min_size=batch, max_size=batch))
    )
    x = make(batch, tokens, head_dim, 1, data.draw(st.sampled_from(DTYPES)), device, valid)
    orders = st.permutations([0, 1, 2])
    query, key = restrided(x.query, data.draw(orders)), restrided(x.key, data.draw(orders))
    got = diagonal_attention(query, key, attention_mask=x.valid.t().contiguous().t())
    assert close(got, x.diagonal, x.query.dtype)
    assert ((got >= 0) & (got <= 1)).all()


def test_inputs_are_left_as_they_were(device, make):
    x = make(2, 20, 16, 1, device=device)
    query, key = x.query.clone(), x.key.clone()
    diagonal_attention(x.query, x.key)
    assert torch.equal(query, x.query)
    assert torch.equal(key, x.key)


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_tolerance_lets_an_unrelated_vector_pass(dtype, close):
    generator = torch.Generator().manual_seed(0)
    for dim in (16, 384, 1024):
        one, other = torch.nn.functional.normalize(torch.randn(2, dim, generator=generator), dim=1)
        assert close(one, one.double(), dtype)
        assert not close(one, other.double(), dtype)
        assert not close(torch.full((dim,), torch.nan), one.double(), dtype)
