"""Which adapter a checkpoint gets, or why it gets none."""

from __future__ import annotations

from typing import Any

from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from ditto_fast.errors import UnsupportedModelError
from ditto_fast.export.architectures import ARCHITECTURES, SUPPORTED_MODEL_TYPES, Architecture

# model type -> why no head of it has a matrix of attention between all tokens
WITHOUT_ATTENTIONS = {
    "big_bird": "it attends in sparse blocks",
    "canine": "most of its layers attend between groups of characters",
    "fnet": "it mixes tokens by Fourier transforms, without attention",
    "funnel": "it merges tokens between layers",
    "longformer": "it attends in sliding windows, and returns these",
    "mra": "it approximates attention at several resolutions, and returns none",
    "nystromformer": "it approximates attention through landmarks",
    "perceiver": "its latents attend to the tokens, and not these to each other",
    "reformer": "it attends within buckets of a hash",
    "yoso": "it estimates attention by hashing, and has no probabilities",
}


def find_architecture(config: Any) -> Architecture:
    """Returns the adapter of a config's model type.

    Raises:
        UnsupportedModelError: There is none; the message says why and what is supported.
    """
    model_type = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        reason = f"{model_type} is an encoder-decoder model; Ditto is defined on a bidirectional encoder"
    elif _is_causal(config):
        reason = f"{model_type} is decoder-only, with causal attention; Ditto needs a bidirectional encoder"
    elif model_type in WITHOUT_ATTENTIONS:
        reason = (
            f"{model_type} has no attention matrix whose diagonal Ditto could take: {WITHOUT_ATTENTIONS[model_type]}"
        )
    else:
        for architecture in ARCHITECTURES:
            if model_type in architecture.model_types:
                return architecture
        reason = f"The architecture {model_type!r} cannot be exported yet"
    raise UnsupportedModelError(f"{reason}. Supported: {', '.join(SUPPORTED_MODEL_TYPES)}.")


def _is_causal(config: Any) -> bool:
    only_causal = (
        config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    )
    return only_causal or getattr(config, "is_decoder", False) or getattr(config, "causal", False)  # "causal": XLM's
