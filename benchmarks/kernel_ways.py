"""The ways to a batch's Ditto embeddings from tensors at hand: q and k, h0 and hL.

B batch, T tokens, N heads, D head size, H hidden size; every row is full.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ditto_fast.kernels import ditto_pool, weighted_pool
from ditto_fast.kernels.reference import ditto_pool_reference, weighted_pool_reference
from ditto_fast.kernels.sequences import Sequences

Call = Callable[[], Tensor]


@dataclass(frozen=True)
class Tensors:
    """Random inputs of one case.

    Args:
        query: (B, T, N, D).
        key: (B, T, N, D).
        first: (B, T, H).
        last: (B, T, H).
    """

    query: Tensor
    key: Tensor
    first: Tensor
    last: Tensor

    @classmethod
    def random(cls, batch: int, tokens: int, heads: int, head_dim: int, dtype: torch.dtype, device: str) -> Tensors:
        """Seeded inputs."""
        generator = torch.Generator(device).manual_seed(0)

        def make(*shape: int) -> Tensor:
            return torch.randn(batch, tokens, *shape, generator=generator, dtype=dtype, device=device)

        hidden = heads * head_dim
        return cls(make(heads, head_dim), make(heads, head_dim), make(hidden), make(hidden))

    @property
    def one_head(self) -> tuple[Tensor, Tensor]:
        """Query and key of the first head, (B, T, D) views."""
        return self.query[:, :, 0], self.key[:, :, 0]

    @property
    def scale(self) -> float:
        """Factor on q k^T."""
        return 1 / math.sqrt(self.query.shape[-1])


def eager_all_heads(x: Tensors) -> Tensor:
    """The authors' way: every head's attention matrix, of which one diagonal is used."""
    scores = x.scale * (x.query.transpose(1, 2) @ x.key.permute(0, 2, 3, 1))
    diagonal = scores.softmax(dim=-1)[:, 0].diagonal(dim1=-2, dim2=-1)
    return ((x.first + x.last) / 2 * diagonal[:, :, None]).sum(dim=1)


def plain_torch(query: Tensor, key: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """The best of plain torch: one head's scores, their logsumexp, a product for the sum."""
    scores = torch.bmm(query, key.transpose(1, 2)).float() * (1 / math.sqrt(query.shape[-1]))
    diagonal = (scores.diagonal(dim1=-2, dim2=-1) - scores.logsumexp(dim=-1)).exp()
    weights = 0.5 * diagonal[:, None].to(first.dtype)
    return (torch.bmm(weights, first) + torch.bmm(weights, last))[:, 0].float()


def ditto_ways(x: Tensors, compiled: bool) -> dict[str, Call]:
    """Ways to the embeddings, by the names that rows have."""
    arguments = (*x.one_head, x.first, x.last)
    ways: dict[str, Call] = {
        "eager, all heads": lambda: eager_all_heads(x),
        "torch, bmm + logsumexp": lambda: plain_torch(*arguments),
    }
    if compiled:
        compile_once: Callable[..., Tensor] = torch.compile(plain_torch)
        ways["the same by torch.compile"] = lambda: compile_once(*arguments)
    ways["ditto_pool"] = lambda: ditto_pool(*arguments)
    return ways


def pool_ways(x: Tensors) -> dict[str, Call]:
    """Ways to the weighted sum alone."""
    weights = torch.rand(x.first.shape[:2], device=x.first.device, generator=_generator(x))
    halves = 0.5 * weights[:, None].to(x.first.dtype)
    return {
        "torch, two bmm": lambda: (torch.bmm(halves, x.first) + torch.bmm(halves, x.last))[:, 0].float(),
        "weighted_pool": lambda: weighted_pool(weights, x.first, x.last),
    }


def _generator(x: Tensors) -> torch.Generator:
    return torch.Generator(x.first.device).manual_seed(1)


def ditto_expected(x: Tensors) -> Tensor:
    """What every way of `ditto_ways` must give."""
    batch, tokens = x.first.shape[:2]
    return ditto_pool_reference(*x.one_head, x.first, x.last, Sequences(batch, tokens), scale=x.scale)[0]


def pool_expected(x: Tensors) -> Tensor:
    """What every way of `pool_ways` must give."""
    batch, tokens = x.first.shape[:2]
    weights = torch.rand((batch, tokens), device=x.first.device, generator=_generator(x))
    return weighted_pool_reference(weights, x.first, x.last, Sequences(batch, tokens))
