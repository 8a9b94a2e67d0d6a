"""Graph optimisation, saved in a form that any CPU can load.

full: onnxruntime.transformers' fusions (attention, bias + GELU, layer normalisation). On CPU the fused skip +
layer normalisation is slower than the two apart (docs/performance.md), so only a GPU graph gets it. No
level that ONNX Runtime marks as depending on the hardware is ever saved.
"""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from ditto_fast.export.checkpoint import Checkpoint

LEVELS = ("none", "basic", "full")
FUSED_OPERATORS = (
    "MultiHeadAttention",
    "Attention",
    "BiasGelu",
    "Gelu",
    "LayerNormalization",
    "SkipLayerNormalization",
)


def count_fused(model: onnx.ModelProto) -> dict[str, int]:
    """How many of each of `FUSED_OPERATORS` a graph has."""
    counts = Counter(node.op_type for node in model.graph.node)
    return {name: counts[name] for name in FUSED_OPERATORS if counts[name]}


def optimize(path: Path, checkpoint: Checkpoint, level: str, gpu: bool) -> onnx.ModelProto:
    """Optimises a graph file.

    Args:
        path: The .onnx file as it was traced.
        checkpoint: What it was traced from.
        level: One of `LEVELS`. "full" is "basic" where the fuser has no pattern for the architecture.
        gpu: Whether the graph is for a GPU.
    """
    if level == "none":
        return onnx.load(path)
    fusion = checkpoint.architecture.fusion
    if level == "full" and fusion is not None:
        config = checkpoint.model.config
        return _fuse(path, fusion, config.num_attention_heads, config.hidden_size, gpu)
    return _basic(path)


def _basic(path: Path) -> onnx.ModelProto:
    """Constant folding and removal of redundant nodes: the runtime's level that is the same on all hardware."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        options.optimized_model_filepath = str(Path(folder) / path.name)
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def _fuse(path: Path, fusion: str, num_heads: int, hidden_size: int, gpu: bool) -> onnx.ModelProto:
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    options: Any = FusionOptions(fusion)
    options.use_multi_head_attention = True
    options.enable_skip_layer_norm = gpu
    options.enable_bias_skip_layer_norm = gpu
    options.enable_embed_layer_norm = False  # its output is h0, which must stay visible
    with _quiet(), redirect_stdout(StringIO()):  # it prints where its shape inference gives up
        fused = optimize_model(
            str(path),
            fusion,
            num_heads=num_heads,
            hidden_size=hidden_size,
            optimization_options=options,
            opt_level=0,
        )
    fused.topological_sort()
    model: onnx.ModelProto = fused.model
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """The fuser logs every pattern that it does not find."""
    logger = logging.getLogger("onnxruntime.transformers")
    names = [name for name in logging.root.manager.loggerDict if name.startswith("fusion") or "onnx_model" in name]
    loggers = [logger, *map(logging.getLogger, names)]
    levels = [entry.level for entry in loggers]
    try:
        for entry in loggers:
            entry.setLevel(logging.ERROR)
        yield
    finally:
        for entry, level in zip(loggers, levels, strict=True):
            entry.setLevel(level)
