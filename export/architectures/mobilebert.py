"""MobileBERT: BERT's layers within bottlenecks, so that heads are narrower than H / N."""

from __future__ import annotations

from typing import Any, ClassVar

from ditto_fast.export.architectures.base import Architecture
from ditto_fast.export.taps import AttentionTap, Tap


class MobileBert(Architecture):
    """Query and key come from one or two bottlenecks, as the config says: the probabilities are captured."""

    model_types: ClassVar[tuple[str, ...]] = ("mobilebert",)

    def head_dim(self, config: Any) -> int:
        """Width of a head within the bottleneck."""
        return int(config.true_hidden_size // config.num_attention_heads)

    def first_hidden_state(self, model: Any) -> Tap:
        """The embeddings."""
        return Tap(model.embeddings)

    def attention(self, model: Any, layer: int) -> AttentionTap:
        """The layer's self-attention."""
        return AttentionTap(model.encoder.layer[layer - 1].attention.self)
