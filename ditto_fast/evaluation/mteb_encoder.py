"""FastEncoder as an encoder of MTEB, whose tasks then run on it: `mteb.evaluate(MtebEncoder(encoder), tasks)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import MissingDependencyError
from ditto_fast.integrations.identity import identity_of
from ditto_fast.prompts import listed
from ditto_fast.similarity import similarity, similarity_pairwise

FloatArray = NDArray[np.float32]


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]


def _name_of(encoder: FastEncoder) -> str:
    """Organisation and name, as mteb wants them, then pooling and head, then what differs from plain fp32."""
    manifest = encoder.manifest
    model = str(manifest.source["model_id"])
    parts = [model if "/" in model else f"local/{model}", encoder.pooling, manifest.head]
    if encoder.precision != "fp32":
        parts.append(encoder.precision)
    if encoder.max_seq_length != manifest.max_seq_length:
        parts.append(f"{encoder.max_seq_length}-tokens")
    if encoder.prompts:
        parts.append(f"prompts-{_digest(listed(encoder.prompts))}")
    return "-".join(parts)


class MtebEncoder:
    """Implements the protocol that mteb 2 asks of an encoder.

    mteb caches scores by name and revision: the name says how texts are encoded, and the revision ends in a digest of
    all that vectors depend on.

    Args:
        encoder: What embeds.

    Raises:
        MissingDependencyError: mteb is not installed, or is older than version 2.
    """

    def __init__(self, encoder: FastEncoder) -> None:
        try:
            from mteb.models import ModelMeta
        except ImportError as error:
            raise MissingDependencyError(
                f"MTEB's tasks need its version 2: pip install 'mteb>=2' ({error})."
            ) from error
        self._encoder = encoder
        self._given: Any = None
        self._meta = ModelMeta.create_empty(
            overwrites={"embed_dim": encoder.get_sentence_embedding_dimension(), "similarity_fn_name": "cosine"}
        )

    @property
    def mteb_model_meta(self) -> Any:
        """The encoder as it is now, in mteb's form: its length may have been set since; or what mteb has set."""
        if self._given is not None:
            return self._given
        encoder = self._encoder
        source = encoder.manifest.source
        revision = source["revision"] or str(source["content_hash"])[:16]
        return self._meta.model_copy(
            update={
                "name": _name_of(encoder),
                "revision": f"{revision}-{_digest(identity_of(encoder))}",
                "max_tokens": encoder.max_seq_length,
            }
        )

    @mteb_model_meta.setter
    def mteb_model_meta(self, meta: Any) -> None:
        self._given = meta  # mteb's CompressionWrapper notes there what it does

    def encode(
        self,
        inputs: Iterable[Mapping[str, Sequence[str]]],
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        batch_size: int = 32,
        show_progress_bar: bool = False,
        **_: Any,
    ) -> FloatArray:
        """Embeddings (n, H) of the texts of all batches, as queries or documents where mteb calls them so."""
        del task_metadata, hf_split, hf_subset
        roles = {"query": self._encoder.encode_query, "document": self._encoder.encode_document}
        encode = roles.get(prompt_type, self._encoder.encode)
        texts = [text for batch in inputs for text in batch["text"]]
        embeddings: FloatArray = encode(texts, batch_size=batch_size, show_progress_bar=show_progress_bar)
        return embeddings

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Any:
        """Cosines (n, m) of all rows with all, as a torch tensor, which mteb ranks."""
        import torch

        return torch.from_numpy(similarity(embeddings1, embeddings2))

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Any:
        """Cosines (n,) of row i with row i, as a torch tensor."""
        import torch

        return torch.from_numpy(similarity_pairwise(embeddings1, embeddings2))
