"""What the export must know of an architecture: where h0, and the chosen head's input and weights, live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn


@dataclass(frozen=True)
class Tap:
    """A tensor to record while the model runs: the first input, or the output, of a module."""

    module: nn.Module
    side: Literal["input", "output"]


@dataclass(frozen=True)
class HeadProjection:
    """A head's own rows of the query and key projections.

    Args:
        query_weight: (D, H).
        query_bias: (D,).
        key_weight: (D, H).
        key_bias: (D,).
        scale: Factor on the scores q.k, 1/sqrt(D) as a rule.
    """

    query_weight: Tensor
    query_bias: Tensor
    key_weight: Tensor
    key_bias: Tensor
    scale: float


class Architecture(ABC):
    """One family of encoders. The methods take the bare encoder (an AutoModel)."""

    model_types: ClassVar[tuple[str, ...]]
    fusion: ClassVar[str | None] = None
    """Name of onnxruntime.transformers' fuser whose patterns fit the traced graph, None where none does."""

    @abstractmethod
    def max_positions(self, config: Any) -> int:
        """Longest input in tokens that the position table allows."""

    @abstractmethod
    def first_hidden_state(self, model: Any) -> Tap:
        """Where h0 = hidden_states[0] (B, T, H) passes."""

    @abstractmethod
    def layer_input(self, model: Any, layer: int) -> Tap:
        """Where the input (B, T, H) of the query and key projections of a layer, counted from 1, passes."""

    @abstractmethod
    def head_projection(self, model: Any, layer: int, number: int) -> HeadProjection:
        """The weights of head `layer`-`number`, both counted from 1."""


def slice_projection(query: nn.Linear, key: nn.Linear, number: int, head_dim: int) -> HeadProjection:
    """The rows of head `number` (from 1) in query and key projections (N*D, H) that stack the heads."""
    rows = slice((number - 1) * head_dim, number * head_dim)
    return HeadProjection(query.weight[rows], query.bias[rows], key.weight[rows], key.bias[rows], scale=head_dim**-0.5)
