"""A head's attention diagonal A_ii as part of the graph, in one of two ways.

Projected: A = softmax(scale q k^T + bias) over the real tokens. The head's q and k are computed a second time
from the layer's input, with that head's rows of the weights alone: under 1 % of the work, and the layer's own
attention stays as it was, so that graph optimisers still recognise it.

Captured: the diagonal of the probabilities that the layer's eager attention computes anyway. It serves any
attention whatever its scores are made of, and costs nothing where no optimiser would fuse the layer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ditto_fast.export.architectures import Architecture, HeadProjection
from ditto_fast.export.taps import AttentionTap, Tap
from ditto_fast.heads import Head


class HeadDiagonal(nn.Module):
    """Computes a head's diagonal (B, T) from what its taps recorded while the model ran."""

    taps: dict[str, Tap]


class ProjectedDiagonal(HeadDiagonal):
    """The diagonal of softmax(scale q k^T + bias).

    Args:
        projection: The head's own projections.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, projection: HeadProjection) -> None:
        super().__init__()
        self.taps = {"layer_input": projection.layer_input}
        if projection.score_bias is not None:
            self.taps["score_bias"] = projection.score_bias
        self.head_index = projection.number - 1
        weight = torch.cat([projection.query_weight * projection.scale, projection.key_weight])
        bias = torch.cat([projection.query_bias * projection.scale, projection.key_bias])
        self.register_buffer("weight", weight.detach().clone())
        self.register_buffer("bias", bias.detach().clone())

    def forward(self, recorded: dict[str, Any], mask: Tensor) -> Tensor:
        """Takes the tensors of the taps and the attention mask (B, T)."""
        query, key = self.query_key(recorded)
        score_bias = recorded.get("score_bias")
        return attention_diagonal(query, key, mask, None if score_bias is None else score_bias[:, self.head_index])

    def query_key(self, recorded: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """Scaled query and key (B, T, D) each.

        One Gemm over flat rows: fusion counts the MatMuls on a layer's input to find its attention.
        """
        layer_input = recorded["layer_input"]
        batch, tokens, hidden = layer_input.shape
        both = F.linear(layer_input.reshape(-1, hidden), self.weight, self.bias)
        query, key = both.view(batch, tokens, -1).chunk(2, dim=-1)
        return query, key


class CapturedDiagonal(HeadDiagonal):
    """The diagonal of the probabilities that the layer's own attention computes.

    Args:
        attention: Where they are returned.
        number: The head within the layer, counted from 1.
    """

    def __init__(self, attention: AttentionTap, number: int) -> None:
        super().__init__()
        self.taps = {"probabilities": attention}
        self.head_index = number - 1

    def forward(self, recorded: dict[str, Any], mask: Tensor) -> Tensor:
        """Takes the tensors of the taps and the attention mask (B, T)."""
        own = matrix_diagonals(recorded["probabilities"][:, self.head_index]).float()
        return torch.where(mask > 0, own, torch.zeros_like(own))


def head_diagonal(architecture: Architecture, model: nn.Module, head: Head) -> HeadDiagonal:
    """Projected where the architecture says how, captured elsewhere."""
    projection = architecture.head_projection(model, head.layer, head.number)
    if projection is not None:
        return ProjectedDiagonal(projection)
    return CapturedDiagonal(architecture.attention(model, head.layer), head.number)


def matrix_diagonals(matrices: Tensor) -> Tensor:
    """Diagonals (..., T) of matrices (..., T, T): one strided slice, where ONNX has no operator for `diagonal`."""
    return matrices.flatten(-2)[..., :: matrices.shape[-1] + 1]


def attention_diagonal(query: Tensor, key: Tensor, mask: Tensor, score_bias: Tensor | None = None) -> Tensor:
    """A_ii = 1 / sum_j exp(s_ij - s_ii), s = q k^T + bias, over the keys j that the mask allows.

    This is exp(s_ii - logsumexp_j s_ij), exact at logits of any size: an overflow gives 1 / inf = 0. ONNX
    Runtime's shape inference, which some fusions need, stops at the reductions of a logsumexp and not here.

    Args:
        query: Scaled queries of one head (B, T, D).
        key: Keys of the head (B, T, D).
        mask: Attention mask (B, T), 1 on real tokens.
        score_bias: What the model adds to the scores (B, T, T), such as a relative position bias.

    Returns:
        The diagonal (B, T), float32; exactly 0 on padding, so a fully masked row is 0 throughout.
    """
    real = mask > 0
    scores = torch.matmul(query.float(), key.float().transpose(1, 2))
    own = (query.float() * key.float()).sum(dim=-1, keepdim=True)
    if score_bias is not None:
        scores = scores + score_bias.float()
        own = own + matrix_diagonals(score_bias.float()).unsqueeze(-1)
    total = torch.exp((scores - own).masked_fill(~real[:, None, :], -torch.inf)).sum(dim=-1)
    return torch.where(real, 1.0 / total, torch.zeros_like(total))
