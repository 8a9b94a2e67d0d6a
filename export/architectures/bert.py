"""BERT and those that share its encoder: `encoder.layer[i].attention.self.{query,key}`."""

from __future__ import annotations

from typing import Any, ClassVar

from ditto_fast.export.architectures.base import Architecture, HeadProjection, slice_projection
from ditto_fast.export.taps import AttentionTap, Tap


class Bert(Architecture):
    """Positions count from 0.

    h0 is tapped where the encoder takes it, which is after ELECTRA's embedding projection.
    """

    model_types: ClassVar[tuple[str, ...]] = ("bert", "electra", "ernie", "megatron-bert")

    def first_hidden_state(self, model: Any) -> Tap:
        """What the encoder takes in."""
        return Tap(model.encoder, "hidden_states")

    def attention(self, model: Any, layer: int) -> AttentionTap:
        """The layer's self-attention, after the norm where there is one before it."""
        return AttentionTap(model.encoder.layer[layer - 1].attention.self)

    def head_projection(self, model: Any, layer: int, number: int) -> HeadProjection | None:
        """The head's rows of query and key; None where relative positions join the scores."""
        if getattr(model.config, "position_embedding_type", "absolute") != "absolute":
            return None
        attention = self.attention(model, layer).module
        layer_input = Tap(attention, "hidden_states")
        return slice_projection(layer_input, attention.query, attention.key, number, self.head_dim(model.config))
