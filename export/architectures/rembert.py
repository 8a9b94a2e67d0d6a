"""RemBERT: BERT's encoder, which widens the embeddings first."""

from __future__ import annotations

from typing import Any, ClassVar

from ditto_fast.export.architectures.bert import Bert
from ditto_fast.export.taps import Tap


class RemBert(Bert):
    """As BERT but for h0."""

    model_types: ClassVar[tuple[str, ...]] = ("rembert",)

    def first_hidden_state(self, model: Any) -> Tap:
        """The widened embeddings."""
        return Tap(model.encoder.embedding_hidden_mapping_in)
