"""The peers that run an ONNX graph on something else than ONNX Runtime in sentence-transformers or in ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from job import Encode, Setting, Vectors
from workspace import exported, plain_onnx

from ditto_fast.artifact import Manifest, graph_file
from ditto_fast.batches import CPU_RULE, graph_inputs, pad, plan_batches
from ditto_fast.errors import OptionError
from ditto_fast.pooling import normalize
from ditto_fast.tokenizer import Tokenizer

_OPENVINO_TOKENS = 512  # of a batch
_FASTEMBED_NAME = "ditto-fast/benchmark"


def openvino(setting: Setting) -> Encode:
    """OpenVINO on our embedding graph without ONNX Runtime's own operators (optimize="basic")."""
    import openvino as ov

    folder = exported(setting.checkpoint, setting.head, optimize="basic", precision=("fp32",))
    manifest = Manifest.read(folder)
    tokenizer = Tokenizer(folder, setting.max_seq_length or manifest.max_seq_length)
    core: Any = ov.Core()
    # fp32 by name: some CPUs would compute in bf16
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": setting.threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled: Any = core.compile_model(str(folder / graph_file("embedding")), "CPU", settings)
    names = [port.any_name for port in compiled.inputs]

    def encode(sentences: list[str]) -> Vectors:
        token_ids = tokenizer(sentences)
        vectors = np.empty((len(sentences), manifest.hidden_size), np.float32)
        for batch in plan_batches([len(ids) for ids in token_ids], replace(CPU_RULE, max_tokens=_OPENVINO_TOKENS)):
            ids, mask = pad([token_ids[i] for i in batch], manifest.pad_token_id)
            vectors[batch] = compiled(graph_inputs(ids, mask, names))[compiled.output(0)]
        return vectors

    return encode


def openvino_backend(setting: Setting) -> Encode:
    """sentence-transformers on its OpenVINO backend, which exports the checkpoint itself."""
    from sentence_transformers import SentenceTransformer

    config = {"INFERENCE_NUM_THREADS": setting.threads, "INFERENCE_PRECISION_HINT": "f32"}
    arguments = {"export": True, "ov_config": config}
    model: Any = SentenceTransformer(str(setting.checkpoint), backend="openvino", device="cpu", model_kwargs=arguments)
    if setting.max_seq_length is not None:
        model.max_seq_length = setting.max_seq_length
    return lambda sentences: np.asarray(model.encode(sentences, normalize_embeddings=True), dtype=np.float32)


def fastembed(setting: Setting) -> Encode:
    """Fastembed on Optimum's export, its defaults.

    Raises:
        OptionError: Another length than the checkpoint's own is asked for, which it has no option for.
    """
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    if setting.max_seq_length is not None:
        raise OptionError("fastembed has no option for the length that texts are cut to.")
    folder = plain_onnx(setting.checkpoint)
    if _FASTEMBED_NAME not in {model["model"] for model in TextEmbedding.list_supported_models()}:
        TextEmbedding.add_custom_model(
            model=_FASTEMBED_NAME,
            pooling=PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(url="local"),
            dim=Manifest.read(setting.export).hidden_size,
            model_file="onnx/model.onnx",
        )
    model: Any = TextEmbedding(_FASTEMBED_NAME, specific_model_path=str(folder), threads=setting.threads)
    # its mean is taken in another order, so it is divided by its norm once more
    return lambda sentences: normalize(np.stack(list(model.embed(sentences))).astype(np.float32))
