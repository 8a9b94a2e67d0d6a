"""DistilBERT: `transformer.layer[i].attention.{q_lin,k_lin}`."""

from __future__ import annotations

from typing import Any, ClassVar

from ditto_fast.export.architectures.base import Architecture, HeadProjection, slice_projection
from ditto_fast.export.taps import AttentionTap, Tap


class DistilBert(Architecture):
    """BERT's mathematics under other names, without token types."""

    model_types: ClassVar[tuple[str, ...]] = ("distilbert",)
    traced_attention: ClassVar[str] = "sdpa"

    def first_hidden_state(self, model: Any) -> Tap:
        """The embeddings."""
        return Tap(model.embeddings)

    def attention(self, model: Any, layer: int) -> AttentionTap:
        """The layer's self-attention."""
        return AttentionTap(model.transformer.layer[layer - 1].attention)

    def head_projection(self, model: Any, layer: int, number: int) -> HeadProjection:
        """The head's rows of query and key."""
        attention = self.attention(model, layer).module
        layer_input = Tap(attention, "query")
        return slice_projection(layer_input, attention.q_lin, attention.k_lin, number, self.head_dim(model.config))
