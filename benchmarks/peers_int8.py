"""The peers' own int8: each quantised as its maker's guide has it, on the same checkpoint or on our graph."""

from __future__ import annotations

import logging
import platform
from typing import Any

from job import Encode, Setting
from peers_onnx import openvino, openvino_requests
from peers_torch import sentence_transformers_onnx
from record import processor
from workspace import plain_onnx

from ditto_fast.export.precision import calibration_feeds
from ditto_fast.tokenizer import Tokenizer

OPENVINO_INT8_TOKENS = 1024  # of a batch
_DITTO_NODES = ("/diagonal/.*", "/Add", "/MatMul", "/Gather")  # of the embedding graph: the head, and the pooled sum


def sentence_transformers_int8(setting: Setting) -> Encode:
    """sentence-transformers on its ONNX backend, quantised by its own function for this CPU's instructions."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.backend import export_dynamic_quantized_onnx_model

    folder = plain_onnx(setting.checkpoint)
    kind: Any = _instructions()
    suffix = f"int8_{kind}"
    if not (folder / "onnx" / f"model_{suffix}.onnx").is_file():
        arguments = {"provider": "CPUExecutionProvider", "file_name": "onnx/model.onnx"}
        model = SentenceTransformer(str(folder), backend="onnx", device="cpu", model_kwargs=arguments)
        export_dynamic_quantized_onnx_model(model, kind, str(folder), file_suffix=suffix)
    return sentence_transformers_onnx(setting, f"onnx/model_{suffix}.onnx")


def _instructions() -> str:
    """The kind of CPU that sentence-transformers quantises for."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "arm64"
    return "avx512_vnni" if "avx512_vnni" in processor().get("instructions", ()) else "avx2"


def openvino_int8(setting: Setting) -> Encode:
    """OpenVINO on our embedding graph, quantised by NNCF's defaults for transformers on the sentences that ours is.

    Ditto's part stays in fp32, as in ours: quantised too, it costs more of the vector than all else together.
    """
    return openvino(setting, OPENVINO_INT8_TOKENS, _quantized)


def openvino_int8_requests(setting: Setting) -> Encode:
    """The same with as many requests at once as there are threads."""
    return openvino_requests(setting, OPENVINO_INT8_TOKENS, _quantized)


def _quantized(model: Any, tokenizer: Tokenizer, names: list[str]) -> Any:
    import nncf

    nncf.set_log_level(logging.ERROR)
    feeds = calibration_feeds(tokenizer, names)
    return nncf.quantize(
        model,
        nncf.Dataset(feeds),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(feeds),
        ignored_scope=nncf.IgnoredScope(patterns=list(_DITTO_NODES), validate=False),
    )
