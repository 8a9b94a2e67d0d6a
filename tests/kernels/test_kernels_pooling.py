"""ditto_pool and weighted_pool against the definition in float64, on the CPU's and the GPU's path."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ditto_fast.kernels import diagonal_attention, ditto_pool, weighted_pool
from ditto_fast.kernels.settings import ONE_LAUNCH_MAX_TOKENS

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
TOKENS = [
    1,  # one token
    20,  # one launch, one tile
    100,  # one launch, several tiles
    ONE_LAUNCH_MAX_TOKENS + 1,  # two launches
]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", TOKENS)
def test_equals_the_definition(tokens, dtype, normalize, device, make, close, definition):
    valid = torch.arange(tokens) < torch.tensor([[tokens], [max(1, tokens // 3)]])
    x = make(2, tokens, 24, 40, dtype, device, valid)
    got, diagonal = ditto_pool(*x.tensors, attention_mask=x.valid, normalize=normalize, return_diagonal=True)
    assert close(diagonal, x.diagonal, dtype)
    assert close(got, definition[1](x.diagonal, x.first, x.last, x.valid, normalize), dtype)
    assert torch.equal(ditto_pool(*x.tensors, attention_mask=x.valid, normalize=normalize), got)


@pytest.mark.parametrize("tokens", [20, ONE_LAUNCH_MAX_TOKENS + 1])
@pytest.mark.parametrize("padding", ["attention_mask", "lengths"])
def test_a_fully_masked_row_is_zero_also_normalized(padding, tokens, device, make):
    x = make(2, tokens, 16, 24, device=device, valid=torch.arange(tokens) < torch.tensor([[5], [0]]))
    given_padding = {padding: x.valid if padding == "attention_mask" else x.valid.sum(dim=1)}
    got = ditto_pool(*x.tensors, **given_padding, normalize=True)
    assert (got[1] == 0).all()
    assert got[0].norm() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("tokens", [20, ONE_LAUNCH_MAX_TOKENS + 1])
def test_bias_and_scale_reach_the_scores(tokens, device, make, close, definition):
    x = make(2, tokens, 16, 24, device=device)
    bias = torch.randn(1, tokens, tokens, generator=torch.Generator().manual_seed(2)).to(device)
    diagonal = definition[0](x.query, x.key, x.valid, scale=0.1, bias=bias)
    got = ditto_pool(*x.tensors, scale=0.1, bias=bias)
    assert close(got, definition[1](diagonal, x.first, x.last, x.valid))


@pytest.mark.parametrize(
    "hidden",
    [
        1,
        100,  # no power of two
        256,  # one block
        300,  # a block and a rest where blocks are used
        1024,  # the widest common encoder
    ],
)
@pytest.mark.parametrize("normalize", [False, True])
def test_any_hidden_size(hidden, normalize, device, make, close, definition):
    x = make(2, 20, 16, hidden, device=device)
    expected = definition[1](x.diagonal, x.first, x.last, x.valid, normalize)
    assert close(ditto_pool(*x.tensors, normalize=normalize), expected)
    assert close(weighted_pool(x.diagonal.float().to(device), x.first, x.last, normalize=normalize), expected)


def test_states_may_be_of_another_type_than_the_scores(device, make, close, definition):
    scores, states = (make(2, 20, 16, 24, dtype, device) for dtype in (torch.float16, torch.float32))
    got = ditto_pool(scores.query, scores.key, states.first, states.last.bfloat16())
    expected = definition[1](scores.diagonal, states.first, states.last.bfloat16(), states.valid)
    assert close(got, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_weighted_pool_leaves_out_what_weighs_nothing(dtype, device, make, close, definition):
    valid = torch.rand(3, 40, generator=torch.Generator().manual_seed(5)) < 0.5
    valid[2] = False
    x = make(3, 40, 1, 24, dtype, device, valid)
    weights = torch.rand(3, 40, generator=torch.Generator().manual_seed(6)).to(device, dtype) * x.valid
    got = weighted_pool(weights, x.first, x.last)
    assert close(got, definition[1](weights, x.first, x.last, x.valid), dtype)
    assert (got[2] == 0).all()


def test_large_sums_of_half_precision_states_do_not_overflow(device):
    states = torch.full((1, 2, 4), 6e4, dtype=torch.float16, device=device)
    got = weighted_pool(torch.ones(1, 2, device=device), states, states)
    assert got.tolist() == [[1.2e5] * 4]


@pytest.mark.parametrize("tokens", [0, 3])
@pytest.mark.parametrize("batch", [0, 2])
def test_nothing_in_nothing_out(batch, tokens, device, make):
    x = make(batch, tokens, 8, 12, device=device)
    embeddings, diagonal = ditto_pool(*x.tensors, normalize=True, return_diagonal=True)
    assert embeddings.shape == weighted_pool(diagonal, x.first, x.last).shape == (batch, 12)
    assert diagonal.shape == (batch, tokens)
    assert not embeddings.isnan().any()


def strided(tensor, tokens_first, step):
    """The same values (B, T, X) as a view: tokens first in memory, every step-th value of a wider row."""
    batch, tokens, size = tensor.shape
    shape = (tokens, batch, size * step) if tokens_first else (batch, tokens, size * step)
    view = tensor.new_full(shape, torch.nan)[..., ::step]
    view = view.transpose(0, 1) if tokens_first else view
    view.copy_(tensor)
    return view


# 8 examples on each path, one launch or two; whole rows of masks, so that fully masked ones come up.
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_padding_and_strides_change_nothing(data, device, make, close, definition):
    batch, hidden = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 70))
    tokens = data.draw(st.one_of(st.integers(1, 40), st.integers(129, 140)))
    seed = data.draw(st.integers(0, 9))
    valid = torch.rand(batch, tokens, generator=torch.Generator().manual_seed(seed)) < seed / 9
    x = make(batch, tokens, 16, hidden, data.draw(st.sampled_from(DTYPES)), device, valid, seed)
    views = [strided(t, data.draw(st.booleans()), data.draw(st.integers(1, 2))) for t in x.tensors]
    got = ditto_pool(*views, attention_mask=x.valid)
    assert close(got, definition[1](x.diagonal, x.first, x.last, x.valid), x.query.dtype)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(4)))
def test_an_embedding_does_not_depend_on_its_batch(order, device, make):
    x = make(4, 20, 16, 24, device=device, valid=torch.arange(20) < torch.tensor([[20], [3], [11], [0]]))
    together = ditto_pool(*x.tensors, attention_mask=x.valid)
    shuffled = ditto_pool(*(t[order] for t in x.tensors), attention_mask=x.valid[order])
    # Not to the bit: plain torch may sum a batch in another order.
    assert torch.allclose(shuffled, together[order], rtol=0, atol=1e-6)


def test_pooling_is_linear_in_the_states(device, make, close):
    x = make(2, 20, 16, 24, device=device)
    one = ditto_pool(*x.tensors)
    both = ditto_pool(x.query, x.key, 2 * x.first + 3, 2 * x.last + 3)
    total = diagonal_attention(x.query, x.key).sum(dim=1, keepdim=True)
    assert close(both, (2 * one + 3 * total).double())
