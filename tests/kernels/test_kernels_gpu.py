"""What only a card can show. `pytest -m gpu tests/kernels`; the other files' tests run on it as well."""

import pytest
import torch

from ditto_fast.kernels import diagonal_attention, ditto_pool, weighted_pool

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


# Field case 59: offsets past 2^31 elements. The last row lies there; 4.4 GB in fp16.
def test_the_last_row_of_a_tensor_of_more_than_2_31_elements(close):
    batch, tokens, head_dim = 2**31 // (512 * 64) + 64, 512, 64
    memory = torch.zeros(batch, tokens, head_dim, dtype=torch.float16, device="cuda")
    memory[-1].normal_()
    last = memory[-1:].clone()
    assert memory[-1].storage_offset() > 2**31
    assert close(diagonal_attention(memory, memory)[-1:], diagonal_attention(last, last).double())
    embeddings = ditto_pool(last.expand(batch, -1, -1), last.expand(batch, -1, -1), memory, memory)
    assert close(embeddings[-1:], ditto_pool(last, last, last, last).double())
    weights = torch.ones(batch, tokens, device="cuda")
    assert close(weighted_pool(weights, memory, memory)[-1:], weighted_pool(weights[-1:], last, last).double())


# Field case 59 within one sequence: the stride alone carries an offset past 2^31.
def test_strides_past_2_31_elements(close):
    tokens, step = 40, 2**31 // 32
    memory = torch.zeros(tokens * step, dtype=torch.float16, device="cuda")
    view = memory.as_strided((1, tokens, 16), (0, step, 1))
    view.normal_()
    copy = view.contiguous()
    assert close(diagonal_attention(view, view), diagonal_attention(copy, copy).double())


# Field case 66: the current device is 0, the tensors are on 1.
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_tensor_on_another_than_the_current_device(make, close):
    x = make(2, 40, 16, 24, device="cuda:1")
    assert torch.cuda.current_device() == 0
    got = ditto_pool(*x.tensors)
    assert got.device == torch.device("cuda:1")
    assert close(got, ditto_pool(*(tensor.cpu() for tensor in x.tensors)).double())


@pytest.mark.parametrize("tokens", [128, 2048])
def test_no_score_matrix_is_stored(tokens, make):
    x = make(64, tokens, 64, 768, torch.float16, "cuda")
    ditto_pool(*x.tensors)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    ditto_pool(*x.tensors)
    results = 4 * 64 * (768 + tokens)
    assert torch.cuda.max_memory_allocated() - before <= results + 2**20


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("tokens", [16, 128, 512])
def test_common_sizes(tokens, dtype, make, close, definition):
    valid = torch.arange(tokens) < torch.randint(1, tokens + 1, (64, 1), generator=torch.Generator().manual_seed(0))
    x = make(64, tokens, 64, 768, dtype, "cuda", valid)
    got = ditto_pool(*x.tensors, attention_mask=x.valid)
    assert close(got, definition[1](x.diagonal, x.first, x.last, x.valid), dtype)
