"""The independent reference: the authors' eager way, every layer's attentions materialised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ditto_fast.heads import Head


def eager_outputs(model: Any, inputs: Mapping[str, NDArray[np.int64]], head: Head) -> dict[str, NDArray[np.float32]]:
    """Runs the model with output_attentions and output_hidden_states and takes what Ditto needs.

    Args:
        model: The bare encoder, loaded with attn_implementation="eager", in evaluation mode.
        inputs: input_ids, attention_mask and, where the model has them, token_type_ids (B, T).
        head: The head.

    Returns:
        By the names of the export's outputs: attention_diagonal (B, T), 0 on padding;
        first_hidden_state and last_hidden_state (B, T, H); sentence_embedding (B, H).
    """
    tensors = {name: torch.from_numpy(np.asarray(value)) for name, value in inputs.items()}
    with torch.inference_mode():
        outputs = model(**tensors, output_attentions=True, output_hidden_states=True, return_dict=True)
        mask = tensors["attention_mask"].float()
        attention = outputs.attentions[head.layer - 1][:, head.number - 1]
        diagonal = attention.diagonal(dim1=-2, dim2=-1) * mask
        first, last = outputs.hidden_states[0], outputs.last_hidden_state  # pre-norm models: after the last norm
        embedding = ((first + last) / 2 * diagonal.unsqueeze(-1)).sum(dim=1)
    named = {
        "attention_diagonal": diagonal,
        "first_hidden_state": first,
        "last_hidden_state": last,
        "sentence_embedding": embedding,
    }
    return {name: tensor.float().numpy() for name, tensor in named.items()}
