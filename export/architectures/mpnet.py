"""MPNet: a bias of relative positions, one for all layers, joins the scores."""

from __future__ import annotations

from typing import Any, ClassVar

from ditto_fast.export.architectures.base import Architecture, HeadProjection, slice_projection
from ditto_fast.export.taps import AttentionTap, Tap


class MPNet(Architecture):
    """Positions count from 2: the model's padding index is 1 whatever the config says."""

    model_types: ClassVar[tuple[str, ...]] = ("mpnet",)

    def max_positions(self, config: Any) -> int:
        """Rows of the position table after the padding row."""
        return int(config.max_position_embeddings - 2)

    def first_hidden_state(self, model: Any) -> Tap:
        """The embeddings."""
        return Tap(model.embeddings)

    def attention(self, model: Any, layer: int) -> AttentionTap:
        """The layer's self-attention."""
        return AttentionTap(model.encoder.layer[layer - 1].attention.attn)

    def head_projection(self, model: Any, layer: int, number: int) -> HeadProjection:
        """The head's rows of query and key, and the bias that the encoder hands to each layer."""
        attention = self.attention(model, layer).module
        return slice_projection(
            Tap(attention, "hidden_states"),
            attention.q,
            attention.k,
            number,
            self.head_dim(model.config),
            score_bias=Tap(attention, "position_bias"),
        )
