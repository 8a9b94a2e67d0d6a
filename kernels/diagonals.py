"""The diagonal of softmax attention: of one head, and of every head for a search over them.

    A_ii = exp(s_ii - logsumexp_j s_ij),   s = scale q k^T (+ bias),   j over the real tokens

Memory is O(B T) a head on CUDA: no T x T scores are stored. CPU tensors run plain torch.
"""

from __future__ import annotations

from torch import Tensor

from ditto_fast.kernels import operators
from ditto_fast.kernels.checks import check_one_mask, check_scores, check_tensors


def diagonal_attention(
    query: Tensor,
    key: Tensor,
    *,
    attention_mask: Tensor | None = None,
    lengths: Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Computes A_ii = exp(s_ii - logsumexp_j s_ij), s = scale q k^T + bias, of one head.

    Args:
        query: (B, T, D), any strides, D from 1 to 256.
        key: As `query`.
        attention_mask: (B, T), nonzero on real tokens, anywhere in the row.
        lengths: (B,), instead of a mask: row b has real tokens in 0 .. lengths[b] - 1; longer than T is T.
        scale: Factor on q k^T; 1/sqrt(D) by default.
        bias: (B or 1, T, T), added to the scaled scores, for models with relative positions.

    Returns:
        (B, T) float32; exactly 0 on masked tokens, whatever query and key hold there.

    Raises:
        OptionError: Shapes that do not fit, several devices, D out of range, or mask and lengths together.
        TensorTypeError: An element type that is not taken.
        MissingDependencyError: CUDA tensors without triton.
        KernelCacheError: Triton cannot write its cache.

    Example:
        >>> import torch
        >>> query = key = torch.zeros(1, 4, 8)
        >>> diagonal_attention(query, key, attention_mask=torch.tensor([[1, 1, 0, 0]]))
        tensor([[0.5000, 0.5000, 0.0000, 0.0000]])
    """
    check_tensors(
        query=(query, "B T D"), key=(key, "B T D"), attention_mask=(attention_mask, "B T"),
        lengths=(lengths, "B"), bias=(bias, "B|1 T T"),
    )  # fmt: skip
    check_one_mask(attention_mask, lengths)
    scale = check_scores(query, key, scale)
    bias = None if bias is None else bias[:, None]
    diagonal: Tensor = operators.head_diagonals(
        query[:, :, None], key[:, :, None], attention_mask, lengths, None, 0, bias, scale
    )
    return diagonal[:, 0]


def all_head_diagonals(
    query: Tensor,
    key: Tensor,
    *,
    attention_mask: Tensor | None = None,
    lengths: Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Computes A_ii = exp(s_ii - logsumexp_j s_ij), s = scale q k^T + bias, of each head in one call.

    Args:
        query: (B, T, N, D), any strides: the output (B, T, N*D) of a query projection, viewed.
        key: As `query`.
        attention_mask: (B, T), nonzero on real tokens.
        lengths: (B,), instead of a mask.
        scale: Factor on q k^T; 1/sqrt(D) by default.
        bias: (B or 1, N or 1, T, T), added to the scaled scores.

    Returns:
        (B, N, T) float32; exactly 0 on masked tokens.

    Raises:
        OptionError: Shapes that do not fit, several devices, D out of range, or mask and lengths together.
        TensorTypeError: An element type that is not taken.
        MissingDependencyError: CUDA tensors without triton.
        KernelCacheError: Triton cannot write its cache.

    Example:
        >>> import torch
        >>> all_head_diagonals(torch.zeros(1, 4, 2, 8), torch.zeros(1, 4, 2, 8))
        tensor([[[0.2500, 0.2500, 0.2500, 0.2500],
                 [0.2500, 0.2500, 0.2500, 0.2500]]])
    """
    check_tensors(
        query=(query, "B T N D"), key=(key, "B T N D"), attention_mask=(attention_mask, "B T"),
        lengths=(lengths, "B"), bias=(bias, "B|1 N|1 T T"),
    )  # fmt: skip
    check_one_mask(attention_mask, lengths)
    scale = check_scores(query, key, scale)
    diagonals: Tensor = operators.head_diagonals(query, key, attention_mask, lengths, None, 0, bias, scale)
    return diagonals
