"""The operators in plain torch, written for reading: what CPU tensors run, and what kernels are held to.

Each computes in `dtype`, float32 or on request float64, from inputs of any float type.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from ditto_fast.kernels.sequences import Sequences


def head_diagonals_reference(
    query: Tensor,
    key: Tensor,
    sequences: Sequences,
    *,
    scale: float,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Diagonals A_ii = exp(s_ii - logsumexp_j s_ij) of every head, s = scale q k^T + bias, j real.

    Args:
        query: (B, T, N, D).
        key: As `query`.
        sequences: Where the real tokens are.
        scale: Factor on q k^T.
        bias: (B or 1, N or 1, T, T).
        dtype: To compute in.

    Returns:
        (B, N, T), 0 on padding and in fully masked rows.
    """
    if sequences.cu_seqlens is not None:
        diagonal = torch.zeros(query.shape[:3], dtype=dtype, device=query.device).transpose(1, 2)
        for one, tokens in _unpack(sequences):
            diagonal[:, :, tokens] = head_diagonals_reference(
                query[:, tokens], key[:, tokens], one, scale=scale, dtype=dtype
            )
        return diagonal
    valid = sequences.valid(query.device)
    query, key = (_without_padding(x, valid).to(dtype).transpose(1, 2) for x in (query, key))
    scores = scale * (query @ key.transpose(-1, -2))
    if bias is not None:
        scores = scores + bias.to(dtype)
    scores = scores.masked_fill(~valid[:, None, None, :], -torch.inf)
    own = scores.diagonal(dim1=-2, dim2=-1)
    # 1 / sum_j exp(s_ij - s_ii) is the same, and exact where exp(s_ii - logsumexp) rounds: at a logit of 3e4
    # the logsumexp keeps two decimals. An overflow of the sum is an A_ii below the smallest float32.
    diagonal = torch.exp(scores - own[..., None]).sum(dim=-1).reciprocal()
    # -inf on the diagonal: a masked token, or one whose bias forbids its own key
    return diagonal.masked_fill(own == -torch.inf, 0.0)


def weighted_pool_reference(
    weights: Tensor,
    first: Tensor,
    last: Tensor,
    sequences: Sequences,
    *,
    normalize: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Embeddings e = 1/2 sum_i w_i (first_i + last_i), and e / |e| if `normalize`.

    A token of weight 0 is left out.

    Args:
        weights: (B, T).
        first: (B, T, H).
        last: (B, T, H).
        sequences: Where the sequences are; padding is told by its weight 0.
        normalize: Whether to divide by the L2 norm; a zero vector stays zero.
        dtype: To compute in.

    Returns:
        (B, H).
    """
    if sequences.cu_seqlens is not None:
        pooled = torch.zeros((sequences.count, first.shape[2]), dtype=dtype, device=first.device)
        for index, (one, tokens) in enumerate(_unpack(sequences)):
            pooled[index] = weighted_pool_reference(
                weights[:, tokens], first[:, tokens], last[:, tokens], one, normalize=normalize, dtype=dtype
            )[0]
        return pooled
    used = weights != 0
    states = sum(_without_padding(x, used).to(dtype) for x in (first, last))
    pooled = 0.5 * torch.einsum("bt,bth->bh", weights.to(dtype), states)
    if normalize:
        norms = torch.linalg.vector_norm(pooled, dim=1, keepdim=True)
        pooled = pooled / norms.masked_fill(norms == 0, 1.0)
    return pooled


def ditto_pool_reference(
    query: Tensor,
    key: Tensor,
    first: Tensor,
    last: Tensor,
    sequences: Sequences,
    *,
    scale: float,
    bias: Tensor | None = None,
    normalize: bool = False,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Embeddings e = 1/2 sum_i A_ii (first_i + last_i), and the diagonal A_ii of one head.

    Args:
        query: (B, T, D).
        key: As `query`.
        first: (B, T, H).
        last: (B, T, H).
        sequences: Where the real tokens are.
        scale: Factor on q k^T.
        bias: (B or 1, T, T).
        normalize: Whether to divide by the L2 norm; a zero vector stays zero.
        dtype: To compute in.

    Returns:
        (B, H) and (B, T).
    """
    diagonal = head_diagonals_reference(
        query[:, :, None],
        key[:, :, None],
        sequences,
        scale=scale,
        bias=None if bias is None else bias[:, None],
        dtype=dtype,
    )[:, 0].contiguous()
    return weighted_pool_reference(diagonal, first, last, sequences, normalize=normalize, dtype=dtype), diagonal


def _without_padding(tensor: Tensor, valid: Tensor) -> Tensor:
    """`tensor` (B, T, ...) with 0 where `valid` (B, T) is false, so that NaN there stays out of sums."""
    while valid.dim() < tensor.dim():
        valid = valid[..., None]
    return tensor.masked_fill(~valid, 0.0)


def _unpack(sequences: Sequences) -> list[tuple[Sequences, slice]]:
    """Each packed sequence as one padded row without padding, and where its tokens are."""
    positions = [] if sequences.cu_seqlens is None else sequences.cu_seqlens.tolist()
    slices = [slice(max(start, 0), max(start, min(stop, sequences.tokens), 0)) for start, stop in pairwise(positions)]
    return [(Sequences(1, s.stop - s.start), s) for s in slices]
