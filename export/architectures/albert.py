"""ALBERT: few sets of weights, each run as several layers."""

from __future__ import annotations

from typing import Any, ClassVar

from ditto_fast.export.architectures.base import Architecture, HeadProjection, slice_projection
from ditto_fast.export.taps import AttentionTap, Tap


class Albert(Architecture):
    """A layer is one of the calls of the module that its group shares."""

    model_types: ClassVar[tuple[str, ...]] = ("albert",)

    def first_hidden_state(self, model: Any) -> Tap:
        """The widened embeddings."""
        return Tap(model.encoder.embedding_hidden_mapping_in)

    def attention(self, model: Any, layer: int) -> AttentionTap:
        """The attention of the layer's group, at the layer's call."""
        config = model.config
        layers_per_group = config.num_hidden_layers / config.num_hidden_groups
        groups = [int(index / layers_per_group) for index in range(layer)]  # of each layer up to this one
        group = model.encoder.albert_layer_groups[groups[-1]]
        return AttentionTap(group.albert_layers[0].attention, call=groups.count(groups[-1]))

    def head_projection(self, model: Any, layer: int, number: int) -> HeadProjection | None:
        """The head's rows of query and key; None where relative positions join the scores."""
        if model.config.position_embedding_type != "absolute":
            return None
        tap = self.attention(model, layer)
        layer_input = Tap(tap.module, "hidden_states", tap.call)
        return slice_projection(layer_input, tap.module.query, tap.module.key, number, self.head_dim(model.config))
