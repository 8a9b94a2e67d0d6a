# ruff: noqa: N803 (in Triton upper case marks what is fixed at compilation, and sizes)
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The diagonal of softmax attention, a tile of queries at a time, without a T x T buffer.

    A_ii = exp(s_ii - logsumexp_j s_ij) = 1 / sum_j exp(s_ij - s_ii),   s = scale q k^T (+ bias)

The second form needs no running maximum: with s_ii known before the other keys are read, the sum is at
least its own term exp(0) = 1, and where it overflows to infinity A_ii lies below the smallest float32, so
that 1 / inf = 0 is the right answer. Each program therefore starts at the tile on the diagonal and goes
round the other key tiles from there.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ditto_fast.kernels.sequences import Sequences
from ditto_fast.kernels.settings import launch_settings

LOG2E = tl.constexpr(1.4426950408889634)  # the hardware has exp2 only


@triton.jit
def sequence_span(b, spans_ptr, stride_sb, T, HAS_LENGTHS: tl.constexpr, PACKED: tl.constexpr):
    """First token and number of tokens of sequence b, kept inside the tensor whatever `spans_ptr` says."""
    start = tl.cast(0, tl.int64)
    length = tl.cast(T, tl.int64)
    if PACKED:
        start = tl.maximum(tl.load(spans_ptr + b * stride_sb).to(tl.int64), 0)
        length = tl.minimum(tl.load(spans_ptr + (b + 1) * stride_sb).to(tl.int64), length) - start
    elif HAS_LENGTHS:
        length = tl.minimum(tl.load(spans_ptr + b * stride_sb).to(tl.int64), length)
    return start, length.to(tl.int32)


@triton.jit
def valid_tokens(mask_ptr, offs_t, length, stride_mt, HAS_MASK: tl.constexpr):
    """Which tokens are inside the sequence and unmasked: (BLOCK_T,)."""
    valid = offs_t < length
    if HAS_MASK:
        valid = valid & (tl.load(mask_ptr + offs_t * stride_mt, mask=valid, other=0) != 0)
    return valid


@triton.jit
def score_tile(
    q, k_ptr, bias_ptr, offs_m, offs_n, valid_m, valid_n, scale,
    stride_kt, stride_kd, stride_bias_m, stride_bias_n,
    D: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Scores q k^T of one tile (BLOCK_T, BLOCK_T), scaled and biased where there is a bias."""
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)
    mask_k = (offs_d[:, None] < D) & valid_n[None, :]
    k = tl.load(k_ptr + offs_d[:, None] * stride_kd + offs_n[None, :] * stride_kt, mask=mask_k, other=0.0)
    # "ieee" concerns float32 alone: TF32 keeps 10 bits, so 1e-3 of a logit, and A is its exponential.
    s = tl.dot(q, k, input_precision="ieee")
    if HAS_BIAS:
        mask_bias = valid_m[:, None] & valid_n[None, :]
        offs_bias = offs_m[:, None] * stride_bias_m + offs_n[None, :] * stride_bias_n
        s = s * scale + tl.load(bias_ptr + offs_bias, mask=mask_bias, other=0.0).to(tl.float32)
    return s


@triton.jit
def diagonal_tile(
    q_ptr, k_ptr, mask_ptr, bias_ptr, start_m, length, scale,
    stride_qt, stride_qd, stride_kt, stride_kd, stride_mt, stride_bias_m, stride_bias_n,
    D: tl.constexpr, HAS_MASK: tl.constexpr, HAS_BIAS: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """A_ii of the tokens start_m to start_m + BLOCK_T, 0 where masked; the pointers stand at the sequence."""
    offs_tile = tl.arange(0, BLOCK_T)
    offs_m = (start_m + offs_tile).to(tl.int64)
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)
    valid_m = valid_tokens(mask_ptr, offs_m, length, stride_mt, HAS_MASK)
    mask_q = valid_m[:, None] & (offs_d[None, :] < D)
    q = tl.load(q_ptr + offs_m[:, None] * stride_qt + offs_d[None, :] * stride_qd, mask=mask_q, other=0.0)
    # The difference is taken before it is scaled, so that s_ii - s_ii is 0 to the last bit.
    to_log2 = LOG2E if HAS_BIAS else scale * LOG2E

    s = score_tile(
        q, k_ptr, bias_ptr, offs_m, offs_m, valid_m, valid_m, scale,
        stride_kt, stride_kd, stride_bias_m, stride_bias_n, D, HAS_BIAS, BLOCK_D,
    )  # fmt: skip
    own = tl.sum(tl.where(offs_tile[:, None] == offs_tile[None, :], s, 0.0), axis=1)
    acc = tl.sum(tl.where(valid_m[None, :], tl.exp2((s - own[:, None]) * to_log2), 0.0), axis=1)

    num_tiles = tl.where(start_m < length, tl.cdiv(length, BLOCK_T), 0)  # padding alone reads no more keys
    for step in range(1, num_tiles):
        start_n = (start_m // BLOCK_T + step) % num_tiles * BLOCK_T
        offs_n = (start_n + offs_tile).to(tl.int64)
        valid_n = valid_tokens(mask_ptr, offs_n, length, stride_mt, HAS_MASK)
        s = score_tile(
            q, k_ptr, bias_ptr, offs_m, offs_n, valid_m, valid_n, scale,
            stride_kt, stride_kd, stride_bias_m, stride_bias_n, D, HAS_BIAS, BLOCK_D,
        )  # fmt: skip
        acc += tl.sum(tl.where(valid_n[None, :], tl.exp2((s - own[:, None]) * to_log2), 0.0), axis=1)
    # A bias of -inf on s_ii itself forbids the token its own key.
    return tl.where(valid_m & (own != float("-inf")), 1.0 / acc, 0.0)


@triton.jit
def _diagonal_kernel(
    q_ptr, k_ptr, mask_ptr, spans_ptr, bias_ptr, out_ptr, scale, T,
    stride_qb, stride_qt, stride_qn, stride_qd,
    stride_kb, stride_kt, stride_kn, stride_kd,
    stride_mb, stride_mt, stride_sb,
    stride_bias_b, stride_bias_n, stride_bias_i, stride_bias_j,
    stride_ob, stride_on,
    D: tl.constexpr, HAS_MASK: tl.constexpr, HAS_LENGTHS: tl.constexpr, PACKED: tl.constexpr,
    HAS_BIAS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Diagonals (B, N, T), or (1, N, T) when packed; grid (sequence, tile of queries, head)."""
    b = tl.program_id(0).to(tl.int64)
    n = tl.program_id(2).to(tl.int64)
    start, length = sequence_span(b, spans_ptr, stride_sb, T, HAS_LENGTHS, PACKED)
    q_ptr += b * stride_qb + start * stride_qt + n * stride_qn
    k_ptr += b * stride_kb + start * stride_kt + n * stride_kn
    mask_ptr += b * stride_mb
    bias_ptr += b * stride_bias_b + n * stride_bias_n
    out_ptr += b * stride_ob + n * stride_on + start
    stop = length if PACKED else T  # padding is written, as 0; a packed sequence has none

    # A stride over the grid: `max_seqlen` sizes the grid, and no longer sequence goes wrong.
    for start_m in range(tl.program_id(1) * BLOCK_T, stop, tl.num_programs(1) * BLOCK_T):
        diagonal = diagonal_tile(
            q_ptr, k_ptr, mask_ptr, bias_ptr, start_m, length, tl.cast(scale, tl.float32),
            stride_qt, stride_qd, stride_kt, stride_kd, stride_mt, stride_bias_i, stride_bias_j,
            D, HAS_MASK, HAS_BIAS, BLOCK_T, BLOCK_D,
        )  # fmt: skip
        offs_t = start_m + tl.arange(0, BLOCK_T)
        tl.store(out_ptr + offs_t, diagonal, mask=offs_t < stop)


def launch_diagonals(query: Tensor, key: Tensor, sequences: Sequences, bias: Tensor | None, scale: float) -> Tensor:
    """Diagonals (B, N, T) float32 of query and key (B, T, N, D), by Triton.

    Args:
        query: (B, T, N, D); B is 1 when packed.
        key: As `query`.
        sequences: Where the tokens of each sequence are.
        bias: (B or 1, N or 1, T, T), added to the scaled scores.
        scale: Factor on q k^T.
    """
    batch, tokens, heads, head_dim = query.shape
    out = torch.empty((batch, heads, tokens), dtype=torch.float32, device=query.device)
    if out.numel() == 0 or sequences.count == 0:
        return out.zero_()
    settings = launch_settings("diagonal", dtype=query.dtype, tokens=sequences.longest, head_dim=head_dim)
    grid = (sequences.count, triton.cdiv(sequences.longest, settings.block_t), heads)
    mask, spans = sequences.mask, sequences.spans
    _diagonal_kernel[grid](
        query, key, query if mask is None else mask, query if spans is None else spans,
        query if bias is None else bias, out, scale, tokens,
        sequences.row_stride(query), *query.stride()[1:],
        sequences.row_stride(key), *key.stride()[1:],
        *((0, 0) if mask is None else mask.stride()), 0 if spans is None else spans.stride(0),
        *((0, 0, 0, 0) if bias is None else bias.expand(batch, heads, tokens, tokens).stride()),
        sequences.row_stride(out), out.stride(1),
        D=head_dim, HAS_MASK=mask is not None, HAS_LENGTHS=sequences.lengths is not None,
        PACKED=sequences.packed, HAS_BIAS=bias is not None,
        BLOCK_T=settings.block_t, BLOCK_D=settings.block_d,
        num_warps=settings.num_warps, num_stages=settings.num_stages, enable_fp_fusion=True,
    )  # fmt: skip
    return out
