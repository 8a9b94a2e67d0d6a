"""What the export must know of an architecture: where h0 and the chosen head live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from ditto_fast.export.taps import AttentionTap, Tap


@dataclass(frozen=True)
class HeadProjection:
    """What a head's scores are made of: scale q.k, plus a bias where the model adds one.

    Args:
        layer_input: Where the input (B, T, H) of the projections passes.
        number: The head within its layer, counted from 1.
        query_weight: The head's own rows (D, H).
        query_bias: (D,).
        key_weight: (D, H).
        key_bias: (D,).
        scale: Factor on q.k, 1/sqrt(D) as a rule.
        score_bias: Where the bias of all heads (B, N, T, T) passes, if there is one.
    """

    layer_input: Tap
    number: int
    query_weight: Tensor
    query_bias: Tensor
    key_weight: Tensor
    key_bias: Tensor
    scale: float
    score_bias: Tap | None = None


class Architecture(ABC):
    """One family of encoders. Layers and heads count from 1; `model` is the bare encoder (an AutoModel)."""

    model_types: ClassVar[tuple[str, ...]]
    traced_attention: ClassVar[str] = "eager"
    """transformers' attention implementation to trace: the one whose graph the fuser recognises."""

    def max_positions(self, config: Any) -> int:
        """Longest input in tokens: the rows of the position table, or the length the model was made for."""
        return int(config.max_position_embeddings)

    def head_dim(self, config: Any) -> int:
        """Width of a head's query and key."""
        return int(config.hidden_size // config.num_attention_heads)

    @abstractmethod
    def first_hidden_state(self, model: Any) -> Tap:
        """Where h0 = hidden_states[0] (B, T, H) passes."""

    @abstractmethod
    def attention(self, model: Any, layer: int) -> AttentionTap:
        """The layer's attention module, which returns its probabilities when asked."""

    def head_projection(self, model: Any, layer: int, number: int) -> HeadProjection | None:  # noqa: ARG002
        """What the head's scores are made of; None where it is more than that, so they must be captured."""
        return None


def slice_projection(
    layer_input: Tap, query: nn.Linear, key: nn.Linear, number: int, head_dim: int, score_bias: Tap | None = None
) -> HeadProjection:
    """The rows of head `number` in query and key projections (N*D, H) that stack the heads."""
    rows = slice((number - 1) * head_dim, number * head_dim)
    return HeadProjection(
        layer_input=layer_input,
        number=number,
        query_weight=query.weight[rows],
        query_bias=query.bias[rows],
        key_weight=key.weight[rows],
        key_bias=key.bias[rows],
        scale=head_dim**-0.5,
        score_bias=score_bias,
    )
