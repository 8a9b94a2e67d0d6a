"""A checkpoint's token states as one ONNX graph: the diagonals of all heads, first, second-last, last states.

The diagonal of a head is A_ii = exp(s_ii - logsumexp_j s_ij). Each layer's scores (B, N, T, T) are reduced to
(B, N, T) before the next layer's are made, so no attention matrix of more than one layer exists at a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ditto_fast.errors import ParityError
from ditto_fast.evaluation.states import (
    STATES_FILE,
    STATES_GRAPH,
    STATES_OUTPUTS,
    TABLES_FILE,
    Sizes,
    StateSource,
    open_states,
)
from ditto_fast.export.architectures import Architecture
from ditto_fast.export.checkpoint import Checkpoint, load_checkpoint
from ditto_fast.export.diagonal import matrix_diagonals
from ditto_fast.export.optimum_export import write_onnx
from ditto_fast.export.reference import eager_outputs
from ditto_fast.export.taps import Tap, record
from ditto_fast.files import atomic_directory
from ditto_fast.heads import Head
from ditto_fast.tolerances import difference, within

_OPSET = 18
_FORMAT = 1  # of the cached folder; another number makes it anew
_SENTENCES = ("", "Rain.", "Who repaired the old piano in the school hall?", "word " * 60)


class StatesGraph(nn.Module):
    """The module that is traced.

    Args:
        checkpoint: The encoder.
    """

    output_names: tuple[str, ...] = STATES_OUTPUTS
    config: Any

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self.model = checkpoint.model
        self.config = checkpoint.model.config
        self.num_layers, self.num_heads = self.config.num_hidden_layers, self.config.num_attention_heads
        self._taps: dict[str, Tap] = {"first": checkpoint.architecture.first_hidden_state(self.model)}
        for layer in range(self.num_layers):
            self._add_layer(checkpoint.architecture, layer)

    def _add_layer(self, architecture: Architecture, layer: int) -> None:
        """Query and key of every head where the architecture says how; else the layer's own probabilities."""
        heads = []
        for number in range(self.num_heads):
            head = architecture.head_projection(self.model, layer + 1, number + 1)
            if head is None:
                self._taps[f"probabilities_{layer}"] = architecture.attention(self.model, layer + 1)
                return
            heads.append(head)
        self._taps[f"input_{layer}"] = heads[0].layer_input
        if heads[0].score_bias is not None:
            self._taps[f"score_bias_{layer}"] = heads[0].score_bias
        weight = [head.query_weight * head.scale for head in heads] + [head.key_weight for head in heads]
        bias = [head.query_bias * head.scale for head in heads] + [head.key_bias for head in heads]
        self.register_buffer(f"weight_{layer}", torch.cat(weight).detach().clone())
        self.register_buffer(f"bias_{layer}", torch.cat(bias).detach().clone())

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Takes (B, T) int64 each; returns diagonals (B, T, L, N), 0 on padding, and three states (B, T, H)."""
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        with record(self._taps) as recorded:
            states = self.model(**inputs, output_hidden_states=True, return_dict=True)
        real = attention_mask > 0
        diagonals = [self._diagonals(recorded, layer, real) for layer in range(self.num_layers)]
        outputs = (
            torch.stack(diagonals, dim=1).permute(0, 3, 1, 2),
            recorded["first"],
            states.hidden_states[-2],
            states.last_hidden_state,
        )
        return dict(zip(self.output_names, outputs, strict=True))

    def _diagonals(self, recorded: dict[str, Any], layer: int, real: Tensor) -> Tensor:
        """A_ii of each head (B, N, T) of one layer: 1 / sum_j exp(s_ij - s_ii), 0 on padding."""
        probabilities = recorded.get(f"probabilities_{layer}")
        if probabilities is not None:
            return matrix_diagonals(probabilities).float() * real[:, None, :]
        layer_input = recorded[f"input_{layer}"]
        batch, tokens, _ = layer_input.shape
        both = F.linear(layer_input, getattr(self, f"weight_{layer}"), getattr(self, f"bias_{layer}"))
        query, key = both.view(batch, tokens, 2, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.matmul(query, key.transpose(2, 3))
        own = (query * key).sum(dim=-1, keepdim=True)
        score_bias = recorded.get(f"score_bias_{layer}")
        if score_bias is not None:
            scores = scores + score_bias
            own = own + matrix_diagonals(score_bias).unsqueeze(-1)
        scores = (scores - own).masked_fill(~real[:, None, None, :], -torch.inf)
        return real[:, None, :] / torch.exp(scores).sum(dim=-1).clamp_min(torch.finfo(torch.float32).tiny)


def cached_states(model: str, cache: Path) -> Path:
    """The folder with a checkpoint's states graph, written and compared with the eager model when it is new.

    Args:
        model: A folder, a hub id, or a short name of `ditto_fast.heads.PAPER_MODELS`.
        cache: Where such folders are kept, each under the hash of its weights.

    Raises:
        ModelNotFoundError: The checkpoint cannot be found or loaded.
        UnsupportedModelError: It is no encoder that can be exported.
        ParityError: The graph differs from the eager model.
    """
    checkpoint = load_checkpoint(model)
    directory = cache / f"{Path(checkpoint.name).name}-{checkpoint.content_hash[:16]}-{_FORMAT}"
    if not (directory / STATES_FILE).is_file():
        with atomic_directory(directory, force=True) as folder:
            _write(checkpoint, folder)
            _check(checkpoint, open_states(folder))
    return directory


def _write(checkpoint: Checkpoint, folder: Path) -> None:
    config = checkpoint.model.config
    write_onnx(StatesGraph(checkpoint), checkpoint.input_names, folder / STATES_GRAPH, _OPSET)
    raw = checkpoint.tokenizer.backend_tokenizer
    raw.no_padding()
    raw.no_truncation()
    raw.save(str(folder / "tokenizer.json"))
    arrays = {"static": checkpoint.model.get_input_embeddings().weight}
    if checkpoint.has_pooler:
        dense = checkpoint.model.pooler.dense
        arrays |= {"pooler_weight": dense.weight, "pooler_bias": dense.bias}
    np.savez(folder / TABLES_FILE, **{name: tensor.detach().float().numpy() for name, tensor in arrays.items()})
    Sizes(
        checkpoint.name,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.hidden_size,
        checkpoint.tokenizer.pad_token_id,
        checkpoint.architecture.max_positions(config),
    ).write(folder)


def _check(checkpoint: Checkpoint, source: StateSource) -> None:
    """One head a layer, a different one in each, and the hidden states, in one padded batch."""
    states = source.run([source.encodings.ids(text) for text in _SENTENCES])
    mask = states["mask"]
    inputs = {"input_ids": states["input_ids"], "attention_mask": mask}
    for layer in range(source.sizes.num_layers):
        number = layer % source.sizes.num_heads
        expected = eager_outputs(checkpoint.model, inputs, Head(layer + 1, number + 1))
        pairs = {
            f"diagonal of {layer + 1}-{number + 1}": (
                states["diagonals"][:, :, layer, number],
                expected["attention_diagonal"],
            ),
            "first hidden state": (states["first"][mask > 0], expected["first_hidden_state"][mask > 0]),
            "last hidden state": (states["last"][mask > 0], expected["last_hidden_state"][mask > 0]),
        }
        for name, (actual, wanted) in pairs.items():
            if not within(actual, wanted):
                raise ParityError(
                    f"The states graph of {checkpoint.name} differs from the eager model: {name} by "
                    f"{difference(actual, wanted):.3g} of the largest value. Please report this model."
                )
