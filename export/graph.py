"""The traced module: an encoder that returns a head's diagonal and its first and last hidden states."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ditto_fast.artifact import GRAPHS
from ditto_fast.export.architectures import Architecture
from ditto_fast.export.diagonal import head_diagonal
from ditto_fast.export.taps import record
from ditto_fast.heads import Head


class DittoGraph(nn.Module):
    """The module that is traced for one kind of graph of `ditto_fast.artifact.GRAPHS`.

    Args:
        model: The bare encoder, in evaluation mode.
        architecture: Its adapter.
        head: The head.
        kind: "tokens" or "embedding".
    """

    def __init__(self, model: nn.Module, architecture: Architecture, head: Head, kind: str) -> None:
        super().__init__()
        self.model = model
        self.config = model.config
        self.output_names = GRAPHS[kind][1]
        self.diagonal = head_diagonal(architecture, model, head)
        self._taps = {"first": architecture.first_hidden_state(model), **self.diagonal.taps}

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Takes (B, T) int64 each and returns the outputs of this kind of graph by name."""
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        with record(self._taps) as recorded:
            last = self.model(**inputs, return_dict=True).last_hidden_state
        first = recorded["first"]
        diagonal = self.diagonal(recorded, attention_mask)
        weights = 0.5 * diagonal[:, None, :]
        embedding = (torch.matmul(weights, first.float()) + torch.matmul(weights, last.float()))[:, 0, :]
        outputs = {
            "attention_diagonal": diagonal,
            "first_hidden_state": first,
            "last_hidden_state": last,
            "sentence_embedding": embedding,
        }
        return {name: outputs[name] for name in self.output_names}
