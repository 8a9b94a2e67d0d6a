"""int8 graphs: static activation scales after SmoothQuant, so that a vector does not follow its batch.

Dynamic quantisation takes one activation scale a tensor, and with it a sentence's vector follows its
batch-mates. Here each projection x W becomes (x / s) (s W) with s from SmoothQuant (Xiao et al., 2023: s_k =
max|x_k|^alpha / max|W_k|^(1 - alpha)), x / s is quantised to uint8 with a range fixed by calibration, and s W to
int8, a scale a column. Weights use 7 of the 8 bits: without VNNI the CPU adds two products in 16 bits, which
saturate at 8. What is not a projection stays fp32, the Ditto part and the embedding table included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from ditto_fast.export.biases import ProjectionBiases
from ditto_fast.export.rewrite import replace_nodes
from ditto_fast.session import import_onnxruntime

onnxruntime = import_onnxruntime()

FloatArray = NDArray[np.float32]

# SmoothQuant's alpha by what makes the activation; others have no outlier channels and are not smoothed
_ALPHA = {"LayerNormalization": 0.6, "SkipLayerNormalization": 0.6, "BiasGelu": 0.7, "Gelu": 0.7}
_WEIGHT_LIMIT = 63


@dataclass(frozen=True)
class Quantization:
    """How one activation is quantised: x / smooth (K,), then uint8 by scale and zero point."""

    smooth: FloatArray | None
    scale: np.float32
    zero_point: np.uint8


def quantize(model: onnx.ModelProto, calibration: Sequence[Mapping[str, NDArray[np.int64]]]) -> onnx.ModelProto:
    """Returns the graph with every projection (MatMul with a constant matrix) in int8.

    Args:
        model: An fp32 graph, optimised.
        calibration: Feeds of the graph, neutral text, one sentence each so that no padding is seen.
    """
    quantized = onnx.ModelProto()
    quantized.CopyFrom(model)
    graph = quantized.graph
    weights = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 2}
    sites: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in weights:
            sites[node.input[0]].append(node)
    producers = {output: node.op_type for node in graph.node for output in node.output}
    samples = _record(model, list(sites), calibration)
    rewrite = _Rewrite(graph, {node.output[0] for nodes in sites.values() for node in nodes})
    for activation, nodes in sites.items():
        matrices = [numpy_helper.to_array(weights[node.input[1]]) for node in nodes]
        settings = _calibrate(samples[activation], matrices, _ALPHA.get(producers.get(activation, "")))
        rewrite.site(activation, nodes, matrices, settings)
    rewrite.finish()
    if "com.microsoft" not in {entry.domain for entry in quantized.opset_import}:
        quantized.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return quantized


def _record(
    model: onnx.ModelProto, names: list[str], calibration: Iterable[Mapping[str, NDArray[np.int64]]]
) -> dict[str, FloatArray]:
    """Every value (tokens, K) that the named activations take on the calibration text."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    session = onnxruntime.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
    rows: dict[str, list[FloatArray]] = defaultdict(list)
    for feeds in calibration:
        for name, value in zip(names, session.run(names, dict(feeds)), strict=True):
            rows[name].append(value.reshape(-1, value.shape[-1]))
    return {name: np.concatenate(values) for name, values in rows.items()}


def _calibrate(samples: FloatArray, matrices: list[FloatArray], alpha: float | None) -> Quantization:
    """Chooses smoothing and the uint8 range with the least squared error on `samples` (tokens, K)."""
    smooth = None
    if alpha is not None:
        largest_x = np.abs(samples).max(axis=0)
        largest_w = np.max([np.abs(matrix).max(axis=1) for matrix in matrices], axis=0)
        smooth = np.maximum(largest_x, 1e-5) ** alpha / np.maximum(largest_w, 1e-5) ** (1 - alpha)
        samples = samples / smooth
    low, high = min(0.0, float(samples.min())), max(1e-6, float(samples.max()))
    best = (np.inf, np.float32(1), np.uint8(0))
    for shrink in np.linspace(0.5, 1.0, 26):
        scale = np.float32((high - low) * shrink / 255)
        zero_point = np.uint8(np.clip(np.round(-low * shrink / scale), 0, 255))
        integers = np.clip(np.round(samples / scale) + zero_point, 0, 255)
        error = float(np.square((integers - zero_point) * scale - samples).mean())
        best = min(best, (error, scale, zero_point))
    return Quantization(smooth, best[1], best[2])


class _Rewrite:
    """Replaces projections in a graph, in place."""

    def __init__(self, graph: onnx.GraphProto, projections: set[str]) -> None:
        self._graph = graph
        self._biases = ProjectionBiases(graph, projections)
        self._new: dict[str, list[onnx.NodeProto]] = {}  # what stands in a node's place, by its output

    def _constant(self, name: str, value: npt.ArrayLike) -> str:
        self._graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def site(
        self, activation: str, nodes: list[onnx.NodeProto], matrices: list[FloatArray], settings: Quantization
    ) -> None:
        """Quantises an activation once, and every projection that takes it."""
        source = activation
        before = []
        if settings.smooth is not None:
            inverse = self._constant(f"{activation}_smooth", (1 / settings.smooth).astype(np.float32))
            source = f"{activation}_smoothed"
            before.append(helper.make_node("Mul", [activation, inverse], [source]))
        scale = self._constant(f"{activation}_scale", settings.scale)
        zero_point = self._constant(f"{activation}_zero_point", settings.zero_point)
        integers = f"{activation}_uint8"
        before.append(helper.make_node("QuantizeLinear", [source, scale, zero_point], [integers]))
        for node, matrix in zip(nodes, matrices, strict=True):
            if settings.smooth is not None:
                matrix = matrix * settings.smooth[:, None]
            self._new[node.output[0]] = [*before, self._projection(node, matrix, integers, scale, zero_point)]
            before = []

    def _projection(
        self, node: onnx.NodeProto, matrix: FloatArray, integers: str, scale: str, zero_point: str
    ) -> onnx.NodeProto:
        name = node.input[1]
        scales = np.maximum(np.abs(matrix).max(axis=0), 1e-9).astype(np.float32) / _WEIGHT_LIMIT
        columns = self._constant(f"{name}_int8", np.round(matrix / scales).astype(np.int8))
        column_scales = self._constant(f"{name}_scales", scales)
        inputs = [integers, columns, scale, column_scales, zero_point]
        output = projected = node.output[0]
        bias, follower = self._biases.of(projected)
        if bias is not None:
            inputs += ["", bias]
        if follower is not None:
            self._new[follower.output[0]] = []
            if follower.op_type == "Add":
                output = follower.output[0]
            else:  # Gelu without the bias is the faster kernel
                gelu = helper.make_node("Gelu", [projected], follower.output, follower.name, domain="com.microsoft")
                self._new[follower.output[0]].append(gelu)
        return helper.make_node(
            "MatMulIntegerToFloat", inputs, [output], name=f"{node.name}_int8", domain="com.microsoft"
        )

    def finish(self) -> None:
        """Puts the new nodes in place."""
        replace_nodes(self._graph, [new for node in self._graph.node for new in self._new.get(node.output[0], [node])])
