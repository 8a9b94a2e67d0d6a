# ruff: noqa: N803 (in Triton upper case marks what is fixed at compilation, and sizes)
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The weighted first-last sum, for weights that are in memory.

    e = 1/2 sum_i w_i (first_i + last_i), and e / |e| with NORMALIZE (a zero vector stays zero)

A token of weight 0 is not loaded, so whatever its hidden states hold, NaN included, stays out of the sum.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ditto_fast.kernels.sequences import Sequences
from ditto_fast.kernels.settings import launch_settings
from ditto_fast.kernels.triton_diagonal import sequence_span


@triton.jit
def weighted_sum(
    weights_ptr, first_ptr, last_ptr, offs_h, length,
    stride_wt, stride_ft, stride_fh, stride_lt, stride_lh,
    H: tl.constexpr, NORMALIZE: tl.constexpr, ROWS: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Embedding values offs_h (BLOCK_H,) of one sequence, at which the pointers stand."""
    offs_h = offs_h.to(tl.int64)
    acc = tl.zeros([ROWS, BLOCK_H], dtype=tl.float32)
    for start_t in range(0, length, ROWS):
        offs_t = (start_t + tl.arange(0, ROWS)).to(tl.int64)
        weights = tl.load(weights_ptr + offs_t * stride_wt, mask=offs_t < length, other=0.0).to(tl.float32)
        mask = (weights != 0)[:, None] & (offs_h < H)[None, :]
        offs_first = offs_t[:, None] * stride_ft + offs_h[None, :] * stride_fh
        offs_last = offs_t[:, None] * stride_lt + offs_h[None, :] * stride_lh
        first = tl.load(first_ptr + offs_first, mask=mask, other=0.0).to(tl.float32)
        last = tl.load(last_ptr + offs_last, mask=mask, other=0.0).to(tl.float32)
        acc += weights[:, None] * (first + last)
    embedding = 0.5 * tl.sum(acc, axis=0)
    if NORMALIZE:
        square = tl.sum(embedding * embedding, axis=0)
        embedding = embedding / tl.where(square == 0, 1.0, tl.sqrt(square))
    return embedding


@triton.jit
def _pool_kernel(
    weights_ptr, first_ptr, last_ptr, spans_ptr, out_ptr, T,
    stride_wb, stride_wt,
    stride_fb, stride_ft, stride_fh,
    stride_lb, stride_lt, stride_lh,
    stride_sb, stride_ob,
    H: tl.constexpr, HAS_LENGTHS: tl.constexpr, PACKED: tl.constexpr,
    NORMALIZE: tl.constexpr, ROWS: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Embeddings (B, H); grid (sequence, block of hidden values)."""
    b = tl.program_id(0).to(tl.int64)
    start, length = sequence_span(b, spans_ptr, stride_sb, T, HAS_LENGTHS, PACKED)
    offs_h = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    embedding = weighted_sum(
        weights_ptr + b * stride_wb + start * stride_wt,
        first_ptr + b * stride_fb + start * stride_ft,
        last_ptr + b * stride_lb + start * stride_lt,
        offs_h, length, stride_wt, stride_ft, stride_fh, stride_lt, stride_lh,
        H, NORMALIZE, ROWS, BLOCK_H,
    )  # fmt: skip
    tl.store(out_ptr + b * stride_ob + offs_h, embedding, mask=offs_h < H)


def launch_weighted_pool(weights: Tensor, first: Tensor, last: Tensor, sequences: Sequences, normalize: bool) -> Tensor:
    """Embeddings (B, H) float32 of weights (B, T) and first, last (B, T, H), by Triton.

    Args:
        weights: (B, T); B is 1 when packed, here and below.
        first: (B, T, H).
        last: (B, T, H).
        sequences: Where the tokens of each sequence are.
        normalize: Whether to divide each embedding by its L2 norm.
    """
    hidden = first.shape[2]
    out = torch.empty((sequences.count, hidden), dtype=torch.float32, device=first.device)
    if out.numel() == 0:
        return out
    settings = launch_settings("pool", dtype=first.dtype, batch=sequences.count, hidden=hidden, whole_row=normalize)
    grid = (sequences.count, triton.cdiv(hidden, settings.block_h))
    spans = sequences.spans
    _pool_kernel[grid](
        weights, first, last, weights if spans is None else spans, out, sequences.tokens,
        sequences.row_stride(weights), weights.stride(1),
        sequences.row_stride(first), *first.stride()[1:],
        sequences.row_stride(last), *last.stride()[1:],
        0 if spans is None else spans.stride(0), out.stride(0),
        H=hidden, HAS_LENGTHS=sequences.lengths is not None, PACKED=sequences.packed, NORMALIZE=normalize,
        ROWS=settings.rows, BLOCK_H=settings.block_h,
        num_warps=settings.num_warps, num_stages=settings.num_stages, enable_fp_fusion=True,
    )  # fmt: skip
    return out
