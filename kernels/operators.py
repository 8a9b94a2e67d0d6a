"""The operators as torch sees them, `torch.ops.ditto_fast.*`: torch.compile and export keep them whole.

The tensors' device decides: on CUDA Triton runs, on that very device; elsewhere plain torch does.
Packed sequences come as one row, (1, tokens, ...), with cu_seqlens. There is no backward.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ditto_fast.errors import MissingDependencyError
from ditto_fast.kernels.errors import KernelCacheError
from ditto_fast.kernels.reference import (
    ditto_pool_reference,
    head_diagonals_reference,
    weighted_pool_reference,
)
from ditto_fast.kernels.sequences import Sequences

_SPANS = "Tensor? attention_mask, Tensor? lengths, Tensor? cu_seqlens, SymInt max_seqlen"


def runs_triton(tensor: Tensor) -> bool:
    """Whether an operator on this tensor is Triton's to run; where a package is installed does not count."""
    return tensor.is_cuda


@contextmanager
def launching(tensor: Tensor) -> Iterator[None]:
    """Makes the tensor's device current for Triton, and explains the two ways an installation fails.

    Raises:
        MissingDependencyError: triton is not installed.
        KernelCacheError: Its cache folder cannot be written.
    """
    try:
        with torch.cuda.device(tensor.get_device()):  # -1, no device, for a CPU tensor
            yield
    except ImportError as error:
        raise MissingDependencyError(
            f"Tensors on {tensor.device} need triton, which cannot be imported ({error}). "
            "pip install triton, or move the tensors to the CPU, where plain torch runs."
        ) from error
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC):
            raise
        raise KernelCacheError(
            f"Triton must be able to write its cache of compiled kernels; got {error}. "
            "Set TRITON_CACHE_DIR to a folder that this user can write."
        ) from error


@torch.library.custom_op(
    "ditto_fast::head_diagonals",
    mutates_args=(),
    schema=f"(Tensor query, Tensor key, {_SPANS}, Tensor? bias, float scale) -> Tensor",
)
def head_diagonals(
    query: Tensor, key: Tensor, attention_mask: Tensor | None, lengths: Tensor | None,
    cu_seqlens: Tensor | None, max_seqlen: int, bias: Tensor | None, scale: float,
) -> Tensor:  # fmt: skip
    """A_ii (B, N, T) float32 of query and key (B, T, N, D)."""
    sequences = Sequences(query.shape[0], query.shape[1], attention_mask, lengths, cu_seqlens, max_seqlen)
    if runs_triton(query):
        with launching(query):
            from ditto_fast.kernels.triton_diagonal import launch_diagonals

            return launch_diagonals(query, key, sequences, bias, scale)
    return head_diagonals_reference(query, key, sequences, scale=scale, bias=bias).contiguous()


@head_diagonals.register_fake
def _(query: Tensor, *_: object) -> Tensor:
    return query.new_empty((query.shape[0], query.shape[2], query.shape[1]), dtype=torch.float32)


@torch.library.custom_op(
    "ditto_fast::weighted_pool",
    mutates_args=(),
    schema="(Tensor weights, Tensor first, Tensor last, Tensor? cu_seqlens, bool normalize) -> Tensor",
)
def weighted_pool(weights: Tensor, first: Tensor, last: Tensor, cu_seqlens: Tensor | None, normalize: bool) -> Tensor:
    """Embeddings (B, H) float32 of weights (B, T), first and last (B, T, H)."""
    sequences = Sequences(weights.shape[0], weights.shape[1], cu_seqlens=cu_seqlens)
    if runs_triton(weights):
        with launching(weights):
            from ditto_fast.kernels.triton_pooling import launch_weighted_pool

            return launch_weighted_pool(weights, first, last, sequences, normalize)
    return weighted_pool_reference(weights, first, last, sequences, normalize=normalize)


@weighted_pool.register_fake
def _(_weights: Tensor, first: Tensor, _last: Tensor, cu_seqlens: Tensor | None, *_: object) -> Tensor:
    return _new_embeddings(first, cu_seqlens)


@torch.library.custom_op(
    "ditto_fast::ditto_pool",
    mutates_args=(),
    schema=f"(Tensor query, Tensor key, Tensor first, Tensor last, {_SPANS}, Tensor? bias, float scale, "
    "bool normalize) -> (Tensor, Tensor)",
)
def ditto_pool(
    query: Tensor, key: Tensor, first: Tensor, last: Tensor, attention_mask: Tensor | None,
    lengths: Tensor | None, cu_seqlens: Tensor | None, max_seqlen: int, bias: Tensor | None, scale: float,
    normalize: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Embeddings (B, H) and diagonal (B, T), float32, of query, key (B, T, D) and first, last (B, T, H)."""
    sequences = Sequences(query.shape[0], query.shape[1], attention_mask, lengths, cu_seqlens, max_seqlen)
    if runs_triton(query):
        with launching(query):
            from ditto_fast.kernels.triton_ditto import launch_ditto_pool

            return launch_ditto_pool(query, key, first, last, sequences, bias, scale, normalize)
    return ditto_pool_reference(query, key, first, last, sequences, scale=scale, bias=bias, normalize=normalize)


@ditto_pool.register_fake
def _(
    query: Tensor, _key: Tensor, first: Tensor, _last: Tensor, _attention_mask: Tensor | None,
    _lengths: Tensor | None, cu_seqlens: Tensor | None, *_: object,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return _new_embeddings(first, cu_seqlens), query.new_empty(query.shape[:2], dtype=torch.float32)


def _new_embeddings(first: Tensor, cu_seqlens: Tensor | None) -> Tensor:
    """An empty (B, H) float32."""
    count = first.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    return first.new_empty((count, first.shape[2]), dtype=torch.float32)
