"""Ours: FastEncoder as users call it."""

from __future__ import annotations

from job import Encode, Setting

from ditto_fast import FastEncoder
from ditto_fast.pooling import normalize


def encoder_of(
    setting: Setting, precision: str = "fp32", pooling: str | None = None, max_batch_tokens: int | None = None
) -> FastEncoder:
    """FastEncoder on the setting's export."""
    return FastEncoder(
        setting.export,
        pooling=pooling,
        precision=precision,
        num_threads=setting.threads,
        max_seq_length=setting.max_seq_length,
        max_batch_tokens=max_batch_tokens,
    )


def ours(setting: Setting) -> Encode:
    """FastEncoder with its defaults."""
    return encoder_of(setting).encode


def int8(setting: Setting) -> Encode:
    """FastEncoder on the int8 graph."""
    return encoder_of(setting, "int8").encode


def ours_mean(setting: Setting) -> Encode:
    """Our tokens graph, mean-pooled and normalised: what sentence-transformers computes on this model."""
    encoder = encoder_of(setting, pooling="mean-last")
    return lambda sentences: normalize(encoder.encode(sentences))
