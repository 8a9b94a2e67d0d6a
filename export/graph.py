"""The traced module: an encoder that returns a head's diagonal and its first and last hidden states.

The diagonal is A_ii = exp(s_ii - logsumexp_j s_ij) = 1 / sum_j exp(s_ij - s_ii) with s = scale q k^T over the real
tokens; the second form is exact at logits of any size, since an overflow gives 1 / inf = 0. The head's q
and k are computed a second time from the layer's input, with that head's rows of the weights alone: under
1 % of the work, and the layer's own attention stays as it was, so that graph optimisers still recognise it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ditto_fast.artifact import GRAPHS
from ditto_fast.export.architectures import Architecture, Tap
from ditto_fast.heads import Head


def is_ditto(node_name: str) -> bool:
    """Whether a node of the written graph is Ditto's own: the tracer names the encoder's nodes /model/..."""
    return node_name.startswith("/") and not node_name.startswith("/model/")


@contextmanager
def record(taps: dict[str, Tap]) -> Iterator[dict[str, Tensor]]:
    """Yields a dict that holds, after the model has run, the tensor that passed each tap."""
    recorded: dict[str, Tensor] = {}

    def hook(name: str, tap: Tap) -> torch.utils.hooks.RemovableHandle:
        if tap.side == "input":

            def take_input(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                recorded[name] = args[0] if args else kwargs["hidden_states"]

            return tap.module.register_forward_pre_hook(take_input, with_kwargs=True)

        def take_output(_: nn.Module, __: tuple[Any, ...], output: Any) -> None:
            recorded[name] = output[0] if isinstance(output, tuple) else output

        return tap.module.register_forward_hook(take_output)

    handles = [hook(name, tap) for name, tap in taps.items()]
    try:
        yield recorded
    finally:
        for handle in handles:
            handle.remove()


def attention_diagonal(query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
    """A_ii = 1 / sum_j exp(s_ij - s_ii) over the keys j that the mask allows.

    Args:
        query: Scaled queries of one head (B, T, D).
        key: Keys of the head (B, T, D).
        mask: Attention mask (B, T), 1 on real tokens.

    Returns:
        The diagonal (B, T), float32; exactly 0 on padding, so a fully masked row is 0 throughout.
    """
    query, key = query.float(), key.float()
    real = mask > 0
    scores = torch.matmul(query, key.transpose(1, 2))
    own = (query * key).sum(dim=-1, keepdim=True)
    total = torch.exp((scores - own).masked_fill(~real[:, None, :], -torch.inf)).sum(dim=-1)
    return torch.where(real, 1.0 / total, torch.zeros_like(total))


class DittoGraph(nn.Module):
    """The module that is traced for one kind of graph of `ditto_fast.artifact.GRAPHS`.

    Args:
        model: The bare encoder, in evaluation mode.
        architecture: Its adapter.
        head: The head.
        kind: A key of `ditto_fast.artifact.GRAPHS`.
        normalize: Divide the embedding by its L2 norm.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, model: nn.Module, architecture: Architecture, head: Head, kind: str, normalize: bool) -> None:
        super().__init__()
        self.model = model
        self.config = model.config
        self.output_names = GRAPHS[kind][1]
        self.normalize = normalize
        self._taps = {
            "first": architecture.first_hidden_state(model),
            "layer_input": architecture.layer_input(model, head.layer),
        }
        projection = architecture.head_projection(model, head.layer, head.number)
        weight = torch.cat([projection.query_weight * projection.scale, projection.key_weight])
        bias = torch.cat([projection.query_bias * projection.scale, projection.key_bias])
        self.register_buffer("weight", weight.detach().clone())
        self.register_buffer("bias", bias.detach().clone())

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
        query, key = self._query_key(recorded["layer_input"])
        diagonal = attention_diagonal(query, key, attention_mask)
        weights = 0.5 * diagonal[:, None, :]
        # the sum first: a MatMul on h0 would hide the first layer's attention from the fuser, as said below
        embedding = torch.matmul(weights, (first + last).float())[:, 0, :]
        if self.normalize:
            embedding = F.normalize(embedding, dim=-1)
        outputs = {
            "query": query,
            "key": key,
            "attention_diagonal": diagonal,
            "first_hidden_state": first,
            "last_hidden_state": last,
            "sentence_embedding": embedding,
        }
        return {name: outputs[name] for name in self.output_names}

    def _query_key(self, layer_input: Tensor) -> tuple[Tensor, Tensor]:
        """Scaled query and key (B, T, D) each.

        One Gemm over flat rows: fusion counts the MatMuls on a layer's input to find its attention.
        """
        batch, tokens, hidden = layer_input.shape
        both = F.linear(layer_input.reshape(-1, hidden), self.weight, self.bias)
        query, key = both.view(batch, tokens, -1).chunk(2, dim=-1)
        return query, key
