"""Ditto embeddings of padded batches.

e = 1/2 sum_i A_ii (first_i + last_i),   A_ii = exp(s_ii - logsumexp_j s_ij),   s = scale q k^T (+ bias)
"""

from __future__ import annotations

from typing import Literal, overload

from torch import Tensor

from ditto_fast.kernels import operators
from ditto_fast.kernels.checks import check_one_mask, check_scores, check_tensors


@overload
def ditto_pool(
    query: Tensor, key: Tensor, first: Tensor, last: Tensor, *, attention_mask: Tensor | None = None,
    lengths: Tensor | None = None, scale: float | None = None, bias: Tensor | None = None,
    normalize: bool = False, return_diagonal: Literal[False] = False,
) -> Tensor: ...  # fmt: skip


@overload
def ditto_pool(
    query: Tensor, key: Tensor, first: Tensor, last: Tensor, *, attention_mask: Tensor | None = None,
    lengths: Tensor | None = None, scale: float | None = None, bias: Tensor | None = None,
    normalize: bool = False, return_diagonal: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip


def ditto_pool(
    query: Tensor,
    key: Tensor,
    first: Tensor,
    last: Tensor,
    *,
    attention_mask: Tensor | None = None,
    lengths: Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | None = None,
    normalize: bool = False,
    return_diagonal: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Computes e = 1/2 sum_i A_ii (first_i + last_i) with A_ii of one head, no attention matrix stored.

    Args:
        query: (B, T, D) of the head, any strides, D from 1 to 256.
        key: As `query`.
        first: Embedding-layer output h0 (B, T, H), any strides.
        last: Last layer hL (B, T, H).
        attention_mask: (B, T), nonzero on real tokens, anywhere in the row; the others may hold NaN.
        lengths: (B,), instead of a mask: row b has real tokens in 0 .. lengths[b] - 1; longer than T is T.
        scale: Factor on q k^T; 1/sqrt(D) by default.
        bias: (B or 1, T, T), added to the scaled scores, for models with relative positions.
        normalize: Whether to divide each embedding by its L2 norm; a zero vector stays zero.
        return_diagonal: Whether to return A_ii as well.

    Returns:
        Embeddings (B, H) float32, 0 without real tokens; with `return_diagonal` also A_ii (B, T) float32.

    Raises:
        OptionError: Shapes that do not fit, several devices, D out of range, or mask and lengths together.
        TensorTypeError: An element type that is not taken.
        MissingDependencyError: CUDA tensors without triton; KernelCacheError: its cache cannot be written.

    Example:
        >>> import torch
        >>> x = torch.ones(1, 2, 3)
        >>> ditto_pool(x, x, x, 3 * x, lengths=torch.tensor([2]))
        tensor([[2., 2., 2.]])
    """
    check_tensors(
        query=(query, "B T D"), key=(key, "B T D"), first=(first, "B T H"), last=(last, "B T H"),
        attention_mask=(attention_mask, "B T"), lengths=(lengths, "B"), bias=(bias, "B|1 T T"),
    )  # fmt: skip
    check_one_mask(attention_mask, lengths)
    embeddings, diagonal = operators.ditto_pool(
        query,
        key,
        first,
        last,
        attention_mask,
        lengths,
        None,
        0,
        bias,
        check_scores(query, key, scale),
        normalize,
    )
    return (embeddings, diagonal) if return_diagonal else embeddings


def weighted_pool(weights: Tensor, first: Tensor, last: Tensor, *, normalize: bool = False) -> Tensor:
    """Computes e = 1/2 sum_i w_i (first_i + last_i), for a diagonal that is already there.

    Args:
        weights: (B, T), 0 on padding; a token of weight 0 is left out, NaN or not.
        first: h0 (B, T, H), any strides.
        last: hL (B, T, H).
        normalize: Whether to divide each embedding by its L2 norm; a zero vector stays zero.

    Returns:
        Embeddings (B, H) float32.

    Raises:
        OptionError: Shapes that do not fit, or several devices.
        TensorTypeError: An element type that is not taken.
        MissingDependencyError: CUDA tensors without triton.
        KernelCacheError: Triton cannot write its cache.

    Example:
        >>> import torch
        >>> weights = torch.tensor([[1.0, 0.0]])
        >>> weighted_pool(weights, torch.ones(1, 2, 3), torch.full((1, 2, 3), 3.0))
        tensor([[2., 2., 2.]])
    """
    check_tensors(weights=(weights, "B T"), first=(first, "B T H"), last=(last, "B T H"))
    embeddings: Tensor = operators.weighted_pool(weights, first, last, None, normalize)
    return embeddings
