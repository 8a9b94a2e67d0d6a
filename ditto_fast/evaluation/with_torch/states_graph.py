"""A checkpoint's token states as one ONNX graph: all heads' diagonals, first, second-last and last states.

Each layer's eager attention computes its probabilities (B, N, T, T) anyway, and their diagonals (B, N, T) are one
strided slice, taken before the next layer's are made: no attention matrix of more than one layer exists at a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ditto_fast.errors import ParityError
from ditto_fast.evaluation.states import (
    POOLER_OUTPUT,
    STATES_FILE,
    STATES_GRAPH,
    STATES_OUTPUTS,
    TABLES_FILE,
    Sizes,
    StateSource,
    open_states,
)
from ditto_fast.export.checkpoint import Checkpoint, load_checkpoint
from ditto_fast.export.diagonal import matrix_diagonals
from ditto_fast.export.optimum_export import write_onnx
from ditto_fast.export.reference import eager_outputs
from ditto_fast.export.taps import Tap, record
from ditto_fast.files import atomic_directory
from ditto_fast.heads import Head
from ditto_fast.tolerances import difference, within

_OPSET = 18
_FORMAT = 3  # of the cached folder; another number makes it anew
_SENTENCES = ("", "Rain.", "Who repaired the old piano in the school hall?", "word " * 60)


class StatesGraph(nn.Module):
    """The module that is traced.

    Args:
        checkpoint: The encoder.
    """

    output_names: tuple[str, ...]
    config: Any

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self.model = checkpoint.model
        self.config = checkpoint.model.config
        self.output_names = (*STATES_OUTPUTS, POOLER_OUTPUT) if checkpoint.has_pooler else STATES_OUTPUTS
        self._taps: dict[str, Tap] = {"first": checkpoint.architecture.first_hidden_state(self.model)}
        self._layers = [f"probabilities_{layer}" for layer in range(1, self.config.num_hidden_layers + 1)]
        for layer, name in enumerate(self._layers, start=1):
            self._taps[name] = checkpoint.architecture.attention(self.model, layer)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Takes (B, T) int64 each; returns `output_names`, as `StateSource.run` names their shapes."""
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        with record(self._taps) as recorded:
            states = self.model(**inputs, output_hidden_states=True, return_dict=True)
        diagonals = [matrix_diagonals(recorded[name]) for name in self._layers]  # (B, N, T) each
        outputs = (
            torch.stack(diagonals, dim=1).permute(0, 3, 1, 2).float() * attention_mask[:, :, None, None],
            recorded["first"],
            states.hidden_states[-2],
            states.last_hidden_state,
            states.get(POOLER_OUTPUT),
        )
        return dict(zip(self.output_names, outputs, strict=False))


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
    # for its side: whoever reads the file sets a length
    raw.enable_truncation(512, direction=checkpoint.tokenizer.truncation_side)
    raw.save(str(folder / "tokenizer.json"))
    np.savez(folder / TABLES_FILE, static=checkpoint.model.get_input_embeddings().weight.detach().float().numpy())
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
