"""FastEncoder as an encoder of MTEB, whose tasks then run on it: `mteb.evaluate(MtebEncoder(encoder), tasks)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import MissingDependencyError
from ditto_fast.similarity import similarity, similarity_pairwise

FloatArray = NDArray[np.float32]


class MtebEncoder:
    """Implements the protocol that mteb 2 asks of an encoder.

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
        source = encoder.manifest.source
        name = str(source["model_id"])
        # mteb keys its results by "organisation/name"
        identity = f"{name if '/' in name else f'local/{name}'}-{encoder.pooling}-{encoder.manifest.head}"
        self.mteb_model_meta = ModelMeta.create_empty(
            overwrites={
                "name": identity,
                "revision": source["revision"] or str(source["content_hash"])[:16],
                "max_tokens": encoder.max_seq_length,
                "embed_dim": encoder.get_sentence_embedding_dimension(),
                "similarity_fn_name": "cosine",
            }
        )

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
        """Embeddings (n, H) of the texts of all batches; Ditto knows no prompts, so the task plays no part."""
        del task_metadata, hf_split, hf_subset, prompt_type
        texts = [text for batch in inputs for text in batch["text"]]
        embeddings: FloatArray = self._encoder.encode(texts, batch_size, show_progress_bar)
        return embeddings

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Any:
        """Cosines (n, m) of all rows with all, as a torch tensor, which mteb ranks."""
        import torch

        return torch.from_numpy(similarity(np.asarray(embeddings1), np.asarray(embeddings2)))

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Any:
        """Cosines (n,) of row i with row i, as a torch tensor."""
        import torch

        return torch.from_numpy(similarity_pairwise(np.asarray(embeddings1), np.asarray(embeddings2)))
