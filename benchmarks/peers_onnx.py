"""The peers that run an ONNX graph on something else than ONNX Runtime in sentence-transformers or in ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from job import Encode, Setting, Vectors
from numpy.typing import NDArray
from workspace import exported, plain_onnx

from ditto_fast.artifact import Manifest, graph_file
from ditto_fast.batches import CPU_RULE, IntArray, graph_inputs, pad, plan_batches
from ditto_fast.errors import OptionError
from ditto_fast.pooling import normalize
from ditto_fast.tokenizer import Tokenizer

OPENVINO_TOKENS = 512  # of a batch
_Batches = Iterator[tuple[IntArray, dict[str, NDArray[np.int64]]]]
Prepare = Callable[[Any, Tokenizer, list[str]], Any]
_FASTEMBED_NAME = "ditto-fast/benchmark"


def openvino(setting: Setting, tokens: int = OPENVINO_TOKENS, prepared: Prepare | None = None) -> Encode:
    """OpenVINO on our embedding graph without ONNX Runtime's own operators, by batches of so many tokens.

    Args:
        setting: What every contender gets.
        tokens: Of a batch at most.
        prepared: What is compiled in place of the graph, from it, its tokenizer and the names of its inputs.
    """
    hidden = Manifest.read(setting.export).hidden_size
    compiled, batches = _openvino(setting, tokens, {"PERFORMANCE_HINT": "LATENCY"}, prepared)

    def encode(sentences: list[str]) -> Vectors:
        vectors = np.empty((len(sentences), hidden), np.float32)
        for rows, inputs in batches(sentences):
            vectors[rows] = compiled(inputs)[compiled.output(0)]
        return vectors

    return encode


def openvino_requests(setting: Setting, tokens: int = OPENVINO_TOKENS, prepared: Prepare | None = None) -> Encode:
    """The same with the throughput hint and as many requests at once as there are threads."""
    import openvino as ov

    hidden = Manifest.read(setting.export).hidden_size
    hints = {"PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": setting.threads}
    compiled, batches = _openvino(setting, tokens, hints, prepared)
    requests: Any = ov.AsyncInferQueue(compiled, setting.threads)

    def encode(sentences: list[str]) -> Vectors:
        vectors = np.empty((len(sentences), hidden), np.float32)

        def keep(request: Any, rows: IntArray) -> None:
            vectors[rows] = request.get_output_tensor(0).data

        requests.set_callback(keep)
        for rows, inputs in batches(sentences):
            requests.start_async(inputs, rows)
        requests.wait_all()
        return vectors

    return encode


def _openvino(
    setting: Setting, tokens: int, hints: dict[str, Any], prepared: Prepare | None = None
) -> tuple[Any, Callable[[list[str]], _Batches]]:
    """The compiled graph, and what makes its batches: positions of the sentences, and inputs."""
    import openvino as ov

    folder = exported(setting.checkpoint, setting.head, optimize="basic", precision=("fp32",))
    manifest = Manifest.read(folder)
    tokenizer = Tokenizer(folder, setting.max_seq_length or manifest.max_seq_length)
    core: Any = ov.Core()
    # fp32 by name: some CPUs would compute in bf16
    settings = {**hints, "INFERENCE_NUM_THREADS": setting.threads, "INFERENCE_PRECISION_HINT": "f32"}
    model = core.read_model(str(folder / graph_file("embedding")))
    names = [port.any_name for port in model.inputs]
    if prepared is not None:
        model = prepared(model, tokenizer, names)
    compiled: Any = core.compile_model(model, "CPU", settings)

    def batches(sentences: list[str]) -> _Batches:
        token_ids = tokenizer(sentences)
        for rows in plan_batches([len(ids) for ids in token_ids], replace(CPU_RULE, max_tokens=tokens)):
            ids, mask = pad([token_ids[i] for i in rows], manifest.pad_token_id)
            yield rows, graph_inputs(ids, mask, names)

    return compiled, batches


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
