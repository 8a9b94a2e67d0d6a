"""ModernBERT: rotary positions, most layers with a sliding window, the norm before the attention."""

from __future__ import annotations

from typing import Any, ClassVar

from ditto_fast.export.architectures.base import Architecture
from ditto_fast.export.taps import AttentionTap, Tap


class ModernBert(Architecture):
    """Rotation and window are in the probabilities that are captured."""

    model_types: ClassVar[tuple[str, ...]] = ("modernbert",)

    def first_hidden_state(self, model: Any) -> Tap:
        """The embeddings."""
        return Tap(model.embeddings)

    def attention(self, model: Any, layer: int) -> AttentionTap:
        """The layer's attention, global or local."""
        return AttentionTap(model.layers[layer - 1].attn)
