"""BERT and those that share its encoder: `encoder.layer[i].attention.self.{query,key}`."""

from __future__ import annotations

from typing import Any, ClassVar

from ditto_fast.export.architectures.base import Architecture, HeadProjection, Tap, slice_projection


class Bert(Architecture):
    """BERT and ELECTRA: positions count from 0.

    h0 is tapped where the encoder takes it, which is after ELECTRA's embedding projection.
    """

    model_types: ClassVar[tuple[str, ...]] = ("bert", "electra")
    fusion: ClassVar[str | None] = "bert"

    def max_positions(self, config: Any) -> int:
        """Rows of the position table."""
        return int(config.max_position_embeddings)

    def first_hidden_state(self, model: Any) -> Tap:
        """What the encoder takes in."""
        return Tap(model.encoder, "input")

    def layer_input(self, model: Any, layer: int) -> Tap:
        """What the layer's self-attention takes in."""
        return Tap(model.encoder.layer[layer - 1].attention.self, "input")

    def head_projection(self, model: Any, layer: int, number: int) -> HeadProjection:
        """The head's rows of query and key."""
        attention = model.encoder.layer[layer - 1].attention.self
        return slice_projection(attention.query, attention.key, number, attention.attention_head_size)


class Roberta(Bert):
    """RoBERTa: positions count from padding_idx + 1."""

    model_types: ClassVar[tuple[str, ...]] = ("roberta",)

    def max_positions(self, config: Any) -> int:
        """Rows of the position table after the padding row."""
        return int(config.max_position_embeddings - config.pad_token_id - 1)
