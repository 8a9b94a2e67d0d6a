"""The operators on packed batches: sequences end to end, no padding read or written.

Sequence b is the tokens cu_seqlens[b] .. cu_seqlens[b + 1] - 1. The positions are used where they lie, so
that no call waits for the device; they are kept inside the tensor, but their order is the caller's duty.
Tokens of no sequence are not read, and on CUDA their place in a diagonal is not written.
"""

from __future__ import annotations

from typing import Literal, overload

from torch import Tensor

from ditto_fast.errors import OptionError
from ditto_fast.kernels import operators
from ditto_fast.kernels.checks import check_scores, check_tensors


def _check_lengths(cu_seqlens: Tensor, max_seqlen: int | None = None) -> None:
    """Checks what can be without reading from the device.

    Raises:
        OptionError: No positions, or max_seqlen is negative or no int.
    """
    if cu_seqlens.shape[0] == 0:
        raise OptionError("cu_seqlens must hold sequences + 1 positions; got none. Pass [0] for no sequence.")
    if max_seqlen is not None and (not isinstance(max_seqlen, int) or max_seqlen < 0):
        raise OptionError(f"max_seqlen must be an int of at least 0; got {max_seqlen!r}. Pass the longest length.")


def diagonal_attention_packed(
    query: Tensor, key: Tensor, cu_seqlens: Tensor, max_seqlen: int, *, scale: float | None = None
) -> Tensor:
    """Computes A_ii = exp(s_ii - logsumexp_j s_ij), s = scale q k^T, j over the sequence of token i.

    Args:
        query: (tokens, D) of one head, any strides, D from 1 to 256.
        key: As `query`.
        cu_seqlens: (B + 1,), running sum of the lengths from 0.
        max_seqlen: The longest length; it sizes the launch, results do not depend on it.
        scale: Factor on q k^T; 1/sqrt(D) by default.

    Returns:
        (tokens,) float32.

    Raises:
        OptionError: Shapes that do not fit, several devices or D out of range.
        TensorTypeError: An element type that is not taken.
        MissingDependencyError: CUDA tensors without triton.
        KernelCacheError: Triton cannot write its cache.

    Example:
        >>> import torch
        >>> query = key = torch.zeros(3, 8)
        >>> diagonal_attention_packed(query, key, torch.tensor([0, 1, 3]), 2)
        tensor([1.0000, 0.5000, 0.5000])
    """
    check_tensors(query=(query, "tokens D"), key=(key, "tokens D"), cu_seqlens=(cu_seqlens, "B+1"))
    _check_lengths(cu_seqlens, max_seqlen)
    scale = check_scores(query, key, scale)
    diagonal: Tensor = operators.head_diagonals(
        query[None, :, None], key[None, :, None], None, None, cu_seqlens, max_seqlen, None, scale
    )
    return diagonal[0, 0]


@overload
def ditto_pool_packed(
    query: Tensor, key: Tensor, first: Tensor, last: Tensor, cu_seqlens: Tensor, max_seqlen: int, *,
    scale: float | None = None, normalize: bool = False, return_diagonal: Literal[False] = False,
) -> Tensor: ...  # fmt: skip


@overload
def ditto_pool_packed(
    query: Tensor, key: Tensor, first: Tensor, last: Tensor, cu_seqlens: Tensor, max_seqlen: int, *,
    scale: float | None = None, normalize: bool = False, return_diagonal: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip


def ditto_pool_packed(
    query: Tensor,
    key: Tensor,
    first: Tensor,
    last: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    *,
    scale: float | None = None,
    normalize: bool = False,
    return_diagonal: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Computes e = 1/2 sum_i A_ii (first_i + last_i) of each packed sequence.

    Args:
        query: (tokens, D) of one head, any strides, D from 1 to 256.
        key: As `query`.
        first: h0 (tokens, H), any strides.
        last: hL (tokens, H).
        cu_seqlens: (B + 1,), running sum of the lengths from 0.
        max_seqlen: The longest length; it sizes the launch, results do not depend on it.
        scale: Factor on q k^T; 1/sqrt(D) by default.
        normalize: Whether to divide each embedding by its L2 norm; a zero vector stays zero.
        return_diagonal: Whether to return A_ii as well.

    Returns:
        Embeddings (B, H) float32; with `return_diagonal`, and the diagonal (tokens,) float32.

    Raises:
        OptionError: Shapes that do not fit, several devices or D out of range.
        TensorTypeError: An element type that is not taken.
        MissingDependencyError: CUDA tensors without triton.
        KernelCacheError: Triton cannot write its cache.

    Example:
        >>> import torch
        >>> query = key = torch.zeros(3, 8)
        >>> ditto_pool_packed(query, key, torch.ones(3, 2), torch.ones(3, 2), torch.tensor([0, 1, 3]), 2)
        tensor([[1., 1.],
                [1., 1.]])
    """
    check_tensors(
        query=(query, "tokens D"), key=(key, "tokens D"), first=(first, "tokens H"), last=(last, "tokens H"),
        cu_seqlens=(cu_seqlens, "B+1"),
    )  # fmt: skip
    _check_lengths(cu_seqlens, max_seqlen)
    embeddings, diagonal = operators.ditto_pool(
        query[None], key[None], first[None], last[None], None, None, cu_seqlens, max_seqlen, None,
        check_scores(query, key, scale), normalize,
    )  # fmt: skip
    return (embeddings, diagonal[0]) if return_diagonal else embeddings


def weighted_pool_packed(
    weights: Tensor, first: Tensor, last: Tensor, cu_seqlens: Tensor, *, normalize: bool = False
) -> Tensor:
    """Computes e = 1/2 sum_i w_i (first_i + last_i) of each packed sequence.

    Args:
        weights: (tokens,); a token of weight 0 is left out, NaN or not.
        first: h0 (tokens, H), any strides.
        last: hL (tokens, H).
        cu_seqlens: (B + 1,), running sum of the lengths from 0.
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
        >>> states = torch.arange(6.0).view(3, 2)
        >>> weighted_pool_packed(torch.ones(3), states, states, torch.tensor([0, 1, 3]))
        tensor([[0., 1.],
                [6., 8.]])
    """
    check_tensors(
        weights=(weights, "tokens"), first=(first, "tokens H"), last=(last, "tokens H"),
        cu_seqlens=(cu_seqlens, "B+1"),
    )  # fmt: skip
    _check_lengths(cu_seqlens)
    embeddings: Tensor = operators.weighted_pool(weights[None], first[None], last[None], cu_seqlens, normalize)
    return embeddings
