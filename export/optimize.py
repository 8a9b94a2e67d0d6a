"""Graph optimisation, saved in a form that any CPU can load.

full: onnxruntime.transformers' fusions (attention, bias + GELU, layer normalisation). On CPU the fused skip +
layer normalisation is slower than the two apart, so only a GPU graph gets it. No level that ONNX Runtime marks as
depending on the hardware is ever saved. On CPU, attention over long texts is faster without a mask than with one that
masks nothing (suite graphs of docs/benchmarks.md), and length-sorted batches are often of one length: each attention of
a CPU graph is therefore an If on whether anything is padded, weights outside.
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
from onnx import TensorProto, helper

from ditto_fast.export.rewrite import replace_nodes
from ditto_fast.session import import_onnxruntime

onnxruntime = import_onnxruntime()

_MASK = 4  # position of the mask among the inputs of MultiHeadAttention
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
    counts["MultiHeadAttention"] += counts["If"]  # two branches of one attention
    return {name: counts[name] for name in FUSED_OPERATORS if counts[name]}


def optimize(path: Path, config: Any, level: str, gpu: bool) -> onnx.ModelProto:
    """Optimises a graph file.

    Args:
        path: The .onnx file as it was traced.
        config: The checkpoint's config.
        level: One of `LEVELS`.
        gpu: Whether the graph is for a GPU.
    """
    if level == "none":
        return onnx.load(path)
    if level == "basic":
        return _basic(path)
    return _fuse(path, config.num_attention_heads, config.hidden_size, gpu)


def _basic(path: Path) -> onnx.ModelProto:
    """Constant folding and removal of redundant nodes: the runtime's level that is the same on all hardware."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        options.optimized_model_filepath = str(Path(folder) / path.name)
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def _fuse(path: Path, num_heads: int, hidden_size: int, gpu: bool) -> onnx.ModelProto:
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    options: Any = FusionOptions("bert")
    options.use_multi_head_attention = True
    options.enable_skip_layer_norm = gpu
    options.enable_bias_skip_layer_norm = gpu
    options.enable_embed_layer_norm = False  # its output is h0, which must stay visible
    with _quiet(), redirect_stdout(StringIO()):  # it prints where its shape inference gives up
        fused = optimize_model(
            str(path),
            "bert",
            num_heads=num_heads,
            hidden_size=hidden_size,
            optimization_options=options,
            opt_level=0,
        )
    fused.topological_sort()
    if not gpu:  # there the condition would have to travel to the host
        _skip_empty_masks(fused.model.graph)
    model: onnx.ModelProto = fused.model
    return model


def _skip_empty_masks(graph: onnx.GraphProto) -> None:
    """Puts each masked attention into an If with a mask-free branch, in place."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type == "MultiHeadAttention" and len(node.input) > _MASK and node.input[_MASK]:
            if not any(made.output[0] == "nothing_is_padded" for made in nodes):
                nodes.append(helper.make_node("ReduceMin", ["attention_mask"], ["smallest_mask"], keepdims=0))
                nodes.append(helper.make_node("Cast", ["smallest_mask"], ["nothing_is_padded"], to=TensorProto.BOOL))
            branches = {"then_branch": _branch(node, masked=False), "else_branch": _branch(node, masked=True)}
            nodes.append(helper.make_node("If", ["nothing_is_padded"], node.output, name=node.name, **branches))
        else:
            nodes.append(node)
    replace_nodes(graph, nodes)


def _branch(attention: onnx.NodeProto, masked: bool) -> onnx.GraphProto:
    node = onnx.NodeProto()
    node.CopyFrom(attention)
    node.name = f"{attention.name}_{'masked' if masked else 'unmasked'}"
    node.output[0] = f"{attention.output[0]}_{'masked' if masked else 'unmasked'}"
    if not masked:
        node.input[_MASK] = ""
        while not node.input[-1]:
            node.input.pop()
    output = helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)
    return helper.make_graph([node], node.name, [], [output])


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
