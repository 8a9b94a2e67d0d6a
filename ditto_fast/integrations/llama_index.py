"""LlamaIndex: an encoder as `BaseEmbedding`, for its indices and ingestion pipelines."""

from __future__ import annotations

import asyncio

from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import MissingDependencyError

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
except ImportError as error:
    raise MissingDependencyError(
        f"ditto_fast.integrations.llama_index needs llama-index-core: pip install 'ditto-fast[llama-index]' ({error})."
    ) from error


class DittoEmbedding(BaseEmbedding):
    """LlamaIndex embedding of an encoder.

    An ingestion cache tells models apart by `model_name` and the other fields, so they say all that vectors depend on.

    Args:
        encoder: What encodes; several adapters may share one.
        normalize_embeddings: Divide each embedding by its L2 norm, for stores that rank by inner product
            or by distance.
        embed_batch_size: Texts that LlamaIndex passes to the encoder at once, from 1 to 2048.

    Example:
        >>> from ditto_fast import FastEncoder
        >>> embedding = DittoEmbedding(FastEncoder("minilm-ditto"))
        >>> len(embedding.get_query_embedding("Who sleeps on the windowsill?"))
        384
        >>> [len(vector) for vector in embedding.get_text_embedding_batch(["The cat is asleep.", "Rates rose."])]
        [384, 384]
    """

    normalize_embeddings: bool = Field(default=False, description="Whether embeddings are divided by their L2 norm.")
    _encoder: FastEncoder = PrivateAttr()

    # LlamaIndex's own batch of 10 is too short for the encoder to sort by length and to spread over threads
    def __init__(
        self, encoder: FastEncoder, *, normalize_embeddings: bool = False, embed_batch_size: int = 512
    ) -> None:
        manifest = encoder.manifest
        model = f"{manifest.source['model_id']}@{str(manifest.source['content_hash'])[:12]}"
        how = f"{manifest.head} {encoder.pooling} {encoder.precision} {encoder.max_seq_length} tokens"
        how += "".join(f" {role}={prompt!r}" for role, prompt in sorted(encoder.prompts.items()))
        super().__init__(model_name=f"{model} {how}", embed_batch_size=embed_batch_size)
        self.normalize_embeddings = normalize_embeddings or manifest.normalize
        self._encoder = encoder

    @classmethod
    def class_name(cls) -> str:
        """Name that LlamaIndex stores and traces the class by."""
        return "DittoEmbedding"

    def _get_query_embedding(self, query: str) -> Embedding:
        vector: Embedding = self._encoder.encode_query(query, normalize_embeddings=self.normalize_embeddings).tolist()
        return vector

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        vectors: list[Embedding] = self._encoder.encode_document(
            texts, normalize_embeddings=self.normalize_embeddings
        ).tolist()
        return vectors

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return await asyncio.to_thread(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)
