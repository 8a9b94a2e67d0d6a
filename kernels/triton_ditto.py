# ruff: noqa: N803 (in Triton upper case marks what is fixed at compilation, and sizes)
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Ditto in one launch for short sequences, in two for long ones.

A_ii = exp(s_ii - logsumexp_j s_ij),   e = 1/2 sum_i A_ii (first_i + last_i)
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ditto_fast.kernels.sequences import Sequences
from ditto_fast.kernels.settings import ONE_LAUNCH_MAX_TOKENS, launch_settings
from ditto_fast.kernels.triton_diagonal import diagonal_tile, launch_diagonals, sequence_span
from ditto_fast.kernels.triton_pooling import launch_weighted_pool, weighted_sum


@triton.jit
def _ditto_kernel(
    q_ptr, k_ptr, first_ptr, last_ptr, mask_ptr, spans_ptr, bias_ptr, diagonal_ptr, out_ptr, scale, T,
    stride_qb, stride_qt, stride_qd,
    stride_kb, stride_kt, stride_kd,
    stride_fb, stride_ft, stride_fh,
    stride_lb, stride_lt, stride_lh,
    stride_mb, stride_mt, stride_sb,
    stride_bias_b, stride_bias_i, stride_bias_j,
    stride_ab, stride_ob,
    D: tl.constexpr, H: tl.constexpr, HAS_MASK: tl.constexpr, HAS_LENGTHS: tl.constexpr,
    PACKED: tl.constexpr, HAS_BIAS: tl.constexpr, NORMALIZE: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Diagonal (B, T) and embedding (B, H) of one sequence; grid (sequence,)."""
    b = tl.program_id(0).to(tl.int64)
    start, length = sequence_span(b, spans_ptr, stride_sb, T, HAS_LENGTHS, PACKED)
    q_ptr += b * stride_qb + start * stride_qt
    k_ptr += b * stride_kb + start * stride_kt
    mask_ptr += b * stride_mb
    bias_ptr += b * stride_bias_b
    diagonal_ptr += b * stride_ab + start
    stop = length if PACKED else T

    for start_m in range(0, stop, BLOCK_T):
        diagonal = diagonal_tile(
            q_ptr, k_ptr, mask_ptr, bias_ptr, start_m, length, tl.cast(scale, tl.float32),
            stride_qt, stride_qd, stride_kt, stride_kd, stride_mt, stride_bias_i, stride_bias_j,
            D, HAS_MASK, HAS_BIAS, BLOCK_T, BLOCK_D,
        )  # fmt: skip
        offs_t = start_m + tl.arange(0, BLOCK_T)
        tl.store(diagonal_ptr + offs_t, diagonal, mask=offs_t < stop)
    # The sum reads the diagonal in another layout than the scores left it in; it comes back from cache,
    # once all threads of this program have written.
    tl.debug_barrier()
    offs_h = tl.arange(0, BLOCK_H)
    embedding = weighted_sum(
        diagonal_ptr,
        first_ptr + b * stride_fb + start * stride_ft,
        last_ptr + b * stride_lb + start * stride_lt,
        offs_h, length, 1, stride_ft, stride_fh, stride_lt, stride_lh,
        H, NORMALIZE, ROWS, BLOCK_H,
    )  # fmt: skip
    tl.store(out_ptr + b * stride_ob + offs_h, embedding, mask=offs_h < H)


def launch_ditto_pool(
    query: Tensor, key: Tensor, first: Tensor, last: Tensor, sequences: Sequences, bias: Tensor | None,
    scale: float, normalize: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Embeddings (B, H) and diagonal (B, T), float32, by Triton.

    Args:
        query: (B, T, D); B is 1 when packed, here and below.
        key: As `query`.
        first: (B, T, H).
        last: (B, T, H).
        sequences: Where the tokens of each sequence are.
        bias: (B or 1, T, T), added to the scaled scores.
        scale: Factor on q k^T.
        normalize: Whether to divide each embedding by its L2 norm.
    """
    if sequences.longest > ONE_LAUNCH_MAX_TOKENS:
        bias = None if bias is None else bias[:, None]
        diagonal = launch_diagonals(query[:, :, None], key[:, :, None], sequences, bias, scale)[:, 0]
        return launch_weighted_pool(diagonal, first, last, sequences, normalize), diagonal
    return _launch_one(query, key, first, last, sequences, bias, scale, normalize)


def _launch_one(
    query: Tensor, key: Tensor, first: Tensor, last: Tensor, sequences: Sequences, bias: Tensor | None,
    scale: float, normalize: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`launch_ditto_pool` in one launch."""
    batch, tokens, head_dim = query.shape
    hidden = first.shape[2]
    diagonal = torch.empty((batch, tokens), dtype=torch.float32, device=query.device)
    out = torch.empty((sequences.count, hidden), dtype=torch.float32, device=query.device)
    if sequences.count == 0:
        return out, diagonal
    settings = launch_settings("ditto", dtype=query.dtype, tokens=sequences.longest, head_dim=head_dim, hidden=hidden)
    mask, spans = sequences.mask, sequences.spans
    _ditto_kernel[(sequences.count,)](
        query, key, first, last, query if mask is None else mask, query if spans is None else spans,
        query if bias is None else bias, diagonal, out, scale, tokens,
        sequences.row_stride(query), *query.stride()[1:],
        sequences.row_stride(key), *key.stride()[1:],
        sequences.row_stride(first), *first.stride()[1:],
        sequences.row_stride(last), *last.stride()[1:],
        *((0, 0) if mask is None else mask.stride()), 0 if spans is None else spans.stride(0),
        *((0, 0, 0) if bias is None else bias.expand(batch, tokens, tokens).stride()),
        sequences.row_stride(diagonal), out.stride(0),
        D=head_dim, H=hidden, HAS_MASK=mask is not None, HAS_LENGTHS=sequences.lengths is not None,
        PACKED=sequences.packed, HAS_BIAS=bias is not None, NORMALIZE=normalize,
        BLOCK_T=settings.block_t, BLOCK_D=settings.block_d, ROWS=settings.rows, BLOCK_H=settings.block_h,
        num_warps=settings.num_warps, num_stages=settings.num_stages, enable_fp_fusion=True,
    )  # fmt: skip
    return out, diagonal
