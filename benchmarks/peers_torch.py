"""The peers that run on torch, and sentence-transformers on its two backends.

What only some of them need is imported there: the memory of a process is to be that of its contender.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import transformers
from job import Encode, Setting, Vectors

from ditto_fast.export.reference import eager_outputs
from ditto_fast.session import import_onnxruntime

Batch = dict[str, Any]


def in_batches(embed: Callable[[list[str]], Vectors], size: int, by_length: bool) -> Encode:
    """A function that embeds any number of sentences, from one that embeds a batch."""

    def encode(sentences: list[str]) -> Vectors:
        order: Sequence[int] = range(len(sentences))
        if by_length:
            order = sorted(order, key=lambda i: -len(sentences[i]))
        rows = [embed([sentences[i] for i in order[start : start + size]]) for start in range(0, len(sentences), size)]
        vectors = np.empty((len(sentences), rows[0].shape[1]), np.float32)
        vectors[list(order)] = np.concatenate(rows)
        return vectors

    return encode


def _tokenize(tokenizer: Any, sentences: list[str], setting: Setting, tensors: str) -> Batch:
    limit: Any = {} if setting.max_seq_length is None else {"truncation": True, "max_length": setting.max_seq_length}
    return dict(tokenizer(sentences, padding=True, return_tensors=tensors, **limit))


def _eager_batch(setting: Setting) -> Callable[[list[str]], Vectors]:
    torch.set_num_threads(setting.threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(setting.export)
    encoder: Any = transformers.AutoModel.from_pretrained(setting.checkpoint, attn_implementation="eager").eval()

    def embed(sentences: list[str]) -> Vectors:
        inputs = _tokenize(tokenizer, sentences, setting, "np")
        return eager_outputs(encoder, inputs, setting.head)["sentence_embedding"]

    return embed


def eager(setting: Setting) -> Encode:
    """The authors' way: every layer's attentions materialised, batches of 128 in input order."""
    return in_batches(_eager_batch(setting), size=128, by_length=False)


def eager_sorted(setting: Setting) -> Encode:
    """The authors' way on length-sorted batches of 32, as a careful user would run it."""
    return in_batches(_eager_batch(setting), size=32, by_length=True)


def sdpa(setting: Setting) -> Encode:
    """The encoder as transformers loads it, SDPA in every layer, the head's q and k tapped."""
    return _tapped(setting, lambda pooling: pooling)


def compiled(setting: Setting) -> Encode:
    """The same by torch.compile as its guide for CPUs has it: shapes left open, weights packed in advance."""
    torch.compiler.reset()  # or what an earlier model of this process left counts against the limit of graphs
    return _tapped(setting, lambda pooling: torch.compile(pooling, dynamic=True, options={"freezing": True}))


def _tapped(setting: Setting, prepared: Callable[[Any], Callable[..., torch.Tensor]]) -> Encode:
    from ditto_fast.kernels import DittoPooling

    torch.set_num_threads(setting.threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(setting.export)
    encoder = transformers.AutoModel.from_pretrained(setting.checkpoint).eval()
    pooling = prepared(DittoPooling(encoder, setting.head))

    def embed(sentences: list[str]) -> Vectors:
        inputs = _tokenize(tokenizer, sentences, setting, "pt")
        with torch.inference_mode():
            vectors: Vectors = pooling(**inputs).numpy()
        return vectors

    return in_batches(embed, size=32, by_length=True)


def sentence_transformers(setting: Setting) -> Encode:
    """sentence-transformers on torch, its defaults (batches of 32, sorted by length)."""
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(setting.threads)
    model = SentenceTransformer(str(setting.checkpoint), device="cpu")
    return _encode_of(model, setting)


def sentence_transformers_onnx(setting: Setting, file: str = "onnx/model.onnx") -> Encode:
    """sentence-transformers on its ONNX backend, with Optimum's export of the checkpoint or another file beside it."""
    from sentence_transformers import SentenceTransformer
    from workspace import plain_onnx

    options = import_onnxruntime().SessionOptions()
    options.intra_op_num_threads = setting.threads
    arguments = {"provider": "CPUExecutionProvider", "session_options": options, "file_name": file}
    folder = str(plain_onnx(setting.checkpoint))
    return _encode_of(SentenceTransformer(folder, backend="onnx", device="cpu", model_kwargs=arguments), setting)


def _encode_of(model: Any, setting: Setting) -> Encode:
    if setting.max_seq_length is not None:
        model.max_seq_length = setting.max_seq_length
    return lambda sentences: np.asarray(model.encode(sentences, normalize_embeddings=True), dtype=np.float32)
