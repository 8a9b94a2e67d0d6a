"""What caches of other libraries tell encoders apart by."""

from __future__ import annotations

from ditto_fast.artifact import TOKENIZER_FILE
from ditto_fast.encoder import FastEncoder


def identity_of(encoder: FastEncoder) -> str:
    """All that an encoder's vectors depend on, in one line; a call's own options aside.

    Example:
        >>> identity_of(FastEncoder("minilm-ditto")).split()[1:6]
        ['1-10', 'ditto-first-last', 'fp32', '256', 'tokens']
    """
    manifest = encoder.manifest
    model = f"{manifest.source['model_id']}@{str(manifest.source['content_hash'])[:12]}"
    tokens = f"{encoder.max_seq_length} tokens by {manifest.files.get(TOKENIZER_FILE, '')[:12]}"
    settings = f"{manifest.head} {encoder.pooling} {encoder.precision} {tokens}"
    settings += " normalized" if manifest.normalize else ""
    return f"{model} {settings}" + "".join(f" {role}={prompt!r}" for role, prompt in sorted(encoder.prompts.items()))
