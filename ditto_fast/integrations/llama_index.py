"""LlamaIndex: an encoder as `BaseEmbedding`, for its indices and ingestion pipelines."""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import Any

from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import MissingDependencyError, OptionError, TextTypeError
from ditto_fast.integrations.identity import identity_of
from ditto_fast.prompts import listed
from ditto_fast.texts import as_texts, describe

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.storage.kvstore.types import BaseKVStore
except ImportError as error:
    raise MissingDependencyError(
        f"ditto_fast.integrations.llama_index needs llama-index-core: pip install 'ditto-fast[llama-index]' ({error})."
    ) from error


def _check_cache(encoder: FastEncoder, cache: BaseKVStore | None) -> None:
    prompts = encoder.prompts
    if cache is not None and prompts.get("query") != prompts.get("document"):
        raise OptionError(
            "embeddings_cache keeps embeddings by their texts alone, so it needs the same prompt for queries and "
            f"documents; got {listed(prompts)}. Leave it out: an IngestionPipeline's own cache keeps documents."
        )


def _as_list(texts: list[str]) -> list[str]:
    several, single = as_texts(texts)
    if single:
        raise TextTypeError("get_text_embedding_batch takes a list of texts; got one string: pass [text].")
    return several


class DittoEmbedding(BaseEmbedding):
    """LlamaIndex embedding of an encoder.

    An ingestion cache tells models apart by `model_name` and the other fields, so they say all that vectors depend on.

    Args:
        encoder: What encodes; several adapters may share one.
        normalize_embeddings: Divide each embedding by its L2 norm, for stores that rank by inner product
            or by distance.
        embed_batch_size: Texts that LlamaIndex passes to the encoder at once, from 1 to 2048.
        callback_manager: LlamaIndex's, as are the next two.
        num_workers: Batches that asynchronous calls embed side by side.
        embeddings_cache: Keeps embeddings by their texts alone: one for each model, and none where the encoder's
            prompts for queries and for documents differ.

    Raises:
        OptionError: embeddings_cache is given where those prompts differ, there or when it is set later.

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
        self,
        encoder: FastEncoder,
        *,
        normalize_embeddings: bool = False,
        embed_batch_size: int = 512,
        callback_manager: CallbackManager | None = None,
        num_workers: int | None = None,
        embeddings_cache: BaseKVStore | None = None,
    ) -> None:
        _check_cache(encoder, embeddings_cache)
        super().__init__(
            model_name=identity_of(encoder),
            embed_batch_size=embed_batch_size,
            callback_manager=callback_manager or CallbackManager([]),
            num_workers=num_workers,
            embeddings_cache=embeddings_cache,
        )
        self.normalize_embeddings = normalize_embeddings or encoder.manifest.normalize
        self._encoder = encoder

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "embeddings_cache":
            _check_cache(self._encoder, value)
        super().__setattr__(name, value)

    @classmethod
    def class_name(cls) -> str:
        """Name that LlamaIndex stores and traces the class by."""
        return "DittoEmbedding"

    def to_dict(self, **options: Any) -> dict[str, Any]:
        """The fields, from which an ingestion cache makes its key; the encoder's length may have been set since."""
        self.model_name = identity_of(self._encoder)
        fields: dict[str, Any] = super().to_dict(**options)
        return fields

    @classmethod
    def from_dict(cls, data: dict[str, Any], *, encoder: FastEncoder | None = None, **options: Any) -> DittoEmbedding:
        """The embedding of fields that `to_dict` gave, and of an encoder.

        Raises:
            OptionError: No encoder is given: fields do not say where its export is.
            TypeError: An option is none of the constructor's.
        """
        if encoder is None:
            raise OptionError("The fields hold no encoder: from_dict(fields, encoder=FastEncoder(onnx_path)).")
        names = ("normalize_embeddings", "embed_batch_size", "num_workers", "embeddings_cache")
        kept: dict[str, Any] = {name: data[name] for name in names if name in data}
        return cls(encoder, **(kept | options))

    @classmethod
    def model_validate(cls, obj: Any, **_: Any) -> DittoEmbedding:
        """An embedding as it is; fields alone are refused as by `from_dict`."""
        return obj if isinstance(obj, cls) else cls.from_dict(obj)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **_: Any) -> DittoEmbedding:
        """Refused as by `from_dict`."""
        return cls.from_dict(json.loads(json_data))

    def __getstate__(self) -> dict[str, Any]:
        pickle.dumps(self._encoder)  # raises: LlamaIndex would leave out an encoder that cannot be pickled
        state: dict[str, Any] = super().__getstate__()
        return state

    def get_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **options: Any
    ) -> list[Embedding]:
        """Embeds texts to search in, as LlamaIndex does; it would walk one string letter by letter.

        Raises:
            TextTypeError: It is one string, or holds something else than strings.
        """
        vectors: list[Embedding] = super().get_text_embedding_batch(_as_list(texts), show_progress, **options)
        return vectors

    async def aget_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **options: Any
    ) -> list[Embedding]:
        """`get_text_embedding_batch`, asynchronously.

        Raises:
            TextTypeError: It is one string, or holds something else than strings.
        """
        vectors: list[Embedding] = await super().aget_text_embedding_batch(_as_list(texts), show_progress, **options)
        return vectors

    def _get_query_embedding(self, query: str) -> Embedding:
        if not isinstance(query, str):
            raise TextTypeError(f"get_query_embedding takes one text; got {describe(query)}. Ask for one at a time.")
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
