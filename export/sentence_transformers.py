"""An export as a module of sentence-transformers: SentenceTransformer("minilm-ditto") gives Ditto embeddings."""

from __future__ import annotations

import shutil
from typing import Any

import torch
from sentence_transformers.base.modules import InputModule

from ditto_fast.encoder import FastEncoder
from ditto_fast.prompts import prompted
from ditto_fast.texts import as_texts


class DittoModule(InputModule):  # type: ignore[misc]  # its package is skipped by the type checker
    """Tokenizes, batches and runs by FastEncoder: on the CPU, wherever sentence-transformers puts its tensors.

    Args:
        encoder: The export, opened.

    Example:
        >>> from sentence_transformers import SentenceTransformer
        >>> SentenceTransformer("minilm-ditto").encode(["A man is eating food."]).shape
        (1, 384)
    """

    def __init__(self, encoder: FastEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        *,
        token: str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        **_: object,
    ) -> DittoModule:
        """Opens an export directory or a hub id, as SentenceTransformer(...) asks for."""
        return cls(
            FastEncoder.from_pretrained(
                model_name_or_path,
                revision=revision,
                token=token,
                cache_dir=cache_folder,
                local_files_only=local_files_only,
            )
        )

    def save(self, output_path: str, *_: object, **__: object) -> None:
        """Copies the export directory, in which a length that was set since is not."""
        shutil.copytree(self.encoder.path.parent, output_path, dirs_exist_ok=True)

    def preprocess(self, inputs: list[str], prompt: str | None = None, **_: object) -> dict[str, Any]:
        """The texts themselves, with the prompt in front: the encoder tokenizes.

        Raises:
            TextTypeError: An item is no string; its position is that among the longest first, as they come here.
        """
        return {"texts": prompted(as_texts(inputs)[0], prompt or "")}

    def forward(self, features: dict[str, Any], **_: object) -> dict[str, Any]:
        """Adds sentence_embedding (B, H)."""
        embeddings = self.encoder.encode(features["texts"], batch_size=len(features["texts"]))
        return {**features, "sentence_embedding": torch.from_numpy(embeddings)}

    @property
    def max_seq_length(self) -> int:
        """Length in tokens that texts are cut to; may be set."""
        return self.encoder.max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        self.encoder.max_seq_length = value

    def get_embedding_dimension(self) -> int:
        """Width H of an embedding."""
        return self.encoder.get_sentence_embedding_dimension()
