"""LangChain: an encoder as `Embeddings`, for its vector stores and retrievers."""

from __future__ import annotations

from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import MissingDependencyError, TextTypeError
from ditto_fast.texts import as_texts, describe

try:
    from langchain_core.embeddings import Embeddings
except ImportError as error:
    raise MissingDependencyError(
        f"ditto_fast.integrations.langchain needs langchain-core: pip install 'ditto-fast[langchain]' ({error})."
    ) from error


class DittoEmbeddings(Embeddings):
    """LangChain embeddings of an encoder; the asynchronous methods are LangChain's own, which use a thread.

    Args:
        encoder: What encodes; several adapters may share one.
        normalize_embeddings: Divide each embedding by its L2 norm, for stores that rank by inner product
            or by distance.

    Example:
        >>> from ditto_fast import FastEncoder
        >>> embeddings = DittoEmbeddings(FastEncoder("minilm-ditto"))
        >>> len(embeddings.embed_query("Who sleeps on the windowsill?"))
        384
    """

    def __init__(self, encoder: FastEncoder, *, normalize_embeddings: bool = False) -> None:
        self._encoder = encoder
        self._normalize_embeddings = normalize_embeddings

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embeds texts to search in.

        Returns:
            Embeddings (n, H), one list a text, in the order of the input.

        Raises:
            TextTypeError: It is one string, or holds something else than strings.

        Example:
            >>> from ditto_fast import FastEncoder
            >>> embeddings = DittoEmbeddings(FastEncoder("minilm-ditto"))
            >>> [len(vector) for vector in embeddings.embed_documents(["The cat is asleep.", "Rates rose."])]
            [384, 384]
        """
        documents, single = as_texts(texts)
        if single:
            raise TextTypeError("embed_documents takes a list of texts; got one string: pass [text].")
        vectors: list[list[float]] = self._encoder.encode_document(
            documents, normalize_embeddings=self._normalize_embeddings
        ).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embeds a text to search with.

        Returns:
            Embedding (H,).

        Raises:
            TextTypeError: It is no string.

        Example:
            >>> from ditto_fast import FastEncoder
            >>> len(DittoEmbeddings(FastEncoder("minilm-ditto")).embed_query("Who sleeps?"))
            384
        """
        if not isinstance(text, str):
            raise TextTypeError(f"embed_query takes one text; got {describe(text)}. Several go to embed_documents.")
        vector: list[float] = self._encoder.encode_query(text, normalize_embeddings=self._normalize_embeddings).tolist()
        return vector
