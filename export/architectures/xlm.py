"""XLM: post-norm layers in parallel lists, `attentions[i]` among them."""

from __future__ import annotations

from typing import Any, ClassVar

from ditto_fast.export.architectures.base import Architecture
from ditto_fast.export.taps import AttentionTap, Tap


class Xlm(Architecture):
    """No languages are fed, as the model does without `langs`."""

    model_types: ClassVar[tuple[str, ...]] = ("xlm",)

    def first_hidden_state(self, model: Any) -> Tap:
        """What the first layer takes in: the embeddings, 0 on padding."""
        return Tap(model.attentions[0], "input")

    def attention(self, model: Any, layer: int) -> AttentionTap:
        """The layer's self-attention."""
        return AttentionTap(model.attentions[layer - 1])
