"""The traced module: an encoder that returns a head's diagonal and its first and last hidden states."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ditto_fast.artifact import GRAPHS
from ditto_fast.errors import UnsupportedModelError
from ditto_fast.export.architectures import Architecture
from ditto_fast.export.diagonal import ProjectedDiagonal, head_diagonal
from ditto_fast.export.taps import record
from ditto_fast.heads import Head


def is_ditto(node_name: str) -> bool:
    """Whether a node of the written graph is Ditto's own: the tracer names the encoder's nodes /model/..."""
    return node_name.startswith("/") and not node_name.startswith("/model/")


class DittoGraph(nn.Module):
    """The module that is traced for one kind of graph of `ditto_fast.artifact.GRAPHS`.

    Args:
        model: The bare encoder, in evaluation mode.
        architecture: Its adapter.
        head: The head.
        kind: A key of `ditto_fast.artifact.GRAPHS`.
        normalize: Divide the embedding by its L2 norm.

    Raises:
        UnsupportedModelError: The head graph is asked for where query and key alone do not make the scores.
    """

    def __init__(self, model: Any, architecture: Architecture, head: Head, kind: str, normalize: bool) -> None:
        super().__init__()
        self.model = model
        self.config = model.config
        self.output_names = GRAPHS[kind][1]
        self.normalize = normalize
        self.diagonal = head_diagonal(architecture, model, head)
        self._taps = {"first": architecture.first_hidden_state(model), **self.diagonal.taps}
        if kind == "head" and (not isinstance(self.diagonal, ProjectedDiagonal) or "score_bias" in self.diagonal.taps):
            raise UnsupportedModelError(
                f"The head graph gives query and key, but the scores of {model.config.model_type} are made of more. "
                "Leave head out of --outputs: the tokens and embedding graphs serve this model."
            )

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Takes (B, T) int64 each and returns the outputs of this kind of graph by name."""
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        with record(self._taps) as recorded:
            last = self.model(**inputs, return_dict=True).last_hidden_state
        outputs = {"first_hidden_state": recorded["first"], "last_hidden_state": last}
        if "query" in self.output_names:
            outputs["query"], outputs["key"] = cast(ProjectedDiagonal, self.diagonal).query_key(recorded)
        else:
            outputs["attention_diagonal"] = self.diagonal(recorded, attention_mask)
        if "sentence_embedding" in self.output_names:
            outputs["sentence_embedding"] = self._pool(outputs)
        return {name: outputs[name] for name in self.output_names}

    def _pool(self, outputs: dict[str, Any]) -> Tensor:
        # the sum first: a MatMul on h0 would hide the first layer's attention from the fuser
        states = (outputs["first_hidden_state"] + outputs["last_hidden_state"]).float()
        embedding = torch.matmul(0.5 * outputs["attention_diagonal"][:, None, :], states)[:, 0, :]
        return F.normalize(embedding, dim=-1) if self.normalize else embedding
