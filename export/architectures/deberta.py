"""DeBERTa, all versions: disentangled attention, whose scores add content-to-position and position-to-content."""

from __future__ import annotations

from typing import Any, ClassVar

from ditto_fast.export.architectures.base import Architecture
from ditto_fast.export.taps import AttentionTap, Tap


class Deberta(Architecture):
    """Relative positions have no last row; the longest input is the length that the model was made for."""

    model_types: ClassVar[tuple[str, ...]] = ("deberta", "deberta-v2")

    def first_hidden_state(self, model: Any) -> Tap:
        """The embeddings."""
        return Tap(model.embeddings)

    def attention(self, model: Any, layer: int) -> AttentionTap:
        """The layer's disentangled self-attention."""
        return AttentionTap(model.encoder.layer[layer - 1].attention.self)
