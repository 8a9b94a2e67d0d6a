"""Where the tokens of each sequence are: padded with a mask or with lengths, or packed end to end."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sequences:
    """The sequences in tensors of `batch` rows of `tokens` each.

    Args:
        batch: Rows B; 1 when packed.
        tokens: Tokens T in a row, padding included.
        mask: (B, T), nonzero on real tokens, or None.
        lengths: (B,), or None: row b holds real tokens in 0 .. lengths[b] - 1.
        cu_seqlens: (sequences + 1,), or None: sequence b is cu_seqlens[b] .. cu_seqlens[b + 1] - 1.
        max_seqlen: Tokens of the longest packed sequence.
    """

    batch: int
    tokens: int
    mask: Tensor | None = None
    lengths: Tensor | None = None
    cu_seqlens: Tensor | None = None
    max_seqlen: int = 0

    @property
    def packed(self) -> bool:
        """Whether the sequences lie end to end in one row."""
        return self.cu_seqlens is not None

    @property
    def count(self) -> int:
        """Number of sequences."""
        return self.batch if self.cu_seqlens is None else self.cu_seqlens.shape[0] - 1

    @property
    def longest(self) -> int:
        """Most tokens a sequence is said to have, at least 1."""
        return max(1, self.max_seqlen if self.packed else self.tokens)

    def row_stride(self, tensor: Tensor) -> int:
        """What a kernel adds to go from sequence b to b + 1: nothing when packed, where all share the row."""
        return 0 if self.packed else tensor.stride(0)

    @property
    def spans(self) -> Tensor | None:
        """The tensor of positions that a kernel reads, if any."""
        return self.lengths if self.cu_seqlens is None else self.cu_seqlens

    def valid(self, device: torch.device) -> Tensor:
        """Real tokens (B, T) of padded rows, bool."""
        if self.mask is not None:
            return self.mask != 0
        if self.lengths is not None:
            return torch.arange(self.tokens, device=device) < self.lengths[:, None]
        return torch.ones((self.batch, self.tokens), dtype=torch.bool, device=device)
